"""Objectives that boosting descends: gradients of rows as integers, exactly and row by row."""

from abc import ABC, abstractmethod
from functools import cache
from math import isqrt, sqrt

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.mechanisms.grid import count_by
from ptklib.trees.targets import UNITS, Target

_STEPS = 2**10
"""Score units in a log-odds of 1."""

_LIMIT = 8 * _STEPS
"""Scores are kept within log-odds of 8."""


class Objective(ABC):
    """The contribution of a row to a leaf: a step it wants in each score, and how much it weighs.

    Notes
    -----
    Scores are integers and everything irrational is read from a table. So the contribution of a row is a
    function of the row and of released numbers alone. No rounding depends on how many other rows there are or
    in which order they come.
    """

    n_scores: int
    """Outputs of a tree: 1, or one per class."""

    score_unit: float
    """What a score of 1 counts in score units."""

    limit: int
    """Scores stay within it, in units."""

    step_l1: int
    step_l2: int
    weight_l1: int
    weight_l2: int
    """Largest norms of what one row adds, in units."""

    step_unit: int
    weight_unit: int
    """Units in a step and in a weight of 1."""

    n_starts: int
    """Number of sums over all rows that scores start from."""

    start_l1: int
    """What one row adds to them."""

    spread: float
    """Variance of a step per unit of weight: 1 where the weight is the Hessian of a log-likelihood."""

    adaptive: bool = False
    """Whether steps are clipped to a radius that shrinks with released squares."""

    @abstractmethod
    def pull(self, scores: Ints, label: Ints, radius: int) -> tuple[Ints, Ints]:
        """Return steps and weights, both of shape (n_scores, n_rows)."""

    @abstractmethod
    def starts(self, label: Ints) -> Ints:
        """Return sums over all rows."""

    @abstractmethod
    def start_score(self, noisy: Floats, std: float) -> Ints:
        """Return the scores that follow from noisy sums, in units."""

    def chances(self, start: Ints) -> Floats:
        """Return the probability of each class where scores start."""
        raise NotImplementedError("a number has no classes")


def objective_of(target: Target) -> Objective:
    """Return the objective for a kind of label."""
    if target.n_classes == 0:
        return Squared()
    return Logistic() if target.n_classes == 2 else Softmax(target.n_classes)


class Logistic(Objective):
    """Log-loss of two classes; the score is the log-odds of the second."""

    n_scores = 1
    score_unit, limit = float(_STEPS), _LIMIT
    step_l1 = step_l2 = UNITS
    weight_l1 = weight_l2 = UNITS // 4
    step_unit = weight_unit = UNITS
    n_starts = 2
    start_l1, spread = 1, 1.0

    def starts(self, label: Ints) -> Ints:
        """Return the number of rows of each class."""
        return count_by(label, 2)

    def start_score(self, noisy: Floats, std: float) -> Ints:
        """Return the log-odds of the second class."""
        scores = _log_shares(noisy, std)
        return _on_grid(scores[1:] - scores[:1])

    def chances(self, start: Ints) -> Floats:
        """Return the probabilities of both classes."""
        return _chances(np.concatenate([np.zeros(1), start / _STEPS]))

    def pull(self, scores: Ints, label: Ints, radius: int) -> tuple[Ints, Ints]:
        """Return ``y - p``, within a unit of probability, and ``p (1 - p)``, at most a quarter."""
        chance, weight = _logistic_table()
        place = scores[0] + _LIMIT
        return (label * UNITS - chance[place])[None, :], weight[place][None, :]


