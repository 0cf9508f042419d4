"""Regression by gradient descent with noise: linear models, and networks of one or two layers."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin

from ptklib.arrays import Bools, Floats, Ints
from ptklib.columns import as_numbers
from ptklib.exceptions import UnboundedSensitivityError
from ptklib.inputs import InputTable
from ptklib.privacy import SUMS_MOST, Bounds
from ptklib.sgd.estimator import GradientDescent
from ptklib.sgd.heads import LABEL_UNITS, Head, Number


@dataclass(eq=False, repr=False)
class DPSGDRegressor(RegressorMixin, GradientDescent):  # type: ignore[misc]
    """Release a linear or small neural regression, trained by stochastic gradient descent with noise.

    Parameters
    ----------
    label_bounds : tuple (low, high)
        Public clipping bounds of the label; predictions stay within them.
    features, label, bounds, max_norm, domains, hidden_units, clip_norm, batch_rate, epochs, learning_rate, momentum
        As for `DPSGDClassifier`; so are `seed`, `epsilon`, `delta`, `unit` and `max_rows_per_unit`.

    Attributes
    ----------
    tables_, weights_, privacy_spent_
        As for `DPSGDClassifier`.
    coef_ : ndarray of shape (n_inputs,)
        Of a linear model, in the units of label and features.
    intercept_ : float

    Notes
    -----
    :Guarantee: (epsilon, delta)-DP per call of ``fit``.
    :Unit: up to `max_rows_per_unit` rows; with `unit`, chosen at random among those of one id.
    :Neighbours: add or remove one unit.
    :Mechanism: that of `DPSGDClassifier`, for half the squared error of the label in half widths of its bounds.
    :Sensitivity: a row adds an integer vector of length ``2**30`` or less (L2), for `clip_norm`.

    A row with a missing or infinite number, or label, is dropped whole. `AdaSSPRegressor` is better for a linear model
    where its noise is small: it reads the rows once. Take this one for many columns, or for hidden layers.
    """

    features: Any = None
    label: Any = None
    _: KW_ONLY
    label_bounds: Any
    bounds: Any = None
    max_norm: Any = None
    domains: Any = None
    hidden_units: Any = ()
    clip_norm: Any = 1.0
    batch_rate: Any = 0.02
    epochs: Any = 20
    learning_rate: Any = None
    momentum: Any = 0.9
    seed: Any = 0
    epsilon: Any
    delta: Any
    unit: Any = None
    max_rows_per_unit: Any = 1

    @property
    def coef_(self) -> Floats:
        """Coefficients of a linear model, from ``tables_``."""
        return np.asarray(self._linear()[0][0] * self._limits().half_width)

    @property
    def intercept_(self) -> float:
        """Intercept of a linear model, from ``tables_``."""
        return float(self._limits().midpoint + self._linear()[1][0] * self._limits().half_width)

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return ``<label>_prediction``."""
        return np.asarray([f"{self._label_name()}_prediction"], dtype=object)

    def predict(self, X: Any) -> Floats:
        """Return the predicted label of each row."""
        return np.asarray(self.transform(X)).reshape(-1)

    def _limits(self) -> Bounds:
        if self.label_bounds is None:
            raise UnboundedSensitivityError("label_bounds=(low, high) are missing")
        return Bounds.of(self.label_bounds, self._label_name()).within(SUMS_MOST, self._label_name())

    def _head(self) -> Head:
        self._limits()
        return Number()

    def _labels(self, label: Any) -> tuple[Ints, Bools]:
        limits, values = self._limits(), as_numbers(label, self._label_name())
        known = np.isfinite(values)
        clipped = np.clip(np.where(known, values, limits.midpoint), limits.low, limits.high)
        shares = np.clip((clipped - limits.midpoint) / limits.half_width, -1.0, 1.0)
        return np.rint(shares * LABEL_UNITS).astype(np.int64), known

    def _transform(self, table: InputTable) -> Floats:
        limits = self._limits()
        numbers = limits.midpoint + self._predicted(table) * limits.half_width
        return np.clip(numbers, limits.low, limits.high)
