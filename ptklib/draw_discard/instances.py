"""The server's rules: start instances, put reports, average, and which reports an honest device may send."""

from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from math import log1p, sqrt
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Bools, Floats, Ints
from ptklib.draw_discard.noise import noise_norm, noise_quantile
from ptklib.draw_discard.specification import Specification
from ptklib.draw_discard.updates import Weights, check_weights, saturated
from ptklib.exceptions import InvalidParameterError
from ptklib.mechanisms.additive import gaussian
from ptklib.mechanisms.coins import uniform_below
from ptklib.scalars import finite_number, whole_number

Instances = npt.NDArray[np.int32]

_PUTS_MAX = 2**16
_ROUNDING = 1 + 1e-6
"""More than float64 errs in adding up logarithms, and probabilities."""


def start_instances(specification: Specification, around: npt.ArrayLike | None = None) -> Instances:
    """Return k instances, (k, n_weights), int32: independent normal draws around a start.

    Parameters
    ----------
    specification : Specification
    around : array-like of shape (n_weights,)
        Public weights to begin with, as `average_instances` returns them; zero if it is None.

    Raises
    ------
    InvalidParameterError
        When the start has another shape or numbers that are not finite.

    Notes
    -----
    Their variance is ``specification.instance_variance``, so their expected *sample* variance has the value at which
    Theorem 1 keeps it. Draws are from the exact discrete Gaussian of that variance.

    References
    ----------
    .. [1] The paper, section III-C a; docs/proofs/draw_discard.md, "Instances".
    """
    centre = np.zeros(specification.n_weights) if around is None else np.asarray(around, dtype=np.float64)
    if centre.shape != (specification.n_weights,) or not np.isfinite(centre).all():
        raise InvalidParameterError(f"around must hold {specification.n_weights} finite numbers")
    units = np.rint(np.clip(centre, -(2.0**31), 2.0**31) * 2.0**specification.grid_bits)
    wide = np.tile(saturated(units).astype(np.int64), (specification.k, 1))
    return saturated(gaussian(wide, scale=sqrt(specification.instance_variance)))