class Softmax(Objective):
    """Log-loss of several classes, one score each."""

    score_unit, limit = float(_STEPS), _LIMIT
    step_l1, step_l2 = 2 * UNITS, isqrt(2 * UNITS * UNITS) + 1
    weight_l1, weight_l2 = UNITS, isqrt(4 * UNITS * UNITS // 27) + 1
    step_unit = weight_unit = UNITS
    start_l1, spread = 1, 1.0

    def __init__(self, n_classes: int) -> None:
        self.n_scores = self.n_starts = n_classes

    def starts(self, label: Ints) -> Ints:
        """Return the number of rows of each class."""
        return count_by(label, self.n_scores)

    def start_score(self, noisy: Floats, std: float) -> Ints:
        """Return the logarithm of each class's share over the mean of logarithms."""
        scores = _log_shares(noisy, std)
        return _on_grid(scores - scores.mean())

    def chances(self, start: Ints) -> Floats:
        """Return the probabilities of all classes."""
        return _chances(start / _STEPS)

    def pull(self, scores: Ints, label: Ints, radius: int) -> tuple[Ints, Ints]:
        """Return ``y_k - p_k`` and ``p_k (1 - p_k)`` of every class.

        Notes
        -----
        :Sensitivity: rounding down leaves ``sum(p_k) <= 1``, so the steps have an L1 norm of at most
            ``2 (1 - p_y) <= 2`` and an L2 norm of at most ``sqrt(2)``; the weights have an L1 norm of at most 1 and, as
            ``p (1 - p)**2 <= 4 / 27``, an L2 norm of at most ``sqrt(sum(4 p_k / 27)) <= sqrt(4 / 27)``.
        """
        odds = _exponential_table()[scores.max(axis=0) - scores]
        chance = odds * UNITS // odds.sum(axis=0)
        steps = -chance
        steps[label, np.arange(len(label))] += UNITS
        return steps, chance * (UNITS - chance) // UNITS


class Squared(Objective):
    """Squared error of a number in half widths of its bounds."""

    n_scores = 1
    score_unit, limit = float(UNITS), UNITS
    step_l1 = step_l2 = UNITS
    weight_l1 = weight_l2 = weight_unit = 1
    step_unit = UNITS
    n_starts, start_l1 = 2, 2 * UNITS
    spread, adaptive = 0.1, True

    def starts(self, label: Ints) -> Ints:
        """Return the number of rows, in units so that both sums get the same noise, and the sum of labels."""
        return np.asarray([len(label) * UNITS, label.sum()], dtype=np.int64)

    def start_score(self, noisy: Floats, std: float) -> Ints:
        """Return the mean, leaning on the midpoint: on nothing else where the sum is lost in noise."""
        total = float(noisy[1])
        size = max(float(noisy[0]), abs(total))
        mean = total * _beyond(total**2, std**2, 1) * size / (size * size + 3 * std * std)
        return np.asarray([round(min(max(mean, -1.0), 1.0) * UNITS)], dtype=np.int64)

    def pull(self, scores: Ints, label: Ints, radius: int) -> tuple[Ints, Ints]:
        """Return the residual in shares of `radius`, clipped to 1, and 1."""
        steps = np.clip(label - scores[0], -radius, radius) * UNITS
        signs = np.sign(steps)
        return (signs * (np.abs(steps) // radius))[None, :], np.ones((1, len(label)), dtype=np.int64)


def _log_shares(noisy: Floats, std: float) -> Floats:
    """Return the logarithm of counts, which lean on equal counts, those below the noise taken for as large as it.

    Notes
    -----
    Counts of n rows in k classes differ from equal ones by a vector of squared length ``n**2 (1 - 1/k)`` at most, so n
    is no smaller than its length says.
    """
    k = len(noisy)
    apart = noisy - noisy.mean()
    energy = float((apart**2).sum())
    size = max(float(noisy.sum()), sqrt(energy * k / (k - 1)))
    kept = _beyond(energy, std**2, k - 1) * size**2 / (size**2 + 3 * k * std**2)
    return np.asarray(np.log(np.maximum(size / k + kept * apart, max(std, 1.0))))


def _beyond(energy: float, variance: float, n: int) -> float:
    """Return the share of a sum of n squares that noise of this variance does not explain.

    Notes
    -----
    Three standard deviations of the energy of Laplace noise count as explained: noise alone gives 0 in 98 of 100
    releases, and little in the others.
    """
    return max(0.0, 1 - (n + 3 * sqrt(5 * n)) * variance / energy) if energy > 0 else 0.0


def _chances(scores: Floats) -> Floats:
    odds = np.exp(scores - scores.max())
    return np.asarray(odds / odds.sum())


def _on_grid(scores: Floats) -> Ints:
    return np.clip(np.rint(scores * _STEPS), -_LIMIT, _LIMIT).astype(np.int64)


@cache
def _logistic_table() -> tuple[Ints, Ints]:
    odds = np.exp(np.arange(-_LIMIT, _LIMIT + 1) / _STEPS)
    chance = np.rint(odds / (1 + odds) * UNITS).astype(np.int64)
    return chance, chance * (UNITS - chance) // UNITS


@cache
def _exponential_table() -> Ints:
    odds: Ints = np.rint(np.exp(-np.arange(2 * _LIMIT + 1) / _STEPS) * UNITS).astype(np.int64)
    return odds
