"""The predictive models of the tasks: light ones, which choose their form and regularisation on the rows they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.sparse import hstack
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, RidgeCV
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from _common import losses
from ptklib.arrays import Floats

FEW_ROWS = 1000


def predicted(model: Any, rows: pd.DataFrame) -> Floats:
    """Return numbers, the probability of the second of two classes, or those of all classes."""
    if not hasattr(model, "predict_proba"):
        return np.asarray(model.predict(rows))
    probabilities = np.asarray(model.predict_proba(rows))
    return probabilities[:, 1] if probabilities.shape[1] == 2 else probabilities


def splits(n_rows: int, classes: Any = None) -> list[tuple[Any, Any]]:
    """Split rows into three quarters to fit and one to choose by: once, or twice where rows are few.

    With `classes` of the rows, either part has the same shares of them.
    """
    kind = ShuffleSplit if classes is None else StratifiedShuffleSplit
    split = kind(2 if n_rows < FEW_ROWS else 1, test_size=0.25, random_state=0)
    return list(split.split(np.zeros(n_rows), classes))


class Encoder:
    """Indicators of whole-number categories, and standardised numbers, of which an unknown one counts as the mean."""

    def __init__(self, X: pd.DataFrame, categories: Sequence[str], numbers: Sequence[str]) -> None:
        self.values = {name: np.unique(X[name]) for name in categories}
        self.numbers = list(numbers)
        known = X[self.numbers].to_numpy(dtype=np.float64)
        self.mean = np.nan_to_num(np.nanmean(known, axis=0))
        spread = np.nan_to_num(np.nanstd(known, axis=0))
        self.scale = np.where(spread > 0, spread, 1.0)

    def __call__(self, X: pd.DataFrame) -> Floats:
        """Return a column per value and per number."""
        indicators = [X[name].to_numpy()[:, None] == values for name, values in self.values.items()]
        numbers = (X[self.numbers].to_numpy(dtype=np.float64) - self.mean) / self.scale
        return np.hstack([*indicators, np.nan_to_num(numbers)])


def encoder(categories: Sequence[str], numbers: Sequence[str]) -> ColumnTransformer:
    """Return scikit-learn's form of `Encoder`, sparse and for categories of any kind."""
    filled = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    parts = [
        ("categories", OneHotEncoder(handle_unknown="ignore"), list(categories)),
        ("numbers", filled, list(numbers)),
    ]
    return ColumnTransformer(parts, sparse_threshold=1.0)


