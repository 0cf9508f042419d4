"""Losses of PTKs whose plans are tested."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptklib import CovarianceMatrix, HistoricalStatistics


def gaussian(epsilon: float = 0.2) -> Mapping[str, Any]:
    """A PTK with Gaussian noise: its epsilon at its delta says little of its curve."""
    return CovarianceMatrix(
        columns=["speed", "hour"], bounds={"speed": (0, 60), "hour": (0, 23)}, epsilon=epsilon, delta=1e-8
    ).to_spec()


def means(epsilon: float = 0.1) -> Mapping[str, Any]:
    return HistoricalStatistics(
        keys=["zone"], values=["speed"], domains={"zone": ["y", "z"]}, bounds=(0, 60), epsilon=epsilon
    ).to_spec()
