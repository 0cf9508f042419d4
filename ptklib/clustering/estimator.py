"""The clustering estimator: k-means centres, their weights and distances to them."""

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from ptklib.arrays import Floats, Ints
from ptklib.base import DPEstimator, Release, Units
from ptklib.clustering import grid, lloyd, zoom
from ptklib.clustering.centres import nearest
from ptklib.clustering.counted import Counted, CountedRelease
from ptklib.clustering.grid import Noisy
from ptklib.clustering.space import Box
from ptklib.domains import stand_out
from ptklib.exceptions import InvalidParameterError, StateMismatchError, UnboundedSensitivityError
from ptklib.fit_cache import once
from ptklib.inputs import InputTable
from ptklib.names import check_columns, refuse_duplicates
from ptklib.partials import PartialStatistics
from ptklib.privacy import SQUARES_MOST, Bounds, PrivacyLoss, check_delta
from ptklib.release import ReleasePlan
from ptklib.scalars import whole_number
from ptklib.state import ReleasedState, TableSchema

CENTERS, CELLS = "centers", "cells"
CLUSTERS_MAX = 1024
_ID, _WEIGHT, _CELL, _COUNT = "cluster_id", "weight", "cell", "count"
_ROWS, _CELLS = "rows", "cells"


@dataclass(eq=False, repr=False)
class Clustering(ClusterMixin, DPEstimator):  # type: ignore[misc]
    """Release k-means centres of bounded numeric columns.

    Parameters
    ----------
    columns : sequence of str, optional
        Numeric columns; all columns of `bounds` by default.
    n_clusters : int, default 8
        Number of centres, from 1 to 1024.
    bounds : mapping of column to (low, high), or one pair for all `columns`
        Public clipping bounds. Tight bounds make better centres: the grid covers the whole box.
    epsilon, delta : float
        Budget of one fit. With ``delta > 0``, discrete Gaussian noise is used: by ``"grid"`` where it is
        smaller, by ``"lloyd"`` always, by ``"zoom"`` never.
    unit, max_rows_per_unit
        The column of the privacy unit's id, and its rows: see `DPEstimator`. Noise grows with the latter.
    method : {"auto", "zoom", "grid", "lloyd"}
        ``"grid"``: weighted k-means on a noisy adaptive grid, for at most three columns. ``"zoom"``: the same, but
        where the finest counts show nothing but narrow clusters, the rest of the budget is spent on the rows around
        them. ``"lloyd"``: ten noisy rounds of Lloyd. ``"auto"`` zooms when it can.
    scale : bool, default False
        Whether distances divide each column by the width of its bounds. False is what scikit-learn's `KMeans`
        does: all columns count in their own unit.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_columns)
        Released. In the unit of each column, within the bounds.
    tables_ : dict of str to pyarrow.Table
        Released. ``centers``: ``cluster_id``, one column per feature, and ``weight``, the estimated number of
        rows. With a grid or a zoom also ``cells``: the accumulated noisy counts of all levels.
    privacy_spent_ : PrivacyLoss

    Notes
    -----
    :Guarantee: (epsilon, delta)-DP per call of ``fit``; epsilon-DP when ``delta`` is 0.
    :Unit: up to `max_rows_per_unit` rows; with `unit`, chosen at random among those of one id.
    :Neighbours: add or remove one unit.
    :Mechanism: grid: discrete Laplace or Gaussian noise on the counts of three nested grids, and on the sums of the
        offsets of each centre's rows from the middles of their finest cells. Zoom: the same with Laplace
        noise, or counts of the finest cells and then a search of narrow clusters. The search has
        permute-and-flip among intervals of each column for each narrow cluster, and noise on the summed
        offsets of its rows from their middles (docs/proofs/zoom.md). Lloyd: one measurement of mean and
        spread, then the same noise on counts, clipped offsets and clipped squared offsets per centre in each
        round. With Gaussian noise also on the counts and means of a tree of random halves, where the rounds
        start [4]_.
    :Sensitivity: grid: one row moves one count per level by 1, and the offsets of one centre by ``2**10`` units in each
        column. Zoom: also one number of rows by 1, and the scores of intervals by ``2**6`` units, all in one
        direction. Lloyd: one row moves one count by 1, one sum of offsets by ``2**20`` units (L1 or L2) and
        one sum of squares by as much, in each round. In the tree it moves one count per level by 1 and the
        sums of one leaf by ``2**20`` units (L2).

    `transform` gives the distance to each centre and `predict` the index of the nearest, as scikit-learn's
    `KMeans` does. Values are clamped to the bounds there as in `fit`. A row with a missing or infinite value is
    dropped by `fit`; in `transform` a missing value takes the released mean of its column.

    The centres found may be no nearer to the rows than centres spread evenly over the box, as far as noise
    can tell. Then the latter are released. The noisy counts themselves decide (grid, zoom), or a last
    measurement (Lloyd).

    With a grid or a zoom a continued state adds up: the centres are those of all rows so far. Only a narrow cluster
    that has moved away from its centre is where its newest rows are. With Lloyd the previous centres are where the
    rounds start, and weights are those of the last rows. Partial statistics of the grid are counts; those of a zoom
    and of Lloyd are quantised rows.

    References
    ----------
    .. [1] PTK paper, Table 1, row 6.
    .. [2] Su, Cao, Li, Bertino, Jin, "Differentially Private K-Means Clustering", CODASPY 2016.
    .. [3] Diaa, Humphries, Kerschbaum, "FastLloyd: Federated, Accurate, Secure, and Tunable k-Means Clustering
       with Differential Privacy", 2024: offsets relative to their centre.
    .. [4] Chang, Ghazi, Kumar, Manurangsi, "Locally Private k-Means in One Round", 2021.
    """

    released: ClassVar[tuple[str, ...]] = (*DPEstimator.released, "cluster_centers_")
    _joined: ClassVar[tuple[str, ...]] = ("rows",)

    columns: Any = None
    n_clusters: Any = 8
    _: KW_ONLY
    bounds: Any
    epsilon: Any
    delta: Any = 0
    method: Any = "auto"
    scale: Any = False
    unit: Any = None
    max_rows_per_unit: Any = 1

    def required_columns(self) -> tuple[str, ...]:
        """Return the clustered columns."""
        return tuple(self._bounds())

    def declared_loss(self) -> PrivacyLoss:
        """Return the loss of one `fit`, before any data are read."""
        self.table_schemas()
        return self._zoom().loss if self._method() == "zoom" else self._plan().loss

    @once
    def table_schemas(self) -> dict[str, TableSchema]:
        """Return ``centers`` and, with the grid, ``cells``."""
        names = (_ID, *self.required_columns(), _WEIGHT)
        refuse_duplicates(names, "the columns of the released table")
        self._clusters()
        schemas = {CENTERS: TableSchema.of({_ID: pa.int64()}, names[1:])}
        if self._method() != "lloyd":
            schemas[CELLS] = TableSchema.of({_CELL: pa.int64()}, (_COUNT,))
        return schemas

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return ``distance_<cluster_id>`` for each centre."""
        return np.asarray([f"distance_{i}" for i in range(self._clusters())], dtype=object)

    def predict(self, X: Any) -> Ints:
        """Return the index of the nearest centre of each row."""
        check_is_fitted(self)
        distances = self._transform(InputTable(X, self._transform_columns()))  # whatever set_output says
        return np.asarray(distances.argmin(axis=1), dtype=np.int64)

    def fit_predict(self, X: Any, y: Any = None, **keywords: Any) -> Ints:
        """Fit, then return the index of the nearest centre of each row; nothing about rows is kept."""
        return self.fit(X, y, **keywords).predict(X)

    def _resolved_columns(self) -> dict[str, list[str]]:
        return {"columns": list(self._bounds())}

    @once
    def _bounds(self) -> dict[str, Bounds]:
        per_column = isinstance(self.bounds, Mapping)
        if self.columns is None and not per_column:
            raise UnboundedSensitivityError(
                "Clustering needs bounds={column: (low, high)}, or columns and bounds "
                "(the columns of an array are x0, x1, ...)"
            )
        names = check_columns(self.bounds if self.columns is None else self.columns, "columns")
        if not names:
            raise InvalidParameterError("Clustering needs at least one column")
        if per_column and set(names) != set(self.bounds):
            raise UnboundedSensitivityError("bounds must declare exactly the columns to cluster")
        return {
            name: Bounds.of(self.bounds[name] if per_column else self.bounds, name).within(SQUARES_MOST, name)
            for name in names
        }

    def _box(self) -> Box:
        if not isinstance(self.scale, bool):
            raise InvalidParameterError("scale must be True or False")
        return Box.of(self._bounds(), self.scale)

    def _clusters(self) -> int:
        return whole_number(self.n_clusters, "n_clusters", 1, CLUSTERS_MAX)

    def _method(self) -> Literal["zoom", "grid", "lloyd"]:
        small = len(self._bounds()) in grid.LEVELS
        if self.method == "lloyd" or (self.method == "auto" and not small):
            return "lloyd"
        if self.method not in ("auto", "zoom", "grid"):
            raise InvalidParameterError("method must be 'auto', 'zoom', 'grid' or 'lloyd'")
        if not small:
            raise InvalidParameterError(f"method {self.method!r} takes at most {max(grid.LEVELS)} columns")
        return "grid" if self.method == "grid" else "zoom"

    @once
    def _plan(self) -> ReleasePlan:
        box, k, rows = self._box(), self._clusters(), self._rows_per_unit()
        if self._method() == "zoom":
            return self._zoom().wide
        if self._method() == "grid":
            return grid.plan_counts(len(box.names), k, self.epsilon, self.delta, rows)
        return lloyd.plan_rounds(box.half_widths, k, self.epsilon, self.delta, rows)

    @once
    def _zoom(self) -> zoom.ZoomPlan:
        check_delta(self.delta)
        return zoom.plan_zoom(len(self._box().names), self._clusters(), self.epsilon, self._rows_per_unit())

    def merge(self, parts: Iterable[PartialStatistics]) -> PartialStatistics:
        """Merge parts of this configuration, also those of versions before this one."""
        if self._method() == "lloyd" or isinstance(parts, PartialStatistics):
            return super().merge(parts)
        merged = super().merge(map(self._of_this_version, parts))
        positions = merged.arrays.get(_ROWS, np.zeros(0, dtype=np.int64))
        if len(positions) % len(self._bounds()) or (positions >> zoom.BITS).any():  # outside of the box
            raise StateMismatchError("partial statistics hold rows that this estimator did not write")
        return merged

    def iterates(self) -> bool:
        """Return whether training goes over the rows again and again, as Lloyd does."""
        return self._method() == "lloyd"

    def _of_this_version(self, part: Any) -> Any:
        """Give a part of an earlier version what it lacks: offsets, or rows, which are then in the middles of cells."""
        counts = part.arrays.get(_CELLS) if isinstance(part, PartialStatistics) else None
        dimension = len(self._bounds())
        n_cells = grid.LEVELS[dimension][-1] ** dimension
        if counts is None or part.fingerprint != self._fingerprint() or counts.shape != (n_cells,):
            return part  # not an earlier one; merging says what is wrong with it
        if self._method() == "grid":
            return replace(part, arrays={**self._empty(), **part.arrays})
        if counts.min() < 0:
            raise StateMismatchError("partial statistics have a negative number of rows")
        middles = grid.middles(np.arange(n_cells), grid.LEVELS[dimension][-1], dimension)
        return replace(
            part, arrays={_ROWS: np.repeat(zoom.positions_of(middles), counts, axis=0).reshape(-1)}
        )

    def _empty(self) -> dict[str, Ints]:
        return self._exact(np.zeros((0, len(self._bounds()))))

    def _collect(self, table: InputTable, label: Any) -> dict[str, Ints]:
        rows = np.array(
            [table.numbers(name) for name in self._bounds()]
        ).T  # column by column, which is faster
        finite = np.isfinite(rows).all(axis=1)
        return self._exact(rows if finite.all() else rows[finite])

    def _exact(self, rows: Floats) -> dict[str, Ints]:
        box = self._box()
        if self._method() == "zoom":
            return {_ROWS: zoom.positions_of(box.shares(rows)).reshape(-1)}
        if self._method() == "grid":
            cells, offsets = grid.cells(box.shares(rows))
            return {_CELLS: cells, grid.OFFSETS: offsets}
        return {_ROWS: box.quantise(rows).reshape(-1)}

    def _release(self, exact: Units, previous: ReleasedState | None) -> Release:
        if self._method() != "lloyd":
            return self._release_counted(exact, previous)
        box, plan, k = self._box(), self._plan(), self._clusters()
        start = None if previous is None else box.quantise(self._centres_in(previous.tables))
        rows = exact[_ROWS].reshape(-1, len(box.names))
        centres = lloyd.noisy_centres(rows, box.half_widths, k, plan, start)
        last = lloyd.rounds_of(len(box.names), plan.epsilons is None) - 1
        std = plan.noise_variance(f"round_{last}_count") ** 0.5
        table = self._centers(box.restore(centres.units), centres.weights)
        return Release({CENTERS: table}, {CENTERS: {_WEIGHT: std}})

    def _release_counted(self, exact: Units, previous: ReleasedState | None) -> Release:
        before, names = (
            None if previous is None else self._counted_in(previous),
            grid.names(len(self._bounds())),
        )
        if self._method() == "grid":
            release = CountedRelease(self._box(), self._clusters(), self._plan(), previous=before)
            counted = release.of_cells(exact[_CELLS], exact[grid.OFFSETS])
        else:
            plan = self._zoom()
            release = CountedRelease(self._box(), self._clusters(), plan.wide, plan.narrow, before)
            counted = release.of_positions(exact[_ROWS].reshape(-1, len(self._bounds())))
        counts = {_COUNT: np.concatenate([counted.counts[name].values for name in names])}
        cells = pa.table({**self._key_columns()[CELLS], **counts}, schema=self.table_schemas()[CELLS].schema)
        tables = {CENTERS: self._centers(counted.centres, counted.weights), CELLS: cells}
        std = max(counted.counts[name].variance for name in names) ** 0.5
        return Release(
            tables, {CELLS: {_COUNT: std}}, {name: one.variance for name, one in counted.counts.items()}
        )

    def _counted_in(self, state: ReleasedState) -> Counted:
        components, variances = grid.components(len(self._bounds())), state.meta["noise_variance"]
        ends = np.cumsum([component.size for component in components])
        levels = np.split(state.tables[CELLS].column(_COUNT).to_numpy(), ends[:-1])
        counts = {
            component.name: Noisy(values, float(variances[component.name]))
            for component, values in zip(components, levels, strict=True)
        }
        weights = state.tables[CENTERS].column(_WEIGHT).to_numpy()
        # A state without a zoom has no number of rows of its own: it is the sum of the coarsest counts.
        of_sum = components[0].size * counts[components[0].name].variance
        counts[zoom.TOTAL] = Noisy(np.array([weights.sum()]), float(variances.get(zoom.TOTAL, of_sum)))
        return Counted(self._centres_in(state.tables), weights, counts)

    def _unseen(self) -> tuple[str, ...]:
        if self._method() == "lloyd":
            counts, std = self.tables_[CENTERS].column(_WEIGHT).to_numpy(), self.noise_std_[CENTERS][_WEIGHT]
        elif self._method() == "zoom":
            counts = np.array([self.tables_[CENTERS].column(_WEIGHT).to_numpy().sum()])
            std = self.noise_variance_[zoom.TOTAL] ** 0.5
        else:
            coarsest = grid.components(len(self._bounds()))[0]
            counts = self.tables_[CELLS].column(_COUNT).to_numpy()[: coarsest.size]
            std = self.noise_variance_[coarsest.name] ** 0.5
        return () if stand_out(counts, std) else self.required_columns()

    def _centers(self, centres: Floats, weights: Floats) -> Any:
        columns = dict(zip(self._bounds(), centres.T, strict=True))
        data = {**self._key_columns()[CENTERS], **columns, _WEIGHT: weights}
        return pa.table(data, schema=self.table_schemas()[CENTERS].schema)

    def _centres_in(self, tables: Mapping[str, Any]) -> Floats:
        return np.column_stack([tables[CENTERS].column(name).to_numpy() for name in self._bounds()])

    def _derive(self) -> None:
        self.cluster_centers_ = self._centres_in(self.tables_)

    @once
    def _key_columns(self) -> dict[str, dict[str, Any]]:
        keys = {CENTERS: {_ID: pa.array(np.arange(self._clusters(), dtype=np.int64))}}
        if self._method() != "lloyd":
            size = sum(c.size for c in grid.components(len(self._bounds())))
            keys[CELLS] = {_CELL: pa.array(np.arange(size, dtype=np.int64))}
        return keys

    def _transform(self, table: InputTable) -> Floats:
        box = self._box()
        rows = np.column_stack([table.numbers(name) for name in box.names])
        return box.distances(box.clip(np.where(np.isnan(rows), self._usual(), rows)), self.cluster_centers_)

    def _usual(self) -> Floats:
        """Return the released mean of each column, which missing values take."""
        weights = self.tables_[CENTERS].column(_WEIGHT).to_numpy() + 1e-9
        return np.asarray(np.average(self.cluster_centers_, axis=0, weights=weights))

    def _true_error(self, exact: Units) -> float:
        """Root mean squared distance to the nearest centre, over the diagonal of the box."""
        box = self._box()
        dimension = len(box.names)
        if self._method() == "grid":
            weights = exact[_CELLS].astype(np.float64)
            rows = box.at(grid.centres_of(dimension, len(grid.LEVELS[dimension]) - 1))
            rows, weights = rows[weights > 0], weights[weights > 0]
        elif self._method() == "zoom":
            rows = box.at(zoom.middles(exact[_ROWS].reshape(-1, dimension)))
            weights = np.ones(len(rows))
        else:
            rows = box.restore(exact[_ROWS].reshape(-1, dimension))
            weights = np.ones(len(rows))
        if not len(rows):
            return np.nan
        squares = nearest(rows * box.factor, self.cluster_centers_ * box.factor)[1]
        diagonal = float(((box.width * box.factor) ** 2).sum())
        return float(np.clip(np.sqrt(np.average(squares, weights=weights) / diagonal), 0.0, 1.0))
