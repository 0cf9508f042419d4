"""The estimator of noisy contingency tables."""

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Floats, Ints
from ptklib.base import Release, Units
from ptklib.columns import as_column
from ptklib.counts.contingency import Contingency, overall_shares, probabilities
from ptklib.counts.features import Feature, feature_names, key_column, read_features
from ptklib.counts.layout import Layout, keys_of
from ptklib.counts.plan import CountPlan, plan_counts
from ptklib.counts.selected import SelectedKeys
from ptklib.domains import OUTSIDE, Domain, stand_out
from ptklib.exceptions import InvalidDomainError, InvalidParameterError
from ptklib.fit_cache import once
from ptklib.hashing import HashedDomain
from ptklib.inputs import InputTable
from ptklib.labelled import Labelled
from ptklib.mechanisms.grid import blocks, count_by
from ptklib.partials import PartialStatistics, merge_all
from ptklib.release import Component
from ptklib.state import ReleasedState, TableSchema
from ptklib.sums import NoisySums, Values, lookup_table


@dataclass(eq=False, repr=False)
class CountFeaturizer(Labelled, NoisySums):
    """Release, per value of each feature, how often each class occurs and with what probability.

    Parameters
    ----------
    features : sequence of str, optional
        Categorical columns; all columns of `domains`, `hash_buckets` and `select` by default. Each becomes a
        table of its name.
    label : str, optional
        Label column; the `y` of `fit` by default.
    classes : sequence
        Public values of the label: integers, strings or booleans. Rows with another label are dropped.
    domains : mapping of column to values, optional
        Public values of a feature: integers, strings or booleans. An unknown value adds nothing to the table
        of that feature.
    hash_buckets : mapping of column to int, or int, optional
        Features whose values fall into so many buckets. One number is for all `features` that neither
        `domains` nor `select` names. The key of the table is ``<feature>_bucket``; `bucket_of` finds it.
    hash_seed : int
        Seed of the hash, from 0 to 2**64 - 1. Public: it is part of the state.
    select : mapping of column to {"int64", "string"}, optional
        Features whose values nobody declares: those frequent enough to hide each row are released. Needs
        ``delta > 0``. A value of another type, or a string of more than 1,024 bytes, adds nothing.
    max_values : int
        Largest number of released values of a selected feature.
    epsilon, delta : float
        Budget of one fit over all features together. With ``delta > 0``, discrete Gaussian noise is used
        where it is smaller.
    unit, max_rows_per_unit
        The column of the privacy unit's id, and its rows: see `DPEstimator`. Noise grows with the latter.

    Attributes
    ----------
    tables_ : dict of str to pyarrow.Table
        Released. Per feature: the key column; ``count_<class>``, noisy and unclipped; ``p_<class>``,
        smoothed. A selected feature's table has the released values in ascending order. It also has
        ``noise_std``, the noise in each count of a value, which is smaller for values selected later.
    noise_std_ : dict
        Standard deviation of the noise of each accumulated count, of a value known since the first release.
    defaults_ : dict
        Features of values outside a domain: counts 0, the overall share of each class.
    privacy_spent_ : PrivacyLoss

    Notes
    -----
    :Guarantee: (epsilon, delta)-DP per call of ``fit``; epsilon-DP when ``delta`` is 0.
    :Unit: up to `max_rows_per_unit` rows; with `unit`, chosen at random among those of one id.
    :Neighbours: add or remove one unit.
    :Mechanism: one joint release of all tables; discrete Laplace of scale F / epsilon over F features, or
        discrete Gaussian, which is smaller for many features. The noisy counts of a value nobody declared are
        released when they add up to more than a public threshold
        (`ptklib.mechanisms.partition`, docs/proofs/partition-selection.md).
    :Sensitivity: one row moves one cell in each of the F tables by 1: L1 is F, L2 is sqrt(F).

    Probabilities are posterior means: a value seen rarely beside the noise leans on the share its class has
    overall, by an amount estimated from the release itself.

    In a continued state the values selected before stay and go on being counted; a value selected later is
    counted from that release on.

    References
    ----------
    .. [1] PTK paper, Table 1, row 1.
    """

    features: Any = None
    label: Any = None
    _: KW_ONLY
    classes: Any
    domains: Any = None
    hash_buckets: Any = None
    hash_seed: Any = 0
    select: Any = None
    max_values: Any = 2**16
    epsilon: Any
    delta: Any = 0
    unit: Any = None
    max_rows_per_unit: Any = 1

    @once
    def table_schemas(self) -> dict[str, TableSchema]:
        """Return one table per feature, keyed by it; a hashed feature's is keyed by the bucket."""
        layout = self._layout()
        return {feature.column: layout.schema(feature) for feature in self._features()}

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return ``<feature>_count_<class>`` and ``<feature>_p_<class>`` for each feature and class."""
        columns = self._layout().columns
        names = [f"{feature}_{column}" for feature in self._feature_names() for column in columns]
        return np.asarray(names, dtype=object)

    def released_keys(self) -> tuple[str, ...]:
        """Return the tables of the selected features."""
        return tuple(feature.column for feature in self._selected())

    def bucket_of(self, feature: str, values: Any) -> Ints:
        """Return the key that each value of a hashed feature has in its table, -1 where it is missing.

        Parameters
        ----------
        feature : str
            A column of `hash_buckets`.
        values : array-like of shape (n,)
        """
        for candidate in self._features():
            if isinstance(candidate, HashedDomain) and candidate.column == feature:
                return candidate.encode(as_column(values, "values"))
        raise InvalidParameterError(f"{feature!r} is not a hashed feature")

    def merge(self, parts: Iterable[PartialStatistics]) -> PartialStatistics:
        """Merge parts of this configuration; no part at all means an empty block."""
        start = PartialStatistics(type(self).__name__, self._fingerprint(), self._empty())
        selected = self._selected()
        merged = merge_all(start, parts, {name for feature in selected for name in feature.vectors})
        n_classes = len(self._classes())
        distinct: dict[str, Ints] = {}
        for feature in selected:
            distinct |= feature.pack(*feature.unpack(merged.arrays, n_classes))
        return replace(merged, arrays={**merged.arrays, **distinct})

    @once
    def _feature_names(self) -> tuple[str, ...]:
        return feature_names(self, self._label_column())

    @once
    def _features(self) -> tuple[Feature, ...]:
        return read_features(self, self._feature_names(), len(self._classes()))

    def _declared(self) -> tuple[Domain | HashedDomain, ...]:
        """Return the features whose tables have a size known without the data."""
        return tuple(feature for feature in self._features() if not isinstance(feature, SelectedKeys))

    def _selected(self) -> tuple[SelectedKeys, ...]:
        return tuple(feature for feature in self._features() if isinstance(feature, SelectedKeys))

    @once
    def _classes(self) -> Domain:
        classes = Domain.of(self._label_name(), self.classes)
        if len(classes) < 2:
            raise InvalidDomainError("classes must hold at least two values")
        return classes

    @once
    def _layout(self) -> Layout:
        return Layout.of(self._classes())

    @once
    def _components(self) -> list[Component]:
        n_classes = len(self._classes())
        return [
            Component(f.column, n_classes * (1 if isinstance(f, SelectedKeys) else len(f)), 1)
            for f in self._features()
        ]

    @once
    def _plan(self) -> CountPlan:
        self.table_schemas()  # refuses columns that would collide
        selected = [feature.column for feature in self._selected()]
        return plan_counts(self._components(), selected, self.epsilon, self.delta, self._rows_per_unit())

    def _steps(self) -> dict[str, float]:
        return dict.fromkeys((feature.column for feature in self._declared()), 1.0)

    def _empty(self) -> dict[str, Ints]:
        sizes = {component.name: component.size for component in self._components()}
        vectors: dict[str, Ints] = {}
        for feature in self._features():
            if isinstance(feature, SelectedKeys):
                vectors |= feature.empty()
            else:
                vectors[feature.column] = np.zeros(sizes[feature.column], dtype=np.int64)
        return vectors

    def _collect(self, table: InputTable, label: Any) -> dict[str, Ints]:
        classes = self._classes()
        labels, n_classes = classes.encode(label), len(classes)
        labelled = labels != OUTSIDE
        units: dict[str, Ints] = {}
        for feature in self._features():
            column = table.column(feature.column)
            if isinstance(feature, SelectedKeys):
                units |= feature.collect(column, labels, labelled, n_classes)
                continue
            codes, size = feature.encode(column), len(feature) * n_classes
            total = np.zeros(size + 1, dtype=np.int64)
            for rows in blocks(len(codes), size):
                kept = labelled[rows] & (codes[rows] != OUTSIDE)
                # Dropped rows do the same work, in a cell that is thrown away.
                total += count_by(np.where(kept, codes[rows] * n_classes + labels[rows], size), size + 1)
            units[feature.column] = total[:size]
        return units

    def _release(self, exact: Units, previous: ReleasedState | None) -> Release:
        if not self._selected():
            return super()._release(exact, previous)
        values, variance = self._accumulate(exact, previous)
        tables, plan = self._declared_tables(values, variance), self._plan()
        for feature in self._selected():
            name, before = feature.column, None
            added = plan.noise_variance(name)
            variance[name] = added
            if previous is not None:
                before = self._layout().selected(feature, previous.tables[name])
                variance[name] += float(previous.meta["noise_variance"][name])
            tables[name] = feature.release(exact, plan.selections[name], added, before)
        return replace(self._reading(tables, variance), noise_variance=variance)

    def _read(self, values: Values, variance: Mapping[str, float]) -> Release:
        return self._reading(self._declared_tables(values, variance), variance)

    def _declared_tables(self, values: Values, variance: Mapping[str, float]) -> dict[str, Contingency]:
        n_classes, tables = len(self._classes()), {}
        for feature in self._declared():
            counts = values[feature.column].reshape(-1, n_classes)
            noise = np.full(len(counts), variance[feature.column])
            tables[feature.column] = Contingency(feature.array, counts, noise)
        return tables

    def _reading(self, contingencies: Mapping[str, Contingency], variance: Mapping[str, float]) -> Release:
        layout = self._layout()
        share = overall_shares(list(contingencies.values()), len(layout.counts))
        reading = Release({})
        for feature in self._features():
            name, noise_std = feature.column, variance[feature.column] ** 0.5
            reading.tables[name] = layout.table(
                feature, contingencies[name], probabilities(contingencies[name], share)
            )
            reading.noise_std[name] = dict.fromkeys(layout.counts, noise_std)
            reading.defaults[name] = layout.defaults(feature, share, noise_std)
        return reading

    def _values_of(self, tables: Mapping[str, Any]) -> dict[str, Floats]:
        layout = self._layout()
        return {f.column: layout.counts_of(tables[f.column]).reshape(-1) for f in self._declared()}

    @once
    def _key_columns(self) -> dict[str, dict[str, Any]]:
        return {feature.column: {key_column(feature): feature.array} for feature in self._declared()}

    def _check_state(self, state: ReleasedState) -> None:
        super()._check_state(state)
        for feature in self._selected():
            self._layout().check(feature, state.tables[feature.column])

    def _unseen(self) -> tuple[str, ...]:
        features, label = self._features(), self._named_label()
        unseen = tuple(feature.column for feature in features if not self._seen(feature))
        none = len(unseen) == len(features)  # then it may be the label that matches nothing
        return (*unseen, label) if none and label is not None else unseen

    def _seen(self, feature: Feature) -> bool:
        table, columns = self.tables_[feature.column], self._layout().counts
        if isinstance(feature, SelectedKeys):
            return len(table) > 0
        counts = np.concatenate([table.column(name).to_numpy() for name in columns])
        return stand_out(counts, self.noise_std_[feature.column][columns[0]])

    def _transform(self, table: InputTable) -> Floats:
        all_features, columns = self._features(), self._layout().columns
        features = np.empty((table.n_rows, len(all_features) * len(columns)))
        for place, feature in enumerate(all_features):
            name = feature.column
            lookup = lookup_table(self.tables_[name], columns, self.defaults_[name])
            part = slice(place * len(columns), (place + 1) * len(columns))
            features[:, part] = lookup[self._codes(feature, table.column(name))]
        return features

    def _codes(self, feature: Feature, column: Any) -> Ints:
        """Return the place of each entry in the feature's released table, or `OUTSIDE`."""
        if isinstance(feature, SelectedKeys):
            return feature.codes(column, keys_of(feature, self.tables_[feature.column]))
        return feature.encode(column)

    def _true_error(self, exact: Units) -> float:
        """Mean over features and rows of the total variation between released and true probabilities."""
        n_classes, errors = len(self._classes()), []
        names = self._layout().probabilities
        for feature in self._features():
            released = lookup_table(self.tables_[feature.column], names, self.defaults_[feature.column])
            if isinstance(feature, SelectedKeys):
                keys, cells = feature.unpack(exact, n_classes)
                released = released[self._codes(feature, keys)]
            else:
                released, cells = released[:-1], exact[feature.column].reshape(-1, n_classes)
            counts = cells.astype(np.float64)
            rows = counts.sum(axis=1)
            true = counts / np.maximum(rows, 1.0)[:, None]
            if rows.sum():
                distance = np.abs(released - true).sum(axis=1) / 2
                errors.append(float((distance * rows).sum() / rows.sum()))
        return float(np.clip(np.mean(errors), 0.0, 1.0)) if errors else np.nan
