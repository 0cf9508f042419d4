"""The ACCEPT tests that Sage compares: as lists of verdicts on many test sets at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from ptklib.arrays import Floats, Ints
from ptklib.mechanisms import additive
from ptklib.profiling import LossEstimate
from ptklib.profiling.estimates import UNITS
from ptklib.validation import AccuracyValidator, Decision, LossValidator
from ptklib.validation.bounds import STEP, NoisySums, laplace_tail, upper_bound_of
from ptklib.validation.looks import look_failure


@dataclass(frozen=True)
class TestSet:
    """Sums of the losses of one model on one test set: exact, and as two validators release them.

    Parameters
    ----------
    lost, kept : float
        Exact sums of losses, and of what is missing in each to 1. No validator but the non-private one reads them.
    released : LossEstimate
        The noisy sums of this project, at epsilon.
    noisy_lost, noisy_units : float
        Sum of losses and number of rows as Listing 2 releases them: each with half of epsilon.
    """

    __test__ = False

    lost: float
    kept: float
    released: LossEstimate
    noisy_lost: float
    noisy_units: float


@dataclass(frozen=True)
class Question:
    """What a verdict is asked: the target of a loss or an accuracy, the failure probability eta, and the look."""

    target: float
    eta: float
    look: int = 1
    metric: str = "loss"

    @property
    def failure(self) -> float:
        """How often this look may be wrong."""
        return look_failure(1 - self.eta, self.look)


def released(lost: Floats, n_rows: int, epsilon: float) -> list[TestSet]:
    """Release the sums of many test sets of `n_rows` rows, with the library's noise."""
    exact = np.rint(lost * UNITS).astype(np.int64)
    units = np.full_like(exact, n_rows * UNITS)
    kept = units - exact
    pairs = _noisy(exact, kept, epsilon).tolist()
    apart = (_noisy(exact, units, epsilon / 2) / UNITS).tolist()
    return [
        TestSet(a / UNITS, b / UNITS, LossEstimate(epsilon, *pair), *two)
        for a, b, pair, two in zip(exact.tolist(), kept.tolist(), pairs, apart, strict=True)
    ]


def _noisy(first: Ints, second: Ints, epsilon: float) -> Ints:
    return additive.laplace(np.stack([first, second]), l1_sensitivity=UNITS, epsilon=epsilon).T


def no_sla(seen: TestSet, asked: Question) -> bool:
    """Compare the noisy mean loss with the target, without statistical rigour."""
    units = seen.released.lost + seen.released.kept
    return max(seen.released.lost, 0) <= asked.target * max(units, UNITS)


def np_sla(seen: TestSet, asked: Question) -> bool:
    """Bound the expected loss from the exact sums: rigorous, and not private."""
    return without_noise(seen.lost, seen.kept, asked.failure) <= asked.target


def uc_dp_sla(seen: TestSet, asked: Question) -> bool:
    """Bound the expected loss as if the noisy sums were exact ones."""
    lost, kept = seen.released.lost / UNITS, seen.released.kept / UNITS
    return without_noise(lost, kept, asked.failure) <= asked.target


def listing_2(seen: TestSet, asked: Question) -> bool:
    """Sage's Listing 2 for losses in [0, 1], with the guard of S1 and the looks of S4."""
    correction = 2 * math.log(3 / (2 * asked.failure)) / seen.released.epsilon
    least = seen.noisy_units - correction
    if least < 1:
        return False
    mean = max(seen.noisy_lost + correction, 0.0) / least
    log = math.log(3 / asked.failure) / least
    return mean + math.sqrt(2 * mean * log) + 4 * log <= asked.target


def ours(seen: TestSet, asked: Question) -> bool:
    """Ask the library's validator."""
    if asked.metric == "accuracy":
        accuracy = AccuracyValidator(1 - asked.target, confidence=1 - asked.eta)
        return accuracy.verdict(seen.released, asked.look).decision is Decision.ACCEPT
    loss = LossValidator(asked.target, confidence=1 - asked.eta)
    return loss.verdict(seen.released, asked.look).decision is Decision.ACCEPT


def without_noise(lost: float, kept: float, failure: float) -> float:
    """Return the upper bound of a mean from exact sums: that of the library, all of `failure` for the sample."""
    return upper_bound_of(NoisySums(lost, kept, 0.0), 2 * failure)


def over_blocks(
    lost: float, units: float, draws: int, epsilon: float, failure: float, *, each: bool = False
) -> float:
    """Return the upper bound of a mean from noisy sums whose noise was drawn once for each of some blocks.

    Parameters
    ----------
    lost, units : float
        The sums of losses and of rows over all blocks, with `draws` Laplace numbers of scale ``1 / epsilon`` in the
        sum of losses, and twice as many in that of rows.
    each : bool
        The noise of each block is corrected for itself, and the corrections are added. Otherwise their sum is bounded
        at once, which grows with the root of the number of blocks.

    Notes
    -----
    The bound grows with the sum of losses and falls with that of rows. Half of `failure` is for the sample, a quarter
    for each noise.
    """
    part = failure / 4
    if each:
        more, fewer = (draws * laplace_tail(1, second, part / draws) for second in (0, 1))
    else:
        more, fewer = sum_tail(draws, part), sum_tail(2 * draws, part)
    lost, units = lost + more / epsilon + draws * STEP, units - fewer / epsilon - 2 * draws * STEP
    return without_noise(lost, units - lost, failure / 2)


def sum_tail(count: int, failure: float) -> float:
    """Return what the sum of `count` Laplace numbers of scale 1 exceeds with probability `failure` at most.

    For more than two it is Chernoff's bound: the least of ``(ln(1 / failure) - count ln(1 - s**2)) / s``.
    """
    if count <= 2:
        return laplace_tail(1, count - 1, failure)

    def bound(s: float) -> float:
        return float((math.log(1 / failure) - count * math.log1p(-s * s)) / s)

    return float(minimize_scalar(bound, bounds=(1e-6, 1 - 1e-6), method="bounded").fun)


OURS = "ours"
VALIDATORS: Mapping[str, Callable[[TestSet, Question], bool]] = {
    "No SLA": no_sla,
    "NP SLA": np_sla,
    "UC DP SLA": uc_dp_sla,
    "Listing 2, corrected": listing_2,
    OURS: ours,
}
