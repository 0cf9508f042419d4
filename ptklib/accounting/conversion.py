"""Conversion of Rényi curves to (epsilon, delta), by dp-accounting."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptklib.exceptions import PrivacyParameterError

_ROUND_UP = 1.0 + 1e-11


def renyi_epsilon(orders: Sequence[float], curve: Any, delta: float) -> float:
    """Return the epsilon at `delta` of a mechanism whose Rényi divergences are at most `curve`.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", Proposition 12.
    """
    if not all(math.isfinite(order) and order > 1 for order in orders):
        raise PrivacyParameterError("orders must be finite and above 1")
    if not 0 < delta < 1:
        raise PrivacyParameterError("delta must be in (0, 1) for a Rényi conversion")
    from dp_accounting.rdp import compute_epsilon  # takes seconds to import

    epsilon, _ = compute_epsilon(list(orders), np.asarray(curve, dtype=np.float64).tolist(), delta)
    return float(epsilon) * _ROUND_UP
