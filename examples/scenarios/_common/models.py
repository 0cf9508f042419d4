"""The predictive models of the tasks: light ones, which choose their regularisation on the rows they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV, PoissonRegressor, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def logistic(categories: Sequence[str], numbers: Sequence[str], features: Sequence[str]) -> Any:
    """Logistic regression on one-hot categories, standardised numbers, and a PTK's features as they are.

    Log odds of a PTK are not standardised: that would blow up differences which the PTK itself has drawn in as noise.
    The penalty is the best of four on held-out quarters of the training rows, for each line and share anew.
    """
    parts = [("categories", OneHotEncoder(handle_unknown="ignore"), list(categories))]
    if numbers:
        parts.append(("numbers", StandardScaler(), list(numbers)))
    if features:
        parts.append(("features", "passthrough", list(features)))
    return make_pipeline(
        ColumnTransformer(parts),
        LogisticRegressionCV(
            Cs=(0.01, 0.03, 0.1, 0.5),
            cv=StratifiedShuffleSplit(2, test_size=0.25, random_state=0),
            scoring="neg_log_loss",
            max_iter=1000,
            l1_ratios=(0.0,),
            use_legacy_attributes=False,
        ),
    )


class Blend(RegressorMixin, BaseEstimator):
    """Average of ridge regression and boosted trees; the trees count for more, the more rows they have."""

    def __init__(self, categories: Sequence[str], numbers: Sequence[str]) -> None:
        self.categories = categories
        self.numbers = numbers

    def fit(self, X: pd.DataFrame, y: Any) -> Self:
        """Fit both on the named columns of `X`."""
        parts = [
            ("categories", OneHotEncoder(handle_unknown="ignore"), list(self.categories)),
            ("numbers", StandardScaler(), list(self.numbers)),
        ]
        self.line_ = make_pipeline(ColumnTransformer(parts), RidgeCV(np.logspace(-1, 3, 9))).fit(X, y)
        self.trees_ = HistGradientBoostingRegressor(
            max_iter=50, max_leaf_nodes=15, min_samples_leaf=10, early_stopping=False, random_state=0
        ).fit(X[[*self.categories, *self.numbers]], y)
        self.weight_ = max(0.5, len(X) / (len(X) + 1000))
        return self

    def predict(self, X: pd.DataFrame) -> Any:
        """Return the weighted average of both predictions."""
        trees = self.trees_.predict(X[[*self.categories, *self.numbers]])
        return self.weight_ * trees + (1 - self.weight_) * self.line_.predict(X)


def poisson(categories: Sequence[str], features: Sequence[str]) -> Any:
    """Poisson regression on one-hot categories and a PTK's features as they are; its penalty is the best of four."""
    parts = [("categories", OneHotEncoder(handle_unknown="ignore"), list(categories))]
    if features:
        parts.append(("features", "passthrough", list(features)))
    chosen = GridSearchCV(
        PoissonRegressor(solver="newton-cholesky", max_iter=300),
        {"alpha": (1e-4, 1e-3, 1e-2, 1e-1)},
        cv=ShuffleSplit(2, test_size=0.25, random_state=0),
        scoring="neg_mean_poisson_deviance",
    )
    return make_pipeline(ColumnTransformer(parts, sparse_threshold=0), chosen)


def rating(categories: Sequence[str], numbers: Sequence[str]) -> Any:
    """Ridge regression on one-hot categories and standardised numbers; unknown numbers count as their mean."""
    filled = make_pipeline(SimpleImputer(), StandardScaler())
    parts = [
        ("categories", OneHotEncoder(handle_unknown="ignore"), list(categories)),
        ("numbers", filled, list(numbers)),
    ]
    search = GridSearchCV(
        Ridge(), {"alpha": (3.0, 10.0, 30.0)}, cv=ShuffleSplit(2, test_size=0.25, random_state=0),
        scoring="neg_mean_squared_error",
    )  # fmt: skip
    return make_pipeline(ColumnTransformer(parts), search)
