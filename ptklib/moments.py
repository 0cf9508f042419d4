"""Releases of number, sums and products of clipped rows: what covariance, PCA and least squares need."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from math import fsum, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

from ptklib.accounting import discrete_scale, gaussian_multiplier
from ptklib.arrays import Floats, Ints
from ptklib.base import Release
from ptklib.columns import as_numbers
from ptklib.domains import stand_out
from ptklib.events import Composed, DiscreteGaussian
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError
from ptklib.fit_cache import once
from ptklib.gram import KEPT_SIZE, RADIUS, Block, RowTable, columns_of, exact_gram, upper_triangle
from ptklib.inputs import InputTable
from ptklib.names import check_columns
from ptklib.privacy import PrivacyLoss, check_delta, check_epsilon
from ptklib.release import Component, ReleasePlan
from ptklib.state import TableSchema
from ptklib.sums import NoisySums, Values

COUNT = "count"
PAIRS = "covariance"
PAIRS_SCHEMA = TableSchema.of({"row": pa.string(), "column": pa.string()}, ("product", "covariance"))
COLUMN_NUMBERS = (COUNT, "sum", "mean")
"""The first columns of numbers in the table that has one row per column."""

_ROUND_UP = 1 + 1e-12
_LARGE = 128


@dataclass(frozen=True)
class Group:
    """Vectors that one record moves together, and their joint L2 sensitivity."""

    name: str
    sensitivity: int
    """In the norm in which entries beside the diagonal count twice (as they do in a full matrix)."""
    weight: float
    """How much the variance of the noise matters, counted in squared sensitivities."""
    diagonal: int
    beside: int = 0
    """Number of entries on and beside the diagonal; a plain vector is all diagonal."""

    def components(self) -> list[Component]:
        """Return the one or two vectors of the group."""
        parts = [Component(self.name, self.diagonal, self.sensitivity)]
        if self.beside:
            parts.append(Component(beside(self.name), self.beside, self.sensitivity))
        return parts


@dataclass(frozen=True, eq=False)
class Moments:
    """Noisy number, sums and products of standardised rows, with the variance of their noise."""

    count: float
    sums: Floats
    products: Floats
    variance: Mapping[str, float]

    @property
    def rows(self) -> float:
        """The noisy count, kept away from zero: below its own noise it says nothing."""
        return max(self.count, sqrt(self.variance[COUNT]), 1.0)


def beside(name: str) -> str:
    """Return the name of the vector beside the diagonal of group `name`."""
    return f"{name}_pairs"


class MomentSums(NoisySums):
    """Parent of families whose release is number, sums and products of clipped rows.

    Notes
    -----
    :Guarantee: (epsilon, delta)-DP per call of ``fit``; ``delta`` must be positive.
    :Mechanism: discrete Gaussian on integers, one scale per group: the count; per block of columns its sums and
        its symmetric matrix of products; per two blocks the products between them.
    :Sensitivity: a quantised row q of a block has ``||q|| <= r``, ``r = 2**15`` units: 1 for the count, r for
        sums, r**2 for products.

    The upper triangle of a symmetric matrix gets noise of scale s on its diagonal and s / sqrt(2) beside it.
    A row costs ``sum_i q_i**4 / (2 s**2) + sum_{i<j} (q_i q_j)**2 / s**2 = ||q||**4 / (2 s**2)``-zCDP, as
    much as scale s everywhere would cost in the worst case: half the variance beside the diagonal is for
    nothing. Continuous noise of these scales would be (epsilon, delta)-DP as the analytic Gaussian. Discrete
    noise has 3 square units more variance in each entry, and docs/proofs/discrete-gaussian.md proves that
    this is enough.

    Groups divide the budget so that the weighted sum of their variances is least. So ``1 / m**2`` of a group,
    m its noise in sensitivities, is proportional to the root of its weight.
    """

    @abstractmethod
    def _blocks(self) -> tuple[Block, ...]:
        """Return the blocks of columns, each clipped by itself."""

    @abstractmethod
    def _weights(self) -> dict[str, float]:
        """Return the weight of each group."""

    @abstractmethod
    def _column_table(self) -> str:
        """Return the name of the table that has one row per column."""

    def _unseen(self) -> tuple[str, ...]:
        table = self._column_table()
        count = self.tables_[table].column(COUNT).to_numpy()[:1]  # one number, repeated
        return () if stand_out(count, self.noise_std_[table][COUNT]) else self.required_columns()

    @once
    def _names(self) -> tuple[str, ...]:
        return tuple(name for block in self._blocks() for name in block.names)

    @once
    def _groups(self) -> list[Group]:
        weights, blocks = self._weights(), self._blocks()
        groups = [Group(COUNT, 1, weights[COUNT], 1)]
        for i, block in enumerate(blocks):
            size = len(block.names)
            groups.append(Group(f"sums_{i}", RADIUS, weights[f"sums_{i}"], size))
            name, square = f"products_{i}", RADIUS * RADIUS
            groups.append(Group(name, square, weights[name], size, size * (size - 1) // 2))
            for j, other in enumerate(blocks[:i]):
                name = f"products_{j}_{i}"
                groups.append(Group(name, square, weights[name], size * len(other.names)))
        return groups

    @once
    def _components(self) -> Sequence[Component]:
        return [component for group in self._groups() for component in group.components()]

    @once
    def _steps(self) -> dict[str, float]:
        steps_of = [block.step for block in self._blocks()]
        steps = {COUNT: 1.0}
        for i, step in enumerate(steps_of):
            steps |= {f"sums_{i}": step, f"products_{i}": step * step}
            if len(self._blocks()[i].names) > 1:
                steps[beside(f"products_{i}")] = step * step
            steps |= {f"products_{j}_{i}": other * step for j, other in enumerate(steps_of[:i])}
        return steps

    @once
    def _plan(self) -> ReleasePlan:
        self.table_schemas()  # refuses columns that would collide, and further parameters of a family
        epsilon, delta = check_epsilon(self.epsilon), check_delta(self.delta)
        if delta == 0:
            raise PrivacyParameterError(f"{type(self).__name__} adds Gaussian noise and needs delta > 0")
        groups = self._groups()
        multiplier = gaussian_multiplier(epsilon, delta)
        total = fsum(sqrt(group.weight) for group in groups)
        scales, events = {}, []
        for group in groups:
            sensitivity = group.sensitivity * self._rows_per_unit()
            noise = sensitivity * multiplier * sqrt(total / sqrt(group.weight)) * _ROUND_UP
            scale = discrete_scale(noise)
            event = DiscreteGaussian(
                scale=scale, l2_sensitivity=sensitivity, shape=(group.diagonal + group.beside,)
            )
            scales[group.name] = scale
            if group.beside:
                scales[beside(group.name)] = discrete_scale(noise / sqrt(2) * _ROUND_UP)
                event = replace(event, scale_beside_diagonal=scales[beside(group.name)])
            events.append(event)
        loss = PrivacyLoss(epsilon, delta, Composed(events=tuple(events)))
        return ReleasePlan(tuple(self._components()), loss, scales, None)

    def _table(self, X: Any) -> RowTable:
        return RowTable(X, self.input_columns())

    def _collect(self, table: InputTable, label: Any) -> dict[str, Ints]:
        assert isinstance(table, RowTable)
        blocks = self._blocks()
        numbers = None if label is None else as_numbers(label, blocks[-1].names[0])
        count, sums, products = exact_gram(table, blocks, numbers)
        return {COUNT: np.array([count], dtype=np.int64), **_vectors(blocks, sums, products)}

    def _moments(self, values: Mapping[str, npt.NDArray[Any]], variance: Mapping[str, float]) -> Moments:
        """Put standardised vectors together again."""
        blocks = self._blocks()
        places, size = columns_of(blocks), sum(len(block.names) for block in blocks)
        sums, products = np.empty(size), np.zeros((size, size))
        for i, place in enumerate(places):
            sums[place] = values[f"sums_{i}"]
            own = products[place, place]
            if len(own) > 1:
                own[upper_triangle(len(own), 1)] = values[beside(f"products_{i}")]
                own += own.T
            own[np.diag_indices(len(own))] = values[f"products_{i}"]
            for j, other in enumerate(places[:i]):
                cross = np.asarray(values[f"products_{j}_{i}"]).reshape(-1, len(own))
                products[other, place], products[place, other] = cross, cross.T
        return Moments(float(values[COUNT][0]), sums, products, variance)

    def _exact_moments(self, exact: Mapping[str, Ints]) -> Moments:
        """Return the moments of exact integer vectors: **private**."""
        steps = self._steps()
        return self._moments({name: exact[name] * step for name, step in steps.items()}, {COUNT: 0.0})

    def _values_of(self, tables: Mapping[str, Any]) -> dict[str, Floats]:
        widths = self._half_widths()
        columns, pairs = tables[self._column_table()], tables[PAIRS]
        size = len(widths)
        sums = columns.column("sum").to_numpy() / widths
        products = np.empty((size, size))
        products[upper_triangle(size)] = pairs.column("product").to_numpy()
        products /= np.outer(widths, widths)
        return {COUNT: columns.column(COUNT).to_numpy()[:1], **_vectors(self._blocks(), sums, products)}

    @once
    def _half_widths(self) -> Floats:
        return np.concatenate([block.half_widths for block in self._blocks()])

    @once
    def _centres(self) -> Floats:
        return np.concatenate([block.centres for block in self._blocks()])

    @once
    def _key_columns(self) -> dict[str, dict[str, Any]]:
        names = tuple(self._names())
        pairs, columns = _kept_keys(names) if len(names) <= KEPT_SIZE else _keys(names)
        return {PAIRS: dict(pairs), self._column_table(): dict(columns)}

    def _reading(
        self, moments: Moments, covariance: Floats, numbers: dict[str, dict[str, Floats]]
    ) -> Release:
        """Return the tables: that of `covariance`, and the columns of numbers of the others."""
        columns = {**numbers, PAIRS: self._pairs(moments, covariance)}
        keys, schemas = self._key_columns(), self.table_schemas()
        tables = {n: pa.table(keys[n] | columns[n], schema=schemas[n].schema) for n in schemas}
        defaults = {name: dict.fromkeys(columns[name], 0.0) for name in schemas}
        return Release(tables, self._noise_std(moments.variance), defaults=defaults)

    def _pairs(self, moments: Moments, covariance: Floats) -> dict[str, Floats]:
        """Return the value columns of the table of pairs, in the units of the columns."""
        widths, upper = self._half_widths(), upper_triangle(len(covariance))
        scale = np.outer(widths, widths)[upper]
        return {"product": moments.products[upper] * scale, "covariance": covariance[upper] * scale}

    def _columns(self, moments: Moments, mean: Floats) -> dict[str, Floats]:
        """Return the first value columns of the table of columns, in the units of the columns."""
        widths = self._half_widths()
        return {
            COUNT: np.full(len(widths), moments.count),
            "sum": moments.sums * widths,
            "mean": self._centres() + mean * widths,
        }

    def _noise_std(self, variance: Values | Mapping[str, float]) -> dict[str, dict[str, float]]:
        """Return the largest standard deviation of each accumulated column, in the units of the columns."""
        widest = [float(block.half_widths.max()) for block in self._blocks()]
        sums, products = [], []
        for i, width in enumerate(widest):
            sums.append(sqrt(float(variance[f"sums_{i}"])) * width)
            products.append(sqrt(float(variance[f"products_{i}"])) * width * width)
            products += [sqrt(float(variance[f"products_{j}_{i}"])) * width * widest[j] for j in range(i)]
        return {
            PAIRS: {"product": max(products)},
            self._column_table(): {COUNT: sqrt(float(variance[COUNT])), "sum": max(sums)},
        }


def columns_or_bounds(columns: Any, bounds: Any, name: str) -> tuple[str, ...]:
    """Return the columns that parameter `name` gives, or else all columns of `bounds`."""
    if columns is None and not isinstance(bounds, Mapping):
        raise InvalidParameterError(
            f"name the {name} with {name}=..., or give bounds={{column: (low, high)}}"
        )
    return check_columns(bounds if columns is None else columns, name)


def _vectors(
    blocks: Sequence[Block], sums: npt.NDArray[Any], products: npt.NDArray[Any]
) -> dict[str, npt.NDArray[Any]]:
    """Cut sums, and the upper triangle of products, into the vectors that noise is added to."""
    vectors: dict[str, npt.NDArray[Any]] = {}
    places = columns_of(blocks)
    for i, place in enumerate(places):
        own = products[place, place]
        vectors |= {f"sums_{i}": sums[place], f"products_{i}": np.diagonal(own).copy()}
        if len(own) > 1:
            vectors[beside(f"products_{i}")] = own[upper_triangle(len(own), 1)]
        vectors |= {f"products_{j}_{i}": products[o, place].ravel() for j, o in enumerate(places[:i])}
    return vectors


def _keys(names: tuple[str, ...]) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
    """Return the key columns of the table of pairs and of that of columns."""
    columns = pa.array(names, type=pa.string())
    first, second = (columns.take(pa.array(places)) for places in upper_triangle(len(names)))
    return {"row": first, "column": second}, {"column": columns}


_kept_keys = lru_cache(maxsize=16)(_keys)


def one_blas_thread(size: int) -> AbstractContextManager[object]:
    """Keep BLAS to one thread in an eigenproblem of many columns.

    It is bound by memory: threads gain little, and on busy cores they wait for each other ten times longer than they
    work (2,000 columns: 39 seconds instead of 2.5).
    """
    return threadpool_limits(1, user_api="blas") if size >= _LARGE else nullcontext()


def settled_mean(moments: Moments, block: int, sums: Floats, limit: float) -> Floats:
    """Return the mean of standardised rows of one block, which cannot be longer than `limit`.

    Notes
    -----
    The posterior mean for means of length ``limit / 2`` on average: it differs from ``sums / rows`` only where
    noise covers the sums.
    """
    prior = limit * limit / (4 * len(sums))
    noise = float(moments.variance[f"sums_{block}"]) / prior
    mean = np.asarray(sums * (moments.rows / (moments.rows**2 + noise)))
    size = float(np.linalg.norm(mean))
    return mean * (limit / size) if size > limit else mean


def entry_noise(moments: Moments, block: int, mean: Floats) -> float:
    """Return the standard deviation of an entry beside the diagonal of the covariance of one block."""
    own, sums = moments.variance[f"products_{block}"] / 2, moments.variance[f"sums_{block}"]
    return sqrt(own + 2 * sums * float(np.mean(mean * mean))) / moments.rows


def settled_spectrum(noisy: Floats, noise: float, most: float) -> Floats:
    """Return eigenvalues freed of what noise adds to them, for the noisy eigenvectors.

    Parameters
    ----------
    noisy : ndarray of shape (n,)
        Eigenvalues of a symmetric matrix plus independent noise of standard deviation `noise` beside the
        diagonal.
    most : float
        Their sum, the mean squared length of rows, cannot be larger.

    Notes
    -----
    Noise alone spreads equal eigenvalues over ``b - 2 s ... b + 2 s``, ``s = noise * sqrt(n)``, with variance
    s**2. Eigenvalues in that bulk are drawn towards their mean b by the share of their variance that is noise.
    One at distance y from b keeps at least ``sqrt(y**2 - 4 s**2)``: what its noisy eigenvector really explains,
    and the choice of least Frobenius error [1]_. Without noise nothing changes.

    The rest is projected on the spectra that are possible, so the error only falls. Noise far above the rows
    cannot make a covariance larger than any there could be.

    References
    ----------
    .. [1] Donoho, Gavish, Johnstone, "Optimal Shrinkage of Eigenvalues in the Spiked Covariance Model", 2018;
       Gavish, Donoho, "Optimal Shrinkage of Singular Values", 2017, for the Frobenius norm.
    """
    edge = 2 * noise * sqrt(len(noisy))
    bulk = np.ones(len(noisy), dtype=np.bool_)
    for _ in range(len(noisy)):
        centre = float(noisy[bulk].mean())
        inside = np.abs(noisy - centre) <= edge
        if not inside.any() or np.array_equal(inside, bulk):
            break
        bulk = inside
    centre = float(noisy[bulk].mean())
    away = noisy - centre
    spread = float(np.mean(away[bulk] ** 2))
    share = max(1 - (edge / 2) ** 2 / spread, 0.0) if spread > 0 else 0.0
    kept = np.maximum(np.sqrt(np.maximum(away * away - edge * edge, 0.0)), share * np.abs(away))
    return _possible(centre + np.sign(away) * kept, most)


def _possible(spectrum: Floats, most: float) -> Floats:
    """Return the nearest numbers that are not negative and add up to `most` or less."""
    positive = np.maximum(spectrum, 0.0)
    if positive.sum() <= most:
        return positive
    ordered = np.sort(spectrum)[::-1]
    excess = (np.cumsum(ordered) - most) / np.arange(1, len(ordered) + 1)
    level = float(excess[np.flatnonzero(ordered > excess)[-1]])
    return np.asarray(np.maximum(spectrum - level, 0.0))
