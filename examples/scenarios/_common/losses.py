"""Loss of each test row."""

from __future__ import annotations

import numpy as np

from ptklib.arrays import Floats


def log_loss(y: Floats, probability: Floats) -> Floats:
    """Negative log likelihood of a class in {0, 1}."""
    p = np.clip(probability, 1e-6, 1 - 1e-6)
    return np.asarray(-np.where(y == 1, np.log(p), np.log1p(-p)))


def log_loss_of_many(y: Floats, probabilities: Floats) -> Floats:
    """Negative log likelihood of a class in {0, 1, 2, ...}; a column of `probabilities` each."""
    return np.asarray(-np.log(np.maximum(probabilities[np.arange(len(y)), y.astype(np.int64)], 1e-6)))


def squared_error(y: Floats, predicted: Floats) -> Floats:
    """Squared error."""
    return np.asarray((y - predicted) ** 2)


def poisson_deviance(y: Floats, predicted: Floats) -> Floats:
    """Poisson deviance of a count."""
    mean = np.maximum(predicted, 1e-6)
    return np.asarray(2 * (np.where(y > 0, y * np.log(np.maximum(y, 1) / mean), 0.0) - y + mean))
