"""Audits of estimators whose noise is right or half of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ptklib.mechanisms import additive, vectorised


def halved_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every mechanism draw at half its scale while it declares the full one."""
    laplace, gaussian = additive._laplace_measurement, additive._gaussian_measurement
    monkeypatch.setattr(additive, "_laplace_measurement", lambda scale: laplace(scale / 2))
    monkeypatch.setattr(additive, "_gaussian_measurement", lambda scale: gaussian(scale / 2))
    for name in ("discrete_laplace", "discrete_gaussian"):
        draw = getattr(vectorised, name)
        monkeypatch.setattr(vectorised, name, lambda scale, n, draw=draw: draw(scale / 2, n))


def ratio(noisy: Any, event: Mapping[str, Any]) -> Any:
    """Return the log-likelihood ratio of one cell with its row against without."""
    return (np.abs(noisy) - np.abs(noisy - event["l1_sensitivity"])) / event["scale"]
