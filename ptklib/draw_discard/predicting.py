"""Predictions of released weights, in float64, and their distance from the labels."""

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.draw_discard.encoding import FINE, ONE, places_of
from ptklib.draw_discard.specification import Specification

_PRODUCTS = 2**22
"""Products of weights and inputs that are in memory at once."""


def predictions_of(specification: Specification, models: Floats, columns: Ints) -> Floats:
    """Return the mean of the predictions of some models, (n_rows, n_scores), a linear one's in widths of its bounds.

    Parameters
    ----------
    specification : Specification
    models : ndarray of shape (n_models, n_weights)
    columns : ndarray of shape (n_rows, n_features), int64
        From `encode_columns`.

    Notes
    -----
    Predictions of a row depend on that row and the weights alone, to the last bit.
    """
    n_scores = specification.n_scores
    total = np.zeros((len(columns), n_scores))
    at_once = max(_PRODUCTS // (len(specification.sizes) * n_scores), 1)
    for first in range(0, len(columns), at_once):
        part = slice(first, first + at_once)
        places, values = places_of(specification, columns[part])
        shares = values / ONE
        for weights in models:
            scores = (weights.reshape(n_scores, -1)[:, places] * shares).sum(axis=2)
            total[part] += _answers(specification, np.ascontiguousarray(scores.T))
    return total / len(models)


def _answers(specification: Specification, scores: Floats) -> Floats:
    """Return predictions of scores, (n_rows, n_scores), in float64."""
    if specification.link == "linear":
        return scores
    if specification.link == "logistic":
        return np.asarray(1 / (1 + np.exp(-np.clip(scores, -700, 700))))
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def losses_of(specification: Specification, predictions: Floats, labels: Ints) -> Floats:
    """Return half of Brier's score of each row, or the squared error of a label from 0 to 1."""
    if specification.link != "softmax":
        return np.asarray((predictions[:, 0] - labels / FINE) ** 2)
    apart = predictions.copy()
    apart[np.arange(len(labels)), labels] -= 1
    return np.asarray((apart * apart).sum(axis=1) / 2)