def start_puts(specification: Specification) -> int:
    """Return for how many reports `start_instances` counts in `drift_limit`, when the start is what it began around.

    References
    ----------
    .. [1] docs/proofs/draw_discard.md, "Spam".
    """
    return -(-specification.k // 2)


def draw_instance(specification: Specification, instances: Instances) -> Weights:
    """Return a copy of a uniformly random instance, (n_weights,): what a device begins with.

    References
    ----------
    .. [1] The paper, Algorithm 2.
    """
    return np.array(check_instances(specification, instances)[uniform_below(specification.k)])


def put_report(specification: Specification, instances: Instances, report: Weights) -> int:
    """Write a report over a uniformly random instance; return which.

    Parameters
    ----------
    specification : Specification
    instances : ndarray of shape (k, n_weights), int32
        Changed in place.
    report : ndarray of shape (n_weights,), int32

    Raises
    ------
    InvalidParameterError
        When shapes or types are wrong; nothing has changed then.

    References
    ----------
    .. [1] The paper, Algorithm 2.
    """
    check_instances(specification, instances)
    checked = check_weights(specification, report)
    place = uniform_below(specification.k)
    instances[place] = checked
    return place


def average_instances(specification: Specification, instances: Instances) -> Floats:
    """Return the weights that are published, (n_weights,): the mean of the instances, as numbers.

    References
    ----------
    .. [1] The paper, section III-C b.
    """
    total: Ints = check_instances(specification, instances).sum(axis=0, dtype=np.int64)
    return np.asarray(total / (specification.k * 2.0**specification.grid_bits))


def check_instances(specification: Specification, instances: object) -> Instances:
    """Return an array when it has the type and shape of all instances."""
    shape = (specification.k, specification.n_weights)
    if not isinstance(instances, np.ndarray) or instances.dtype != np.int32 or instances.shape != shape:
        raise InvalidParameterError(f"instances must be an int32 array of shape {shape}")
    return instances


@lru_cache(maxsize=64)
def generations(k: int, n_puts: int, chance: float) -> int:
    """Return g: an instance descends by at most g reports from one that was there `n_puts` puts ago.

    A uniformly drawn instance does so by more with a probability of at most `chance`.

    Notes
    -----
    Backwards in time, a put is on the line of an instance with probability 1 / k, whatever the other puts
    are. So the number of reports on it is binomial.
    """
    if k == 1:
        return n_puts
    steps = np.arange(1, n_puts + 1)
    logs = np.cumsum(np.log((n_puts - steps + 1) / (steps * (k - 1.0)))) + n_puts * log1p(-1 / k)
    beyond = np.cumsum(np.exp(logs)[::-1])[::-1] * _ROUNDING  # of more than 0, 1, ... reports
    return int(np.count_nonzero(beyond > chance))


def spam_multiple(specification: Specification, refused_rate: float, n_reports: int = 1) -> float:
    """Return t: an honest report is within t deviations of the instances' mean in all weights, with few exceptions.

    Parameters
    ----------
    specification : Specification
    refused_rate : float
        Share of honest reports that may be beyond, above 0 and below 1.
    n_reports : int, default 1
        By how many reports it descends from one of the instances, itself included.

    Notes
    -----
    An instance is at most ``(k - 1) / sqrt(k)`` sample deviations from the mean (Samuelson's inequality). A
    step is at most `reach`, and the noise of no weight exceeds its quantile but with probability
    `refused_rate`. So t is valid whatever the genealogy of the instances is: docs/proofs/draw_discard.md,
    "Spam".

    References
    ----------
    .. [1] The paper, section III-D 4, whose t = 3 refuses most honest reports of a model of many weights.
    """
    return _multiple(specification, _checked_rate(refused_rate), n_reports)


def _multiple(s: Specification, rate: float, n_reports: int) -> float:
    noise = noise_quantile(s.noise, s.noise_scale, s.n_weights, rate, n_reports)
    return (s.k - 1) / sqrt(s.k) + (n_reports * s.reach + noise) / sqrt(s.instance_variance)


def drift_limit(specification: Specification, n_reports: int, rate: float) -> float:
    """Return how far the average moves while honest devices report: an L2 norm, in units of the grid.

    Parameters
    ----------
    specification : Specification
    n_reports : int
        Reports that were put meanwhile.
    rate : float
        Probability that it moves further all the same, at most.

    Notes
    -----
    True for instances that began as `start_instances` makes them, when no report is refused for its noise. It
    bounds steps that all point the same way, and so does not tell honest devices that agree from poison that
    hides among them: docs/proofs/draw_discard.md, "Spam".
    """
    s, chance = specification, _checked_rate(rate)
    puts = whole_number(n_reports, "n_reports", 0, 2**53)
    steps = _longest_step(s) * (puts / s.k + sqrt(2 * puts / (s.k * chance)))
    return steps + sqrt(2 * s.n_weights * puts * s.noise_variance / (s.k * chance))


@dataclass(frozen=True, eq=False)
class HonestRange:
    """A range around the instances that honest reports are within.

    Parameters
    ----------
    means, widths : ndarray of shape (n_weights,)
        In units of the grid: a report is admitted when no weight is further than its width from its mean.
    norm : float
        And when the L2 norm of its distance from the means is no more than this.
    """

    means: Floats
    widths: Floats
    norm: float

    @classmethod
    def of(
        cls, specification: Specification, instances: Instances, refused_rate: float, *, n_puts: int = 0
    ) -> Self:
        """Return the range around the instances.

        Parameters
        ----------
        specification : Specification
        instances : ndarray of shape (k, n_weights), int32
        refused_rate : float
        n_puts : int, default 0
            Puts after which the range is still used.

        Notes
        -----
        The deviation is the sample's or the root of the public variance ``k * sigma**2 / 2``, whichever is
        larger. The sample variance of one run swings from a third to three times that, in all weights
        together.

        Of honest reports, at most `refused_rate` are outside if they began with one of these instances, or with one
        that was put at most `n_puts` puts later. One that began with an instance which was discarded before is outside
        this promise: ask the ranges that were made before, too (`RecentRanges`).
        """
        s, rate = specification, _checked_rate(refused_rate) / (3 if n_puts else 2)
        n_reports = 1 + (
            generations(s.k, whole_number(n_puts, "n_puts", 0, _PUTS_MAX), rate) if n_puts else 0
        )
        means = check_instances(s, instances).mean(axis=0)
        squares = instances - means
        np.square(squares, out=squares)
        variances = np.full(s.n_weights, s.instance_variance)
        if s.k > 1:
            variances = np.maximum(variances, squares.sum(axis=0) / (s.k - 1))
        noise = noise_norm(s.noise, s.noise_scale, s.n_weights, rate, n_reports)
        farthest = sqrt(squares.sum(axis=1).max())
        return cls(
            means,
            _multiple(s, rate, n_reports) * np.sqrt(variances) + 1,
            (farthest + n_reports * _longest_step(s) + noise) * (1 + 2**-30) + 1,
        )

    def beyond(self, report: Weights) -> Bools:
        """Return which weights of a report are outside, (n_weights,)."""
        return np.asarray(np.abs(self._distances(report)) > self.widths)

    def refusal(self, report: Weights) -> Literal["range", "norm"] | None:
        """Return which test a report fails: a weight is outside, or it is too far in all weights together."""
        distances = self._distances(report)
        if (np.abs(distances) > self.widths).any():
            return "range"
        # Not by BLAS: above 10,000 numbers it waits for threads, which costs most where all cores are busy.
        norm = sqrt(float(np.einsum("i,i->", distances, distances)))
        return "norm" if norm > self.norm else None

    def admits(self, report: Weights) -> bool:
        """Return whether a report passes both tests."""
        return self.refusal(report) is None

    def _distances(self, report: Weights) -> Floats:
        if report.dtype != np.int32 or report.shape != self.means.shape:
            raise InvalidParameterError(f"weights must be an int32 array of shape {self.means.shape}")
        return np.asarray(report - self.means)


class RecentRanges:
    """The ranges of the last few refreshes: for reports that began with an instance which is gone.

    Parameters
    ----------
    kept : int
        How many ranges are asked.

    Notes
    -----
    Of honest reports, at most the declared rate are refused if they were drawn since the oldest of these ranges was
    made. Older ones are outside the promise: let tickets expire before.
    """

    def __init__(self, kept: int) -> None:
        self._ranges: deque[HonestRange] = deque(maxlen=whole_number(kept, "kept", 1, 2**16))

    def add(self, one: HonestRange) -> None:
        """Take the range of a refresh; the oldest goes."""
        self._ranges.appendleft(one)

    def refusal(self, report: Weights, *, older: bool = True) -> Literal["range", "norm"] | None:
        """Return which test of the newest range a report fails, or None when one of the ranges admits it.

        Without the `older` ones it costs little, and may refuse what they admit.
        """
        kept = (
            tuple(self._ranges) if older else tuple(self._ranges)[:1]
        )  # another thread may add one meanwhile
        if not kept:
            raise InvalidParameterError("no range was added yet")
        refusals = (one.refusal(report) for one in kept)
        first = next(refusals)
        return None if first is None or None in refusals else first


def _longest_step(specification: Specification) -> float:
    """Return the largest L2 norm of a step."""
    each = specification.clip == "coordinate"
    return specification.reach * (sqrt(specification.n_weights) if each else 1.0)


def _checked_rate(value: float) -> float:
    rate = finite_number(value, "refused_rate", InvalidParameterError)
    if not 1e-12 <= rate < 1:
        raise InvalidParameterError("refused_rate must be in [1e-12, 1)")
    return rate
