"""Means over seeds with their 95 % intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats


def mean_and_half(values: Any) -> tuple[float, float]:
    """Return the mean and half of the width of its 95 % interval (Student's t); one value has no interval."""
    found = np.asarray(values, dtype=np.float64)
    if len(found) < 2:
        return float(found.mean()), 0.0
    half = stats.t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / len(found) ** 0.5
    return float(found.mean()), float(half)


def shown(values: Any, form: str = ",.0f") -> str:
    """Return mean and half width as text."""
    mean, half = mean_and_half(values)
    return f"{mean:{form}} ± {half:{form}}"
