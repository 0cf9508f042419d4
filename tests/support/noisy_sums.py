"""Many noisy sums at once, as paid estimates release them, and how many of many tests may be wrong."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import stats

from ptklib.mechanisms import additive
from ptklib.profiling import LossEstimate
from ptklib.profiling.estimates import UNITS


def noisy_sums(lost: npt.ArrayLike, units: npt.ArrayLike, epsilon: float) -> list[LossEstimate]:
    """Return an estimate for each sum of losses of so many units, with noise of the product's own sampler."""
    exact = np.rint(np.asarray(lost, dtype=np.float64) * UNITS).astype(np.int64)
    kept = np.asarray(units, dtype=np.int64) * UNITS - exact
    noisy = additive.laplace(np.stack([exact, kept]), l1_sensitivity=UNITS, epsilon=epsilon)
    return [LossEstimate(epsilon, int(a), int(b)) for a, b in noisy.T]


def allowed(failure: float, tries: int) -> int:
    """Return how many failures of so many tries are exceeded once in a million, were each as likely as `failure`."""
    return int(stats.binom.ppf(1 - 1e-6, tries, failure))
