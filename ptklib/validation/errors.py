"""Validators of the error of released statistics against the population, from noisy sums of test rows."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import Bounds
from ptklib.profiling.bounds import laplace_quantile
from ptklib.profiling.estimates import LossEstimate
from ptklib.scalars import finite_number
from ptklib.validation.bounds import lower_bound, upper_bound
from ptklib.validation.looks import Look, check_confidence
from ptklib.validation.verdicts import Metric, Verdict

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ErrorValidator:
    """Accept a released statistic when its error is within a target, with a stated confidence.

    Parameters
    ----------
    target : float
        Largest absolute error, in the unit of the statistic.
    bounds : tuple (low, high)
        Public bounds of a value. Sums are of ``(value - low) / (high - low)``, clipped to [0, 1].
    confidence : float
        Probability that no look accepts a statistic whose error is above the target.

    Notes
    -----
    The statistic may come from other rows, or from the sums themselves: an interval has the true value in it, whatever
    was released. A verdict costs nothing beyond its sums.

    References
    ----------
    .. [1] Sage, SOSP'19, section 3.3. docs/proofs/validation.md has the proofs.
    """

    target: Any
    _: KW_ONLY
    bounds: Any = (0.0, 1.0)
    confidence: Any = 0.95

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        Bounds.of(self.bounds, "value")
        if finite_number(self.target, "target", InvalidParameterError) <= 0:
            raise InvalidParameterError("the target of an error must be positive")

    def of_count(self, scale: float, look: int = 1) -> Verdict:
        """Return the verdict on a count, or on a sum of whole numbers, against its rows: its noise alone is the error.

        Parameters
        ----------
        scale : float
            Of its discrete Laplace noise, public.
        """
        if finite_number(scale, "scale", InvalidParameterError) <= 0:
            raise InvalidParameterError("scale must be positive")
        this = Look.of(self.confidence, look)
        return self._verdict(laplace_quantile(float(scale), this.failure / 2) - 1, this)

    def of_mean(self, released: float, sums: LossEstimate, look: int = 1) -> Verdict:
        """Return the verdict on a mean against the expected value of a unit.

        Parameters
        ----------
        released : float
            In the unit of the values.
        sums : LossEstimate
            Of the values of test units, as `LossSums` releases them.
        """
        this = Look.of(self.confidence, look)
        low, high = _interval(sums, this.failure)
        bounds = Bounds.of(self.bounds, "value")
        width = bounds.high - bounds.low
        return self._verdict(_miss(released, (bounds.low + low * width, bounds.low + high * width)), this)

    def of_means(
        self,
        released: Sequence[float],
        sums: Sequence[LossEstimate],
        look: int = 1,
        spent: float | None = None,
    ) -> Verdict:
        """Return the verdict on the means of groups, by the largest of their errors against the population.

        Parameters
        ----------
        released : sequence of float
            One mean for each group, in the unit of the values; from other rows than the sums.
        sums : sequence of LossEstimate
            For each group, as `GroupSums` releases them.
        spent : float, optional
            As for `LossValidator`.

        Notes
        -----
        No failure probability is divided among the groups: the largest error is that of one group on one side, and a
        bound below it needs this very bound to fail.
        """
        if len(released) != len(sums) or not sums:
            raise InvalidParameterError("each group has a mean and sums")
        this = Look.of(self.confidence, look, spent)
        bounds = Bounds.of(self.bounds, "value")
        width = bounds.high - bounds.low
        sides = [(lower_bound(one, this.failure), upper_bound(one, this.failure)) for one in sums]
        misses = [
            _miss(mean, (bounds.low + low * width, bounds.low + high * width))
            for mean, (low, high) in zip(released, sides, strict=True)
        ]
        means = [None if one.loss is None else bounds.low + one.loss * width for one in sums]
        seen = [abs(mean - at) for mean, at in zip(released, means, strict=True) if at is not None]
        estimate = max(seen) if len(seen) == len(sums) else None
        return self._verdict(max(misses), this, estimate)

    def of_variance(
        self, released: float, sums: LossEstimate, squares: LossEstimate, look: int = 1
    ) -> Verdict:
        """Return the verdict on a variance against that of the population.

        Parameters
        ----------
        released : float
            In the squared unit of the values.
        sums, squares : LossEstimate
            Of the values of test units, scaled to [0, 1], and of the squares of these. Their epsilons add.
        """
        this = Look.of(self.confidence, look)
        half = this.failure / 2
        (low, high), (least, most) = _interval(sums, half), _interval(squares, half)
        bounds = Bounds.of(self.bounds, "value")
        squared = (bounds.high - bounds.low) ** 2
        variance = (max(least - high * high, 0.0) * squared, min(most - low * low, 0.25) * squared)
        return self._verdict(_miss(released, variance), this)

    def of_histogram(self, shares: Sequence[float], sums: Sequence[LossEstimate], look: int = 1) -> Verdict:
        """Return the verdict on the shares of bins, in total variation from those of the population.

        Parameters
        ----------
        shares : sequence of float
            Released, one for each bin.
        sums : sequence of LossEstimate
            For each bin, of the share of a unit's values in it. Their epsilons add.
        """
        if len(shares) != len(sums) or not sums:
            raise InvalidParameterError("each bin has a share and sums")
        this = Look.of(self.confidence, look)
        each = this.failure / len(sums)
        misses = [_miss(share, _interval(one, each)) for share, one in zip(shares, sums, strict=True)]
        return self._verdict(min(sum(misses) / 2, 1.0), this)

    def _verdict(self, bound: float, look: Look, estimate: float | None = None) -> Verdict:
        return Verdict.at_most(float(self.target), bound, Metric.ERROR, look, estimate=estimate)


def _interval(sums: LossEstimate, failure: float) -> Interval:
    """Return an interval that does not have the mean in it with probability `failure` at most."""
    return lower_bound(sums, failure / 2), upper_bound(sums, failure / 2)


def _miss(released: float, interval: Interval) -> float:
    value = finite_number(released, "released", InvalidParameterError)
    return max(interval[1] - value, value - interval[0])
