"""The draws of one fit and their noise: fixed and paid for before any row is read."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, expm1, log1p, nextafter, sqrt

from ptklib.accounting import gaussian_sigma, least_multiplier
from ptklib.events import Composed, DiscreteGaussian, Event, PoissonSampled
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError
from ptklib.mechanisms import additive
from ptklib.privacy import PrivacyLoss, check_delta, check_epsilon
from ptklib.scalars import finite_number
from ptklib.sgd.network import UNIT

RATE_MIN = 1e-6
STEPS_MAX = 1_000_000

DRAWS_MAX = 1_000_000_000
"""Weights times steps: a step draws and moves each weight, which takes 0.1 to 0.5 us on an old machine."""

COUNT_SHARE = 0.02
"""Share of the zero-concentrated loss that the number of rows takes: steps are divided by it."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How units are sampled: public numbers."""

    rate: float
    """Probability of a unit, or of a row where no column names its unit, to take part in a step."""
    n_steps: int
    rows_per_unit: int
    by_unit: bool
    """Whether all rows of a unit share one coin."""

    @property
    def unit_rate(self) -> float:
        """Return an upper bound of the probability that any row of a unit takes part in a step."""
        if self.by_unit or self.rows_per_unit == 1 or self.rate == 1:
            return self.rate
        any_row = -expm1(self.rows_per_unit * log1p(-self.rate))
        return min(nextafter(any_row * (1 + 1e-12), 1.0), 1.0)


@dataclass(frozen=True, slots=True)
class FitPlan:
    """Scales of the noise, in integers, and the loss of all draws."""

    sampling: Sampling
    count_scale: float
    """Of the number of rows."""
    step_scale: float
    """Of the sum of clipped gradients in each step."""
    loss: PrivacyLoss


def sampling_of(batch_rate: object, epochs: object, rows_per_unit: int, by_unit: bool) -> Sampling:
    """Return the sampling of a fit: as many steps as take each row `epochs` times on average."""
    rate = finite_number(batch_rate, "batch_rate", InvalidParameterError)
    if not RATE_MIN <= rate <= 1:
        raise InvalidParameterError(f"batch_rate must be in [{RATE_MIN:g}, 1]")
    passes = finite_number(epochs, "epochs", InvalidParameterError)
    if not 0 < passes / rate <= STEPS_MAX:
        raise InvalidParameterError(
            f"epochs must be positive, and epochs / batch_rate steps at most {STEPS_MAX:,}"
        )
    return Sampling(rate, max(ceil(passes / rate - 1e-9), 1), rows_per_unit, by_unit)


def plan_steps(family: str, sampling: Sampling, n_weights: int, epsilon: object, delta: object) -> FitPlan:
    """Divide (epsilon, delta) over the number of rows and the steps.

    Parameters
    ----------
    family : str
        How messages call the estimator.
    sampling : Sampling
    n_weights : int
        Numbers that a step draws.
    epsilon, delta
        As the estimator is given them.

    Raises
    ------
    PrivacyParameterError
        When epsilon or delta cannot be used; delta 0 neither, because the noise is Gaussian.
    InvalidParameterError
        When weights times steps exceed `DRAWS_MAX`: a run would not end in time, after its loss was spent.

    Notes
    -----
    Adaptive composition: each step depends on the noisy sums before it. The noise of the steps is the least at which
    the Rényi curves of all draws together reach epsilon at delta.

    A unit has at most r rows, each of which adds an integer vector of length `UNIT` or less. With one coin for each
    unit, it is in a step with the sampling rate q and moves the sum by ``r * UNIT`` at most. With a coin for each row,
    some row of it is in a step with probability ``1 - (1 - q)**r``. Given that, which rows they are is a mixture of
    vectors no longer than ``r * UNIT``, and divergences are quasi-convex: docs/proofs/sgd.md.
    """
    if n_weights * sampling.n_steps > DRAWS_MAX:
        raise InvalidParameterError(
            f"{n_weights:,} weights times {sampling.n_steps:,} steps are more than {DRAWS_MAX:,}: the training would "
            "take too long; take fewer epochs, a larger batch_rate, or fewer hidden_units, inputs or classes"
        )
    budget, slack = check_epsilon(epsilon), check_delta(delta)
    if slack == 0:
        raise PrivacyParameterError(f"{family} needs delta > 0: its noise is Gaussian")
    return _planned(sampling, n_weights, budget, slack)


@lru_cache(maxsize=64)
def _planned(sampling: Sampling, n_weights: int, epsilon: float, delta: float) -> FitPlan:
    rows = sampling.rows_per_unit
    count_scale = gaussian_sigma(epsilon, delta, 1.0) * rows / sqrt(COUNT_SHARE)
    counted = DiscreteGaussian(scale=count_scale, l2_sensitivity=rows, shape=(1,))
    moved = UNIT * rows

    def event(multiplier: float) -> Event:
        noise = DiscreteGaussian(scale=multiplier * moved, l2_sensitivity=moved, shape=(n_weights,))
        if sampling.unit_rate == 1:
            return Composed(events=(counted, replace(noise, count=sampling.n_steps)))
        steps = PoissonSampled(sampling_rate=sampling.unit_rate, event=noise, count=sampling.n_steps)
        return Composed(events=(counted, steps))

    multiplier = least_multiplier(event, epsilon, delta)
    for scale in (count_scale, multiplier * moved):
        additive.check_scale(scale)  # before any row is read
    loss = PrivacyLoss(epsilon, delta, event(multiplier))
    return FitPlan(sampling, count_scale, multiplier * moved, loss)
