"""Fitted estimators side by side, as one scikit-learn transformer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin

from ptklib.arrays import Floats
from ptklib.base import DPEstimator
from ptklib.tables import as_table

Prefixed = Sequence[tuple[str, DPEstimator]]


class AppliedStates(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Parent of transformers that apply released states; they learn nothing from the rows they see.

    Tables are pandas, polars, pyarrow, anything else that exports Arrow, or arrays. Rows whose keys a state does not
    have get its declared defaults.
    """

    @abstractmethod
    def _applied(self) -> Prefixed:
        """Return the estimators to apply now, each with the prefix of its columns."""

    def transform(self, X: Any) -> Floats:
        """Return the features of each row; `set_output` chooses another container.

        Raises
        ------
        SchemaError
            A column that a state takes its keys from is missing, or of another type.
        """
        return features_of(as_table(X), self._applied())

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return the names of the columns of `transform`."""
        return np.array(names_of(self._applied()), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = False
        return tags


def features_of(table: Any, applied: Prefixed) -> Floats:
    """Return the features of every estimator, side by side."""
    parts = [estimator.transform(table) for _, estimator in applied]
    return parts[0] if len(parts) == 1 else np.hstack(parts)


def names_of(applied: Prefixed) -> list[str]:
    """Return the names of the columns of `features_of`."""
    return [f"{prefix}{name}" for prefix, estimator in applied for name in estimator.get_feature_names_out()]
