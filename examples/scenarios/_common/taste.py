"""A model of who chooses what: how far a user's vector agrees with those of the users who chose an item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from _common import losses
from _common.models import Chosen
from ptklib.arrays import Bools, Floats, Ints


def tastes(item: str, factors: Sequence[str]) -> Any:
    """Return a `TasteModel` that chooses how far profiles are drawn to the mean."""
    candidates = {f"prior = {prior:g}": TasteModel(item, factors, prior) for prior in (2.0, 5.0, 20.0)}
    return Chosen(candidates, losses.log_loss)


class TasteModel(ClassifierMixin, BaseEstimator):
    """Logistic regression on an item's popularity and on its agreement with the user's vector.

    An item's profile is the mean vector of the training users who chose it, drawn to the mean of all by `prior`
    rows; a training row's own vector is left out of the profile it is compared with.
    """

    def __init__(self, item: str, factors: Sequence[str], prior: float) -> None:
        self.item = item
        self.factors = factors
        self.prior = prior

    def fit(self, X: pd.DataFrame, y: Any) -> Self:
        """Learn profiles and weights."""
        chosen = np.asarray(y) == 1
        vectors = X[list(self.factors)].to_numpy(dtype=np.float64)
        self.classes_ = np.array([0, 1])
        self.centre_ = vectors.mean(axis=0)
        self.scale_ = np.where(vectors.std(axis=0) > 1e-9, vectors.std(axis=0), 1.0)
        self.items_, at = np.unique(X[self.item].to_numpy(), return_inverse=True)
        self.count_ = np.bincount(at[chosen], minlength=len(self.items_)).astype(np.float64)
        self.sums_ = np.zeros((len(self.items_), len(self.factors)))
        np.add.at(self.sums_, at[chosen], self._standard(vectors)[chosen])
        self.model_ = LogisticRegression().fit(self._features(vectors, at, chosen), y)
        return self

    def predict_proba(self, X: pd.DataFrame) -> Floats:
        """Return the probabilities of not choosing and of choosing."""
        at = np.searchsorted(self.items_, X[self.item].to_numpy())
        at = np.where(self.items_[np.minimum(at, len(self.items_) - 1)] == X[self.item].to_numpy(), at, -1)
        vectors = X[list(self.factors)].to_numpy(dtype=np.float64)
        return np.asarray(
            self.model_.predict_proba(self._features(vectors, at, np.zeros(len(X), dtype=bool)))
        )

    def _standard(self, vectors: Floats) -> Floats:
        return np.asarray((vectors - self.centre_) / self.scale_)

    def _features(self, vectors: Floats, at: Ints, own: Bools) -> Floats:
        count, sums = (
            np.append(self.count_, 0.0)[at],
            np.vstack([self.sums_, np.zeros(self.sums_.shape[1])])[at],
        )
        standard = self._standard(vectors)
        count, sums = count - own, sums - np.where(own[:, None], standard, 0.0)
        agreement = (standard * sums).sum(axis=1) / (count + self.prior)
        return np.column_stack([np.log(count + 1.0), agreement])
