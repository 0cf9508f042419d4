"""The meaning of a model's scores, and how far each row's label is from them."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.sgd import tables
from ptklib.sgd.tables import FINE

LABEL_UNITS = 2**20
"""Units in half the width of a number's bounds."""


class Head(Protocol):
    """The last step of a model.

    Labels are class codes, or units from the middle of a number's bounds. All results follow row by row from sums
    that are exact and from operations that IEEE 754 defines.
    """

    @property
    def n_scores(self) -> int:
        """Number of scores of a row."""

    def errors(self, scores: Floats, labels: Ints) -> Floats:
        """Return the derivative of each row's loss by its scores, in whole units of 1 / FINE; (n_rows, n_scores)."""

    def predictions(self, scores: Floats) -> Floats:
        """Return probabilities, (n_rows, n_classes), or numbers in half widths of the bounds, (n_rows, 1)."""

    def losses(self, predictions: Floats, labels: Ints) -> Floats:
        """Return half of Brier's score of each row, or the squared error in widths of the bounds; in [0, 1]."""


def _half_brier(predictions: Floats, labels: Ints) -> Floats:
    loss = np.zeros(len(labels))
    for code in range(predictions.shape[1]):  # class by class: sums of a row do not depend on other rows
        miss = predictions[:, code] - (labels == code)
        loss += miss * miss
    return np.minimum(loss / 2, 1.0)


@dataclass(frozen=True, slots=True)
class Logistic:
    """The `Head` of two classes: one score, whose logistic function is the probability of the second."""

    n_scores = 1

    def errors(self, scores: Floats, labels: Ints) -> Floats:
        likely = tables.logistic().take(tables.places(scores))
        likely -= labels[:, None] * FINE
        return np.asarray(likely)

    def predictions(self, scores: Floats) -> Floats:
        second = tables.logistic_between(scores)
        return np.hstack([1 - second, second])

    def losses(self, predictions: Floats, labels: Ints) -> Floats:
        return _half_brier(predictions, labels)


@dataclass(frozen=True, slots=True)
class Softmax:
    """The `Head` of several classes, with a score each."""

    n_scores: int

    def errors(self, scores: Floats, labels: Ints) -> Floats:
        raised = tables.exponential().take(tables.places(scores - scores.max(axis=1, keepdims=True)))
        errors = np.rint(raised * (FINE / raised.sum(axis=1, keepdims=True)))
        errors[np.arange(len(labels)), labels] -= FINE
        return np.asarray(errors)

    def predictions(self, scores: Floats) -> Floats:
        raised = tables.exponential_between(scores - scores.max(axis=1, keepdims=True))
        total = np.zeros((len(scores), 1))
        for code in range(self.n_scores):
            total += raised[:, code : code + 1]
        return np.asarray(raised / total)

    def losses(self, predictions: Floats, labels: Ints) -> Floats:
        return _half_brier(predictions, labels)


@dataclass(frozen=True, slots=True)
class Number:
    """The `Head` of a number: the score is what is predicted, in half widths of the bounds from their middle."""

    n_scores = 1

    def errors(self, scores: Floats, labels: Ints) -> Floats:
        missed = np.rint(np.clip(scores, -2.0, 2.0) * FINE)
        return np.asarray(missed - labels[:, None] * (FINE / LABEL_UNITS))

    def predictions(self, scores: Floats) -> Floats:
        return np.clip(scores, -1.0, 1.0)

    def losses(self, predictions: Floats, labels: Ints) -> Floats:
        miss = (predictions[:, 0] - labels / LABEL_UNITS) / 2
        return np.asarray(miss * miss)