class Chosen(BaseEstimator):
    """The candidate of least loss on held-out quarters of the training rows, fitted again on all of them.

    So each line and share chooses for itself, by the rows it has, how a PTK's features enter and how strong the
    penalty is: nobody chooses by test rows.
    """

    def __init__(self, candidates: Mapping[str, Any], row_loss: Callable[[Floats, Floats], Floats]) -> None:
        self.candidates = candidates
        self.row_loss = row_loss

    def fit(self, X: pd.DataFrame, y: Any) -> Self:
        """Judge the candidates, then fit the best."""
        y, held = np.asarray(y), dict.fromkeys(self.candidates, 0.0)
        for fitted, judged in splits(len(X)):
            for name, candidate in self.candidates.items():
                model = clone(candidate).fit(X.iloc[fitted], y[fitted])
                guess = predicted(model, X.iloc[judged])
                held[name] += float(self.row_loss(y[judged].astype(np.float64), guess).sum())
        self.chosen_ = min(held, key=lambda name: held[name])
        self.model_ = clone(self.candidates[self.chosen_]).fit(X, y)
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return what the chosen model predicts: see `predicted`."""
        return predicted(self.model_, X)


class ClickModel(ClassifierMixin, BaseEstimator):
    """Logistic regression on one-hot categories, standardised numbers, and the features of a count PTK.

    The features enter as a score, as log odds, or as log odds and counts, and as they are or three times as
    large, which makes them cheaper under the penalty than a value learnt from few rows. They are not standardised:
    that would blow up differences which the PTK itself has drawn in as noise. Form and penalty are chosen on held-out
    quarters of the training rows.
    """

    def __init__(self, categories: Sequence[str], numbers: Sequence[str], features: Sequence[str]) -> None:
        self.categories = categories
        self.numbers = numbers
        self.features = features

    def fit(self, X: pd.DataFrame, y: Any) -> Self:
        """Choose the form and the penalty, then fit on all rows."""
        y = np.asarray(y)
        self.classes_ = np.array([0, 1])
        self.own_ = encoder(self.categories, self.numbers).fit(X)
        own, held = self.own_.transform(X), {}
        for form in self._forms():
            table = self._table(own, X, form)
            for penalty in np.logspace(-2.5, 0.5, 4):
                held[form, penalty] = 0.0
                for fitted, judged in splits(len(X), y):
                    model = _logistic(penalty).fit(table[fitted], y[fitted])
                    p = model.predict_proba(table[judged])[:, -1]
                    held[form, penalty] += float(losses.log_loss(y[judged], p).sum())
        self.form_, penalty = min(held, key=lambda choice: held[choice])
        self.model_ = _logistic(penalty).fit(self._table(own, X, self.form_), y)
        return self

    def predict_proba(self, X: pd.DataFrame) -> Floats:
        """Return the probabilities of no click and of a click."""
        table = self._table(self.own_.transform(X), X, self.form_)
        return np.asarray(self.model_.predict_proba(table))

    def _forms(self) -> list[tuple[tuple[str, ...], int]]:
        score = tuple(name for name in self.features if name == "score")
        odds = tuple(name for name in self.features if name.endswith("_log_odds"))
        seen = tuple(name for name in self.features if name.endswith("_seen"))
        return [(form, times) for form in (score, odds, odds + seen) for times in (1, 3) if form] or [((), 1)]

    def _table(self, own: Any, X: pd.DataFrame, form: tuple[tuple[str, ...], int]) -> Any:
        names, times = form
        return hstack([own, times * X[list(names)].to_numpy(dtype=np.float64)], format="csr")


def _logistic(penalty: float) -> Any:
    return LogisticRegression(C=penalty, solver="liblinear", intercept_scaling=10.0, max_iter=1000)


class Blend(RegressorMixin, BaseEstimator):
    """Average of ridge regression and boosted trees, for the log of a duration or of a fare.

    Features named ``expected_by_...`` are estimates of the duration. They enter as they are, as their mean, or as
    what the model starts from, its label being the difference. Ridge regression chooses the form, then both the
    weight of the trees, on held-out quarters of the training rows.
    """

    def __init__(
        self, categories: Sequence[str], numbers: Sequence[str], features: Sequence[str] = ()
    ) -> None:
        self.categories = categories
        self.numbers = numbers
        self.features = features

    def fit(self, X: pd.DataFrame, y: Any) -> Self:
        """Choose the form and the weight, then fit on all rows."""
        y, parts = np.asarray(y, dtype=np.float64), splits(len(X))
        best = np.inf
        for form in ("columns", "mean", "start") if self._expected() else ("columns",):
            table, start = self._table(X, form)
            own = Encoder(table, self.categories, table.columns[len(self.categories) :])
            rows, rest = own(table), y - start
            by_line = [_ridge(rows[fitted], rest[fitted]).predict(rows[judged]) for fitted, judged in parts]
            held = sum(
                ((guess - rest[judged]) ** 2).sum() for guess, (_, judged) in zip(by_line, parts, strict=True)
            )
            if held < best:
                best, chosen = held, (form, own, rows, rest, by_line)
        self.form_, self.own_, rows, rest, by_line = chosen
        table, weights = (
            self._table(X, self.form_)[0].to_numpy(dtype=np.float64),
            np.linspace(0, 1, 5)[:, None],
        )
        losses_of_weights = np.zeros(len(weights))
        for guess, (fitted, judged) in zip(by_line, parts, strict=True):
            by_trees = _trees().fit(table[fitted], rest[fitted]).predict(table[judged])
            errors = weights * by_trees + (1 - weights) * guess - rest[judged]
            losses_of_weights += (errors**2).sum(axis=1)
        self.weight_ = float(weights[losses_of_weights.argmin(), 0])
        self.line_ = _ridge(rows, rest)
        self.trees_ = _trees().fit(table, rest) if self.weight_ > 0 else None
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return the weighted average of both predictions."""
        table, start = self._table(X, self.form_)
        found = start + (1 - self.weight_) * self.line_.predict(self.own_(table))
        if self.trees_ is not None:
            found += self.weight_ * self.trees_.predict(table.to_numpy(dtype=np.float64))
        return np.asarray(found)

    def _expected(self) -> list[str]:
        return [name for name in self.features if name.startswith("expected_by_")]

    def _table(self, X: pd.DataFrame, form: str) -> tuple[pd.DataFrame, Floats]:
        """Return the columns of the learners, and what they start from."""
        expected = self._expected()
        others = [name for name in self.features if name not in expected]
        mean = X[expected].mean(axis=1).to_numpy() if expected else np.zeros(len(X))
        own = X[[*self.categories, *self.numbers, *others]]
        if form == "mean":
            return own.assign(expected=mean), np.zeros(len(X))
        table = pd.concat([own, X[expected]], axis=1)
        return table, mean if form == "start" else np.zeros(len(X))


def _ridge(rows: Any, y: Floats) -> Any:
    return RidgeCV(np.logspace(-1, 3, 9)).fit(rows, y)


def _trees() -> Any:
    return HistGradientBoostingRegressor(
        max_iter=40, max_leaf_nodes=15, min_samples_leaf=10, early_stopping=False, random_state=0
    )


def demand(categories: Sequence[str], features: Sequence[str]) -> Any:
    """Poisson regression on one-hot categories and a PTK's features as they are."""
    parts = [("categories", OneHotEncoder(handle_unknown="ignore"), list(categories))]
    if features:
        parts.append(("features", "passthrough", list(features)))
    candidates = {
        f"alpha = {alpha:g}": make_pipeline(
            ColumnTransformer(parts, sparse_threshold=0),
            PoissonRegressor(alpha=alpha, solver="newton-cholesky", max_iter=300),
        )
        for alpha in (1e-4, 1e-3, 1e-2, 1e-1)
    }
    return Chosen(candidates, losses.poisson_deviance)


def rating(categories: Sequence[str], numbers: Sequence[str]) -> Any:
    """Ridge regression on one-hot categories and standardised numbers."""
    candidates = {
        f"alpha = {alpha:g}": make_pipeline(encoder(categories, numbers), Ridge(alpha))
        for alpha in (1.0, 3.0, 10.0, 30.0, 100.0)
    }
    return Chosen(candidates, losses.squared_error)
