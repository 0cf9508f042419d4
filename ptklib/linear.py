"""Linear regression: least squares from one noisy release of moments, with a ridge fitted to its noise."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.base import RegressorMixin

from ptklib.arrays import Floats
from ptklib.base import Release, Units
from ptklib.exceptions import UnboundedSensitivityError
from ptklib.fit_cache import once
from ptklib.gram import Block, block_of
from ptklib.inputs import InputTable
from ptklib.labelled import Labelled
from ptklib.moments import (
    COLUMN_NUMBERS,
    COUNT,
    PAIRS,
    PAIRS_SCHEMA,
    Moments,
    MomentSums,
    columns_or_bounds,
    entry_noise,
    one_blas_thread,
    settled_mean,
    settled_spectrum,
)
from ptklib.names import refuse_duplicates
from ptklib.state import TableSchema
from ptklib.sums import Values

COEFFICIENTS = "coefficients"
MODEL = "model"
_PARAMETERS = ("intercept", "ridge")
_STEPS = 50


@dataclass(eq=False, repr=False)
class AdaSSPRegressor(RegressorMixin, Labelled, MomentSums):  # type: ignore[misc]
    """Release a linear regression with intercept, and the covariance matrix it was computed from.

    Parameters
    ----------
    features : sequence of str, optional
        Numeric columns, at most 2,000; all columns of `bounds` by default.
    label : str, optional
        Label column; the `y` of `fit` by default.
    bounds : mapping of column to (low, high), or one pair for all `features`
        Public clipping bounds. Features are centred and measured in half widths.
    max_norm : float
        Public bound of the Euclidean norm of a row of features, in half widths of `bounds` or, without them, in
        the unit of the features. Longer rows are shrunk to it. Give one of the two, or both.
    label_bounds : tuple (low, high)
        Public clipping bounds of the label; predictions stay within them.
    epsilon, delta : float
        Budget of one fit; ``delta`` must be positive.
    unit, max_rows_per_unit
        The column of the privacy unit's id, and its rows: see `DPEstimator`. Noise grows with the latter.

    Attributes
    ----------
    tables_ : dict of str to pyarrow.Table
        Released. ``coefficients``, keyed by ``column``: noisy ``count``, noisy centred ``sum``, ``mean``,
        ``coefficient`` (0 for the label, which comes last). ``model``, keyed by ``parameter``: ``value`` of
        ``intercept`` and ``ridge``. ``covariance``, keyed by ``row`` and ``column``, of features and label.
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    noise_std_ : dict
        Largest standard deviation of the noise of each accumulated column.
    privacy_spent_ : PrivacyLoss

    Notes
    -----
    :Guarantee: (epsilon, delta)-DP per call of ``fit``.
    :Unit: up to `max_rows_per_unit` rows; with `unit`, chosen at random among those of one id.
    :Neighbours: add or remove one unit.
    :Mechanism: discrete Gaussian on number, sums and products of quantised rows, as `MomentSums` says.
    :Sensitivity: for features of norm B and labels within h of the middle: 1; B, h; B**2, B h, h**2.

    A row with a missing or infinite feature or label is dropped whole.

    Sufficient statistics are perturbed as in [1]_. That paper pays for the smallest eigenvalue to choose a
    ridge; here it is chosen from the noise, which is public, at no cost. Let A and b be the noisy moments of
    features and label, ``s`` and ``t`` the standard deviations of their entries. The normal equations
    ``A w = b`` then carry an error of variance ``t**2 + s**2 |w|**2`` in each entry. The best linear estimate
    of weights of common variance ``|w|**2 / p`` is ``(A**2 + k)**-1 A b``, ``k = p (t**2 / |w|**2 + s**2)``,
    with ``|w|**2`` from its own solution. Directions below the noise fade out, the others stay as they are.

    The budget is divided as for a label that features explain with a third of its half width, and means of a
    quarter of their bounds.

    References
    ----------
    .. [1] Wang, "Revisiting differentially private linear regression: optimal and adaptive prediction and
       estimation in unbounded domain", UAI 2018.
    """

    features: Any = None
    label: Any = None
    _: KW_ONLY
    bounds: Any = None
    max_norm: Any = None
    label_bounds: Any
    epsilon: Any
    delta: Any
    unit: Any = None
    max_rows_per_unit: Any = 1

    @property
    def coef_(self) -> Floats:
        """Released coefficients, from ``tables_``."""
        return np.asarray(self.tables_[COEFFICIENTS].column("coefficient").to_numpy()[:-1])

    @property
    def intercept_(self) -> float:
        """Released intercept, from ``tables_``."""
        return float(self.tables_[MODEL].column("value")[0].as_py())

    @once
    def table_schemas(self) -> dict[str, TableSchema]:
        """Return the tables ``coefficients``, ``model`` and ``covariance``."""
        refuse_duplicates(self._names(), "features and label")
        return {
            COEFFICIENTS: TableSchema.of({"column": pa.string()}, (*COLUMN_NUMBERS, "coefficient")),
            MODEL: TableSchema.of({"parameter": pa.string()}, ("value",)),
            PAIRS: PAIRS_SCHEMA,
        }

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return ``<label>_prediction``."""
        return np.asarray([f"{self._label_name()}_prediction"], dtype=object)

    def predict(self, X: Any) -> Floats:
        """Return the predicted label of each row; a missing feature counts as its mean."""
        return np.asarray(self.transform(X)).reshape(-1)

    @once
    def _feature_names(self) -> tuple[str, ...]:
        return columns_or_bounds(self.features, self.bounds, "features")

    @once
    def _blocks(self) -> tuple[Block, ...]:
        if self.label_bounds is None:
            raise UnboundedSensitivityError("label_bounds=(low, high) are missing")
        label = (self._label_name(),)
        return (
            block_of(self._feature_names(), self.bounds, self.max_norm),
            block_of(label, {label[0]: self.label_bounds}, None),
        )

    def _weights(self) -> dict[str, float]:
        size = len(self._feature_names())
        small = 1 / 16
        return {
            COUNT: small,
            "sums_0": size / 8,
            "sums_1": small + 1 / size,
            "products_0": size * size / 18,
            "products_0_1": size,
            "products_1": small,
        }

    def _column_table(self) -> str:
        return COEFFICIENTS

    @once
    def _key_columns(self) -> dict[str, dict[str, Any]]:
        return super()._key_columns() | {MODEL: {"parameter": pa.array(_PARAMETERS, type=pa.string())}}

    def _read(self, values: Values, variance: Mapping[str, float]) -> Release:
        moments, blocks = self._moments(values, variance), self._blocks()
        mean = np.append(
            settled_mean(moments, 0, moments.sums[:-1], blocks[0].limit),
            settled_mean(moments, 1, moments.sums[-1:], blocks[1].limit),
        )
        covariance = moments.products / moments.rows - np.outer(mean, mean)
        with one_blas_thread(len(covariance)):
            spectrum, vectors = np.linalg.eigh(covariance[:-1, :-1])
        noise = entry_noise(moments, 0, mean[:-1])
        across = (moments.variance["products_0_1"] + moments.variance["sums_0"] * float(mean[-1]) ** 2) ** 0.5
        weights, ridge = solve_noisy(spectrum, vectors.T @ covariance[:-1, -1], noise, across / moments.rows)
        settled = settled_spectrum(spectrum, noise, blocks[0].limit ** 2)
        covariance[:-1, :-1] = (vectors * settled) @ vectors.T
        covariance[-1, -1] = np.clip(covariance[-1, -1], 0.0, 1.0)
        widths, centres = self._half_widths(), self._centres()
        coefficients = np.append((vectors @ weights) / widths[:-1] * widths[-1], 0.0)
        means = centres + mean * widths
        intercept = float(means[-1] - means @ coefficients)
        numbers: dict[str, dict[str, Floats]] = {
            COEFFICIENTS: self._columns(moments, mean) | {"coefficient": coefficients},
            MODEL: {"value": np.array([intercept, ridge])},
        }
        return self._reading(moments, covariance, numbers)

    def _transform(self, table: InputTable) -> Floats:
        block, label = self._blocks()
        rows = np.column_stack([table.numbers(name) for name in block.names])
        mean = self.tables_[COEFFICIENTS].column("mean").to_numpy()
        centred = block.clamp(rows) * block.half_widths + block.centres - mean[:-1]
        centred[~np.isfinite(rows)] = 0.0
        low, high = (float(label.centres[0] + side * label.half_widths[0]) for side in (-1, 1))
        return np.asarray(np.clip(mean[-1] + centred @ self.coef_, low, high)[:, np.newaxis])

    def _true_error(self, exact: Units) -> float:
        """Return the share of the variance of the clipped label that the clipped features leave unexplained."""
        moments: Moments = self._exact_moments(exact)
        widths, centres = self._half_widths(), self._centres()
        weights = np.append(-self.coef_ * widths[:-1], widths[-1])  # residual = weights . standardised row
        mean = moments.sums / moments.rows
        spread = moments.products / moments.rows - np.outer(mean, mean)
        offset = float(centres[-1] - centres[:-1] @ self.coef_ - self.intercept_ + weights @ mean)
        variance = float(spread[-1, -1]) * float(widths[-1]) ** 2
        error = float(weights @ spread @ weights) + offset * offset
        return min(max(error / variance, 0.0), 1.0) if variance > 0 else np.nan


def solve_noisy(spectrum: Floats, target: Floats, noise: float, across: float) -> tuple[Floats, float]:
    """Return weights in the eigenbasis of noisy features, and the ridge.

    Parameters
    ----------
    spectrum, target : ndarray of shape (n,)
        Eigenvalues of the noisy covariance of the features; noisy covariance with the label, in its eigenbasis.
    noise, across : float
        Standard deviation of an entry of the first and of the second.

    Returns
    -------
    weights : ndarray of shape (n,)
    ridge : float
        The number that is added to the eigenvalues, in quadrature.
    """
    positive, size = np.maximum(spectrum, 0.0), len(spectrum)
    if across == 0 and noise == 0:
        return np.divide(target, positive, out=np.zeros(size), where=positive > 0), 0.0
    weights, squared = np.zeros(size), 0.0
    for step in range(_STEPS):
        length = 1.0 if step == 0 else float(weights @ weights)
        if length * size < 1e-300:
            return np.zeros(size), float(across)
        squared = size * (across * across / length + noise * noise)
        weights = positive * target / (positive * positive + squared)
    return weights, float(np.sqrt(squared))
