"""Laws of the mechanisms: how much likelier an output is on one input than on another."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from ptklib.arrays import Floats, Ints

CERTAIN = 1e6
"""What stands for an infinite ratio: more than all finite ones of a training together."""


def log_ratio(
    mechanism: str, scale: float, given: Sequence[Ints], exact: Sequence[Ints], other: Sequence[Ints]
) -> float:
    """Return the log of how much likelier `given` is on the input `exact` than on the input `other`.

    Parameters
    ----------
    mechanism : str
        As in events.
    given : sequence of ndarray
        The noisy vector; of a selection, the place that was chosen; of a partition selection, noisy counts of known
        keys, those of keys that passed, and their places.
    exact, other : sequence of ndarray
        The vector without noise; the scores; the counts of known keys and of others.
    """
    if mechanism in _SELECTIONS:
        law, place = _SELECTIONS[mechanism], int(given[0][0])
        return law(exact[0], scale, place) - law(other[0], scale, place)
    additive = _gaussian if mechanism.endswith("Gaussian") else _laplace
    if mechanism.startswith("Thresholded"):
        places = given[2]
        return additive(scale, given[0], exact[0], other[0]) + additive(
            scale, given[1], exact[1][places], other[1][places]
        )
    return additive(scale, given[0], exact[0], other[0])


def divergence(mechanism: str, scale: float, exact: Sequence[Ints], other: Sequence[Ints]) -> float:
    """Return how far the laws of the outputs on two inputs are apart: what their mean log ratios differ by.

    Notes
    -----
    That of continuous noise, which that of discrete noise is near; it only compares datasets.
    """
    if mechanism in _SELECTIONS:
        logs = [
            np.array([_SELECTIONS[mechanism](scores[0], scale, i) for i in range(len(scores[0]))])
            for scores in (exact, other)
        ]
        return float(np.sum((np.exp(logs[0]) - np.exp(logs[1])) * (logs[0] - logs[1])))
    total = 0.0
    for one, two in zip(exact, other, strict=True):
        size = np.abs((one - two).astype(np.float64)) / scale
        total += float(np.sum(size**2 if mechanism.endswith("Gaussian") else 2 * (size + np.expm1(-size))))
    return total


def exponential_log(scores: Ints, scale: float, place: int) -> float:
    """Return the log of the probability that the exponential mechanism chooses `place`."""
    logs = (scores - scores.max()) / scale
    return float(logs[place] - np.log(np.exp(logs).sum()))


def permute_and_flip_log(scores: Ints, scale: float, place: int) -> float:
    """Return the log of the probability that permute-and-flip chooses `place`.

    Notes
    -----
    Candidate i passes with probability ``a_i = exp((s_i - max s) / scale)``, and the first that passes in random order
    is chosen. With arrival times uniform in (0, 1) that is ``a_i * integral of prod_{j != i} (1 - t a_j) dt``, a
    polynomial of degree n - 1 in t, which Gauss-Legendre sums integrate exactly.
    """
    chances = np.exp((scores - scores.max()) / scale)
    nodes, weights = _nodes(len(scores) // 2 + 1)
    others = np.delete(chances, place)
    passed_over = np.prod(1 - np.outer((nodes + 1) / 2, others), axis=1)
    return float((scores[place] - scores.max()) / scale + math.log(float(weights @ passed_over) / 2))


@lru_cache(maxsize=64)
def _nodes(n: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return nodes, weights


def _laplace(scale: float, given: Ints, exact: Ints, other: Ints) -> float:
    return float(np.sum(np.abs(given - other) - np.abs(given - exact), dtype=np.float64)) / scale


def _gaussian(scale: float, given: Ints, exact: Ints, other: Ints) -> float:
    moved = (exact - other).astype(np.float64)
    middle = (given - other).astype(np.float64) - moved / 2
    return float(np.sum(moved * middle)) / scale**2


_SELECTIONS: dict[str, Callable[[Ints, float, int], float]] = {
    "PermuteAndFlip": permute_and_flip_log,
    "ExponentialMechanism": exponential_log,
}
