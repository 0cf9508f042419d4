"""Covariance matrix: Analyze Gauss on clipped rows, with principal components."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.linalg import eigh

from ptklib.arrays import Floats
from ptklib.base import Release, Units
from ptklib.exceptions import InvalidParameterError
from ptklib.fit_cache import once
from ptklib.gram import Block, block_of, upper_triangle
from ptklib.inputs import InputTable
from ptklib.moments import (
    COLUMN_NUMBERS,
    COUNT,
    PAIRS,
    PAIRS_SCHEMA,
    MomentSums,
    columns_or_bounds,
    entry_noise,
    one_blas_thread,
    settled_mean,
    settled_spectrum,
)
from ptklib.names import refuse_duplicates
from ptklib.scalars import is_integer
from ptklib.state import TableSchema
from ptklib.sums import Values

COMPONENTS = "components"
VARIANCE = "explained_variance"


@dataclass(eq=False, repr=False)
class CovarianceMatrix(MomentSums):
    """Release mean and covariance of some columns, and their principal components.

    Parameters
    ----------
    columns : sequence of str, optional
        Numeric columns, at most 2,000; all columns of `bounds` by default.
    bounds : mapping of column to (low, high), or one pair for all `columns`
        Public clipping bounds. Columns are centred and measured in half widths.
    max_norm : float
        Public bound of the Euclidean norm of a row, in half widths of `bounds`. Without them it is in the
        unit of the columns, which should then be comparable, and around 0. Longer rows are shrunk to it. With
        `bounds` alone the norm is bounded by the root of the number of columns; a norm near that of a common
        row needs much less noise. Give one of the two, or both.
    n_components : int, optional
        Number of principal components to publish; all by default.
    epsilon, delta : float
        Budget of one fit; ``delta`` must be positive.
    unit, max_rows_per_unit
        The column of the privacy unit's id, and its rows: see `DPEstimator`. Noise grows with the latter.

    Attributes
    ----------
    tables_ : dict of str to pyarrow.Table
        Released. ``covariance``, keyed by ``row`` and ``column`` (a pair appears once, in the order of
        `columns`): ``product``, the noisy sum of centred products, and ``covariance``. ``components``, keyed
        by ``column``: noisy ``count``, noisy centred ``sum``, ``mean``, and ``component_<i>``, the weight of
        the column in each component. ``explained_variance``, keyed by ``component``: ``variance``, ``ratio``.
    covariance_ : ndarray of shape (n_columns, n_columns)
        Positive semidefinite. Divided by the number of rows, not by one less.
    mean_ : ndarray of shape (n_columns,)
    components_ : ndarray of shape (n_components, n_columns)
        Orthonormal rows, by decreasing explained variance.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
    noise_std_ : dict
        Largest standard deviation of the noise of each accumulated column.
    privacy_spent_ : PrivacyLoss

    Notes
    -----
    :Guarantee: (epsilon, delta)-DP per call of ``fit``.
    :Unit: up to `max_rows_per_unit` rows; with `unit`, chosen at random among those of one id.
    :Neighbours: add or remove one unit.
    :Mechanism: discrete Gaussian on number, sums and upper triangle of products of quantised rows, as
        `MomentSums` says; half the variance of [1]_ beside the diagonal.
    :Sensitivity: 1, B and B**2 in the Euclidean norm for rows of norm B or less.

    A row with a missing or infinite value is dropped whole. Noise spreads eigenvalues; the covariance is read
    with the spectrum that this noise most likely came from, so components below the noise are published with
    the variance common to all.

    The budget is divided for a mean of half the norm bound, in squared sensitivities. The squared
    error of the covariance has an error of the products p**2 / 2 times, one of the sums p / 2 times, and one
    of the count a quarter times.

    References
    ----------
    .. [1] Dwork, Talwar, Thakurta, Zhang, "Analyze Gauss: Optimal Bounds for Privacy-Preserving Principal
       Component Analysis", 2014.
    .. [2] PTK paper, Table 1, row 4.
    """

    columns: Any = None
    _: KW_ONLY
    bounds: Any = None
    max_norm: Any = None
    n_components: Any = None
    epsilon: Any
    delta: Any
    unit: Any = None
    max_rows_per_unit: Any = 1

    @property
    def covariance_(self) -> Floats:
        """Released covariance, from ``tables_``."""
        size = len(self._names())
        upper = np.zeros((size, size))
        upper[upper_triangle(size)] = self.tables_[PAIRS].column("covariance").to_numpy()
        return np.asarray(upper + np.triu(upper, 1).T)

    @property
    def mean_(self) -> Floats:
        """Released mean of each column, from ``tables_``."""
        return np.asarray(self.tables_[COMPONENTS].column("mean").to_numpy())

    @property
    def components_(self) -> Floats:
        """Released components, from ``tables_``."""
        return np.array([self.tables_[COMPONENTS].column(name).to_numpy() for name in self._features()])

    @property
    def explained_variance_(self) -> Floats:
        """Released variance along each component, from ``tables_``."""
        return np.asarray(self.tables_[VARIANCE].column("variance").to_numpy())

    @property
    def explained_variance_ratio_(self) -> Floats:
        """Released share of each component in the whole variance, from ``tables_``."""
        return np.asarray(self.tables_[VARIANCE].column("ratio").to_numpy())

    @once
    def required_columns(self) -> tuple[str, ...]:
        """Return the columns of the matrix."""
        return columns_or_bounds(self.columns, self.bounds, "columns")

    @once
    def table_schemas(self) -> dict[str, TableSchema]:
        """Return the tables ``covariance``, ``components`` and ``explained_variance``."""
        refuse_duplicates(self.required_columns(), "columns")
        return {
            PAIRS: PAIRS_SCHEMA,
            COMPONENTS: TableSchema.of({"column": pa.string()}, (*COLUMN_NUMBERS, *self._features())),
            VARIANCE: TableSchema.of({"component": pa.int64()}, ("variance", "ratio")),
        }

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return ``component_0``, ``component_1`` ..."""
        return np.asarray(self._features(), dtype=object)

    def _resolved_columns(self) -> dict[str, list[str]]:
        return {"columns": list(self.required_columns())}

    @once
    def _features(self) -> list[str]:
        size, count = len(self.required_columns()), self.n_components
        if count is None:
            count = size
        if not is_integer(count) or not 1 <= count <= size:
            raise InvalidParameterError("n_components must be an integer from 1 to the number of columns")
        return [f"component_{i}" for i in range(int(count))]

    @once
    def _blocks(self) -> tuple[Block, ...]:
        return (block_of(self.required_columns(), self.bounds, self.max_norm),)

    def _weights(self) -> dict[str, float]:
        size = len(self.required_columns())
        return {COUNT: 0.25, "sums_0": size / 2, "products_0": size * size / 2}

    def _column_table(self) -> str:
        return COMPONENTS

    @once
    def _key_columns(self) -> dict[str, dict[str, Any]]:
        numbers = pa.array(range(len(self._features())), type=pa.int64())
        return super()._key_columns() | {VARIANCE: {"component": numbers}}

    def _read(self, values: Values, variance: Mapping[str, float]) -> Release:
        moments, (block,) = self._moments(values, variance), self._blocks()
        mean = settled_mean(moments, 0, moments.sums, block.limit)
        noisy = moments.products / moments.rows - np.outer(mean, mean)
        with one_blas_thread(len(noisy)):
            spectrum, vectors = np.linalg.eigh(noisy)
            settled = settled_spectrum(spectrum, entry_noise(moments, 0, mean), block.limit**2)
            covariance = (vectors * settled) @ vectors.T
            components = self._principal(noisy, vectors)
        widths = block.half_widths
        weights = components * widths
        explained = np.vecdot(weights @ covariance, weights)
        total = float(np.sum(np.diagonal(covariance) * widths * widths))
        ratio = np.clip(explained / total, 0.0, 1.0) if total > 0 else np.zeros_like(explained)
        numbers: dict[str, dict[str, Floats]] = {
            COMPONENTS: self._columns(moments, mean) | dict(zip(self._features(), components, strict=True)),
            VARIANCE: {"variance": np.maximum(explained, 0.0), "ratio": ratio},
        }
        return self._reading(moments, covariance, numbers)

    def _principal(self, noisy: Floats, vectors: Floats) -> Floats:
        """Return the leading eigenvectors in the units of the columns; the largest weight of each is positive."""
        widths, count = self._half_widths(), len(self._features())
        if np.ptp(widths):
            last = len(widths) - 1
            wanted = [last + 1 - count, last] if 4 * count <= last else None  # few cost half of all
            _, vectors = eigh(noisy * np.outer(widths, widths), subset_by_index=wanted)
        leading = vectors[:, ::-1][:, :count].T
        peak = leading[np.arange(count), np.abs(leading).argmax(axis=1)]
        return np.asarray(leading * np.sign(peak)[:, np.newaxis])

    def _transform(self, table: InputTable) -> Floats:
        (block,) = self._blocks()
        rows = np.column_stack([table.numbers(name) for name in block.names])
        mean = (self.mean_ - block.centres) / block.half_widths
        standard = block.clamp(rows) - mean
        standard[~np.isfinite(rows)] = 0.0
        return np.asarray((standard * block.half_widths) @ self.components_.T)

    def _true_error(self, exact: Units) -> float:
        """Return the relative Frobenius error of the covariance of standardised columns."""
        moments, widths = self._exact_moments(exact), self._half_widths()
        mean = moments.sums / moments.rows
        true = moments.products / moments.rows - np.outer(mean, mean)
        size = float(np.linalg.norm(true))
        error = float(np.linalg.norm(self.covariance_ / np.outer(widths, widths) - true))
        return min(error / size, 1.0) if size > 0 else np.nan
