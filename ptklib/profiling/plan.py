"""Everything about a profile that is fixed before a row is read: samples, comparisons, losses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ptklib.events import Parallel, composed
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError
from ptklib.privacy import EPSILON_MIN, PrivacyLoss
from ptklib.profiling.bounds import (
    CUT,
    REACH,
    chernoff_size,
    expected_size,
    high_line,
    low_line,
)
from ptklib.profiling.comparison import RESOLUTION, Centre, HighTest, UpperTest
from ptklib.profiling.samples import HashRange
from ptklib.scalars import float_above

_UPPER, _LOWER = 1 / 10, 1 / 5
"""Parts of what may go wrong: of chance and noise in the upper comparisons, and in the lower ones.

With 0.05 in all these are the paper's ``ln(400 T')`` (both sides of 1/200) and ``ln(100 T')``; sizes take the rest.
"""
_SIZE = 2 / 5

ROUNDS_MAX = 64


@dataclass(frozen=True)
class Settings:
    """The numbers of a profile, all public and checked."""

    target: float
    """In parts of the range of the loss, in (0, 1/2)."""
    epsilons: tuple[float, ...]
    """Ascending."""
    budget: float
    sizes: tuple[float, ...]
    """Expected size of one training sample in each round, growing."""
    models: int
    """Models trained in each round, on disjoint samples."""
    failure: float
    """One less the confidence."""
    batch: float | None
    """Expected units of one evaluation by `eval`; None for losses of rows."""
    loss_max: float | None
    """Largest loss in the class that has an exact minimum, in parts of the range; None without one."""

    @property
    def rounds(self) -> tuple[float, ...]:
        """Expected privacy units of all training samples of each round."""
        return tuple(size * self.models for size in self.sizes)


@dataclass(frozen=True, eq=False)
class ProfilePlan:
    """A profile before any data."""

    settings: Settings
    upper: UpperTest
    """Of each point of the grid."""
    lower: tuple[HighTest | None, ...]
    """Of each round; None where it could not answer."""
    n_losses: int
    """Losses the validation set has at least, but for the confidence."""
    validation: float
    """Expected units of the validation set."""

    @property
    def population_needed(self) -> float:
        """Privacy units that all samples take together."""
        return self.validation + math.fsum(self.settings.rounds)

    @property
    def population_of_one_round(self) -> float:
        """Privacy units that validation and the first round take: with fewer there is nothing to do."""
        return self.validation + self.settings.rounds[0]

    def fitting(self, population: float) -> int:
        """Return how many rounds have room in a profile set.

        Raises
        ------
        InvalidParameterError
            When not even one has.
        """
        taken = self.validation
        for i, size in enumerate(self.settings.rounds):
            taken += size
            if taken > population:
                if i == 0:
                    raise InvalidParameterError(
                        f"a profile set of {population:g} is too small: validation takes {self.validation:.0f}, "
                        f"the first round {size:.0f}. Choose a larger target, budget or profile set"
                    )
                return i
        return len(self.settings.rounds)

    def ranges(
        self, hashes: HashRange, population: float, n_rounds: int
    ) -> tuple[HashRange, tuple[HashRange, ...]]:
        """Return the disjoint hashes of the validation set and of each round."""
        width, low, parts = hashes.high - hashes.low, hashes.low, []
        for size in (self.validation, *self.settings.rounds[:n_rounds]):
            high = low + math.floor(width * Fraction(size) / Fraction(population))
            parts.append(HashRange(low, high))
            low = high
        return parts[0], tuple(parts[1:])

    def loss(self, trainings: Sequence[PrivacyLoss]) -> PrivacyLoss:
        """Return the loss of the whole profile towards one privacy unit.

        Parameters
        ----------
        trainings : sequence of PrivacyLoss
            Of one training at each epsilon of the grid.

        Notes
        -----
        The hash of a unit places it in the validation set, in one training sample, or in none, whatever the
        other units are. In the validation set it meets one AboveThreshold per point of the grid. In a
        training sample it meets one training per point, whatever the number of models, and at most one
        comparison of the least risk. Samples are disjoint, so the greater of both counts. A later round may
        depend on earlier answers: they are outputs already, or of other units.
        """
        n_points = len(self.settings.epsilons)
        events = [loss.event for loss in trainings]
        epsilons = sum((Fraction(loss.epsilon) for loss in trainings), Fraction(0))
        epsilon = max(self.upper.epsilon * n_points, epsilons)
        parts = [composed([self.upper.event] * n_points)]
        for lower in self.lower:
            parts.append(composed(events + ([] if lower is None else [lower.event])))
            epsilon = max(epsilon, epsilons + (0 if lower is None else lower.epsilon))
        delta = sum((Fraction(loss.delta) for loss in trainings), Fraction(0))
        return PrivacyLoss(float_above(epsilon), float_above(delta), Parallel(events=tuple(parts)))


def make_plan(settings: Settings) -> ProfilePlan:
    """Return the samples and comparisons of a profile.

    Raises
    ------
    PrivacyParameterError
        When the budget does not pay for one training at each epsilon.
    """
    s, n_points, n_rounds = settings, len(settings.epsilons), len(settings.sizes)
    n_comparisons = n_points * n_rounds
    trainings = sum((Fraction(epsilon) for epsilon in s.epsilons), Fraction(0))
    left = Fraction(s.budget) - trainings
    if left < -trainings / 10**12:  # 0.1 + 0.2 is a little more than 0.3; the loss says how much
        raise PrivacyParameterError(
            f"the budget must pay for one training at each epsilon, {float(trainings):g} in all: samples are shared"
        )
    part = s.failure * _UPPER
    line = low_line(CUT * s.target, REACH * s.target, part / n_comparisons)
    centre = Centre(math.floor(line.centre * RESOLUTION), per_batch=s.batch is not None)
    upper = UpperTest(centre, line.slack, Fraction(s.budget) / n_points, n_rounds, part / n_points)
    against = (upper.threshold + upper.noise) / RESOLUTION
    n_losses = chernoff_size(s.target, against, part / n_comparisons)
    if s.batch is None:
        validation = expected_size(n_losses, s.failure * _SIZE / n_comparisons)
    else:
        validation = n_losses * s.batch
    return ProfilePlan(s, upper, _lower_tests(s, left), n_losses, validation)


def _lower_tests(s: Settings, epsilon: Fraction) -> tuple[HighTest | None, ...]:
    if s.loss_max is None or epsilon < Fraction(EPSILON_MIN):
        return (None,) * len(s.sizes)
    failure, tests = s.failure * _LOWER / len(s.sizes), []
    for size in s.rounds:
        line = high_line(s.target / s.loss_max, size, failure)
        test = None if line is None else HighTest(line, epsilon, failure, loss_max=s.loss_max, exact=True)
        tests.append(test if test is not None and test.can_answer(size) else None)
    return tuple(tests)
