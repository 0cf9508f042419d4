"""The measurements, their order and their noise: fixed and paid for before any row is read."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, sqrt
from typing import Literal

from ptklib.accounting import gaussian_sigma, least_multiplier
from ptklib.embeddings.spectrum import rounding
from ptklib.events import Composed, DiscreteGaussian, Event, Parallel, PoissonSampled
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError
from ptklib.privacy import PrivacyLoss, check_delta, check_epsilon

RATE_MIN = 1e-12
"""Least share of users in a round: the variance of what is scaled up by it stays within float64."""

UNIT = 2**20
"""Integers in the longest contribution of one user to a measurement of items."""

WEIGHT = 2**16
"""Units in the largest weight of one row."""

LOADING = 2**12
"""Units in the whole of an item's loadings, where user vectors are measured."""

DIRECTIONS = 3
"""Full measurements that find where tastes differ; more rounds cost more noise than they turn."""

CANDIDATES = 4
"""Blends of factors and popularity that are compared with popularity alone."""

SHARES = {"counts": 0.06, "usual": 0.10, "spectrum": 0.02, "directions": 0.54, "gain": 0.80}
"""Shares of zero-concentrated loss; the rounds of variational inference take what others leave.

The gain is measured on users who take no part in directions and rounds, so it takes nothing from them: a little less
than both together, whose curve is the higher one then.
"""

VECTORS = 0.35
"""Share of the loss that user vectors take where they are released."""

Guarantee = Literal["user", "record"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One kind of noisy vector, drawn `count` times."""

    size: int
    scale: float
    """Of the discrete Gaussian noise, in integers."""
    sensitivity: int
    """How far one privacy unit moves the vector (L2), in integers."""
    count: int = 1
    sampling_rate: float = 1.0
    """Probability of a user to take part in one draw."""

    def event(self) -> Event:
        """Return the event of all draws."""
        noise = DiscreteGaussian(scale=self.scale, l2_sensitivity=self.sensitivity, shape=(self.size,))
        if self.sampling_rate == 1:
            return replace(noise, count=self.count)
        return PoissonSampled(sampling_rate=self.sampling_rate, event=noise, count=self.count)


@dataclass(frozen=True, slots=True)
class FitPlan:
    """The measurements of one fit, and their loss."""

    counts: Measurement
    usual: Measurement
    spectrum: Measurement
    directions: Measurement
    rounds: Measurement
    gain: Measurement
    vectors: Measurement | None
    """Of users; None where they are not released."""
    loss: PrivacyLoss


@dataclass(frozen=True, slots=True)
class Shape:
    """Public numbers a plan follows from."""

    n_users: int
    n_items: int
    k: int
    """Number of factors."""
    rounds: int
    batch_rate: float
    """Chance of a unit to be in the batch of a round."""
    guarantee: Guarantee


def plan_rounds(shape: Shape, epsilon: object, delta: object) -> FitPlan:
    """Divide (epsilon, delta) over the measurements.

    Raises
    ------
    PrivacyParameterError
        When epsilon or delta cannot be used; delta 0 neither, because the noise is Gaussian.
    InvalidParameterError
        When users are to be sampled under the guarantee for records.

    Notes
    -----
    Adaptive composition: each measurement depends on released values. Counts, directions and the last
    comparison are Gaussian and take fixed shares of the zero-concentrated loss that (epsilon, delta) allows.
    The noise of the rounds is then the least at which the Rényi curves of all together reach epsilon at
    delta. A user takes part in the comparison or in directions and rounds, by a coin of its own: parallel
    composition. Released values may end the search for tastes. From then on, all users take part in the rest
    of directions and rounds and none in the comparison. Composition is the same there: a user who was kept
    apart until then has met neither.

    One user more or less moves a measurement of items by at most `UNIT`. One row more or less turns one
    contribution of length `UNIT` into another, in all measurements at once. That is ``2 * UNIT``, and no
    sampling helps, since the user's other rows are there either way.
    """
    budget, slack = check_epsilon(epsilon), check_delta(delta)
    if slack == 0:
        raise PrivacyParameterError("UserEmbeddings needs delta > 0: its noise is Gaussian")
    if not RATE_MIN <= shape.batch_rate <= 1:
        raise InvalidParameterError(f"batch_rate must be in [{RATE_MIN:g}, 1]")
    if shape.guarantee == "record" and shape.batch_rate < 1:
        raise InvalidParameterError("the guarantee 'record' needs batch_rate=1: sampling users hides no row")
    return _planned(shape, budget, slack)


@lru_cache(maxsize=32)
def _planned(shape: Shape, epsilon: float, delta: float) -> FitPlan:
    whole = gaussian_sigma(epsilon, delta, 1.0)
    record = shape.guarantee == "record"
    sensitivity, matrix = UNIT * (2 if record else 1), shape.n_items * shape.k + shape.k
    left = 1 - VECTORS if record else 1.0

    def full(size: int, share: float, count: int = 1, moved: int = sensitivity) -> Measurement:
        return Measurement(size, whole * sqrt(count / share) * moved, moved, count)

    counts = full(shape.n_items + 1, left * SHARES["counts"])
    usual = full(shape.n_items, left * SHARES["usual"])
    moved = ceil(sensitivity * (1 + 2 * rounding(shape.n_users, shape.n_items))) + 1
    spectrum = full(1, left * SHARES["spectrum"], moved=moved)
    directions = full(matrix, left * SHARES["directions"], DIRECTIONS)
    gain = full(CANDIDATES, left * SHARES["gain"])
    vectors = full(shape.n_users * shape.k, VECTORS, moved=LOADING * WEIGHT) if record else None

    def sampled(multiplier: float) -> Measurement:
        return Measurement(matrix, multiplier * sensitivity, sensitivity, shape.rounds, shape.batch_rate)

    def event(rounds: Measurement) -> Event:
        training = Composed(events=(directions.event(), rounds.event()))
        apart = Parallel(events=(training, gain.event()))
        before = [part.event() for part in (counts, usual, spectrum)]
        return Composed(events=(*before, apart, *(() if vectors is None else (vectors.event(),))))

    rounds = sampled(least_multiplier(lambda multiplier: event(sampled(multiplier)), epsilon, delta))
    loss = PrivacyLoss(epsilon, delta, event(rounds))
    return FitPlan(counts, usual, spectrum, directions, rounds, gain, vectors, loss)
