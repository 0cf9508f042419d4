"""The two noisy comparisons of a profile: a model's risk with 2 tau, and the least risk of all models with tau.

Losses become integers, 2**20 to a loss of 1, before they are added, so that one unit moves a sum by what it says.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from ptklib import events
from ptklib.arrays import Floats
from ptklib.events import DiscreteLaplace
from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms import additive
from ptklib.mechanisms.above_threshold import AboveThreshold
from ptklib.mechanisms.comparisons import above_threshold_event
from ptklib.privacy import PrivacyLoss
from ptklib.profiling.bounds import Line, laplace_quantile

RESOLUTION = 2**20
"""Units of a loss of 1."""

ROUNDING = 8
"""Units by which rounding moves the difference of two least sums, at most: each is exact up to 1.5e-6 of a loss, which
is less than 1.6 units, and is rounded down to whole ones (docs/proofs/profiling.md)."""


@dataclass(frozen=True, slots=True)
class Centre:
    """The slack that is subtracted from each loss, in units."""

    units: int
    per_batch: bool
    """Whether the number of losses is public: then a privacy unit moves a sum by 1 loss, not by more or less of
    them."""

    @property
    def sensitivity(self) -> int:
        """How far one privacy unit moves a centred sum, in units."""
        return RESOLUTION if self.per_batch else max(self.units, RESOLUTION - self.units)

    def centred_sum(self, losses: Floats) -> int:
        """Return the sum of losses in [0, 1], rounded up to units, less the centre of each."""
        units = np.ceil(losses * RESOLUTION).astype(np.int64)
        return int(units.sum()) - self.units * len(units)


@dataclass(frozen=True, eq=False)
class UpperTest:
    """One AboveThreshold over the rounds: "not yet" answers cost nothing more."""

    centre: Centre
    slack: float
    """Of the line, in losses."""
    epsilon: Fraction
    n_rounds: int
    failure: float
    """Probability with which noise alone answers wrongly in any round."""
    event: events.AboveThreshold = field(init=False)

    def __post_init__(self) -> None:
        event = above_threshold_event(sensitivity=self.centre.sensitivity, epsilon=self.epsilon)
        object.__setattr__(self, "event", event)

    @property
    def loss(self) -> PrivacyLoss:
        """Loss of all rounds together."""
        return self.start([]).loss

    @property
    def noise(self) -> int:
        """Units that the noise of threshold and value exceed in any round with probability `failure`."""
        return laplace_quantile(self.event.threshold_scale, self.failure / 2) + laplace_quantile(
            self.event.value_scale, self.failure / (2 * self.n_rounds)
        )

    @property
    def threshold(self) -> int:
        """The distance below 0, in units, that the sum needs for a yes."""
        return math.ceil(self.slack * RESOLUTION) + self.noise

    def start(self, paid: list[PrivacyLoss]) -> AboveThreshold:
        """Return the comparison of one run; what it pays is put into `paid`."""

        def pay(loss: PrivacyLoss) -> None:
            if paid:
                raise PrivacyParameterError("one noisy threshold is all that was declared")
            paid.append(loss)

        return AboveThreshold(
            threshold=self.threshold, sensitivity=self.centre.sensitivity, epsilon=self.epsilon, pay=pay
        )

    def is_below(self, started: AboveThreshold, losses: Floats) -> bool:
        """Return whether losses in [0, 1] show a risk below the line."""
        return started.is_above(-self.centre.centred_sum(losses))


@dataclass(frozen=True, eq=False)
class HighTest:
    """One comparison of a sum of losses with a high line, by discrete Laplace noise."""

    line: Line
    """Of losses in parts of `loss_max`."""
    epsilon: Fraction
    failure: float
    """Probability with which noise alone answers wrongly."""
    loss_max: float = 1.0
    """Worth of a loss of 1."""
    per_batch: bool = False
    """See `Centre`."""
    exact: bool = False
    """Whether sums come as floating-point minima, which rounding moves a little."""

    @property
    def centre(self) -> Centre:
        """The slack that is subtracted from each loss."""
        return Centre(math.ceil(self.line.centre * RESOLUTION), self.per_batch)

    @property
    def sensitivity(self) -> int:
        """How far one privacy unit moves the sum, in units."""
        return self.centre.sensitivity + (ROUNDING if self.exact else 0)

    @property
    def scale(self) -> float:
        """Scale of the noise, in units."""
        return additive.laplace_scale(l1_sensitivity=self.sensitivity, epsilon=self.epsilon)

    @property
    def event(self) -> DiscreteLaplace:
        """The event of the comparison."""
        return DiscreteLaplace(scale=self.scale, l1_sensitivity=self.sensitivity, shape=(1,))

    @property
    def threshold(self) -> int:
        """Units that the sum must exceed for a yes."""
        return math.ceil(self.line.slack * RESOLUTION) + laplace_quantile(self.scale, self.failure)

    def can_answer(self, size: float) -> bool:
        """Tell whether `size` losses, were they all the largest, would be enough."""
        return size * (RESOLUTION - self.centre.units) > self.threshold

    def is_above(self, losses: Floats) -> bool:
        """Return whether losses in [0, 1] show a risk above the line."""
        units = np.floor(losses * RESOLUTION).astype(np.int64)
        return self._compare(int(units.sum()) - self.centre.units * len(units))

    def is_total_above(self, total: float, n_units: int) -> bool:
        """Return whether a sum of `n_units` losses, a floating-point number, shows a risk above the line."""
        return self._compare(math.floor(total / self.loss_max * RESOLUTION) - self.centre.units * n_units)

    def _compare(self, centred: int) -> bool:
        noisy = additive.laplace(
            np.array([centred], dtype=np.int64), l1_sensitivity=self.sensitivity, epsilon=self.epsilon
        )
        return int(noisy[0]) >= self.threshold
