"""Count featurization: noisy contingency tables of categorical features against a label."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ptklib.base import Units
from ptklib.domains import OUTSIDE, Domain, Key, product_size
from ptklib.exceptions import InvalidDomainError, InvalidParameterError
from ptklib.inputs import InputTable
from ptklib.mechanisms.grid import blocks, count_by
from ptklib.names import check_columns, check_name, refuse_duplicates
from ptklib.release import Component
from ptklib.shrinkage import prior_variance, shrunken_deviation
from ptklib.state import TableSchema
from ptklib.sums import NoisySums, Reading, Values, lookup_table

Floats = npt.NDArray[np.float64]


class CountFeaturizer(NoisySums):
    """Release, per value of each feature, how often each class occurs and with what probability.

    Parameters
    ----------
    features : sequence of str, optional
        Categorical columns; all columns of `domains` by default. Each becomes a table of its name.
    label : str, optional
        Label column; the `y` of `fit` by default.
    classes : sequence
        Public values of the label: integers, strings or booleans. Rows with another label are dropped.
    domains : mapping of column to values
        Public values of each feature: integers, strings or booleans. An unknown value adds nothing to the
        table of that feature.
    hash_buckets : None
        Reserved: only declared domains are supported.
    epsilon, delta : float
        Budget of one fit over all features together. With ``delta > 0``, discrete Gaussian noise is used
        where it is smaller.
    unit : str, optional
        Column of the privacy unit's id: of each, at most `max_rows_per_unit` rows are kept.
    max_rows_per_unit : int
        Rows of one privacy unit; noise grows with it. Without `unit` the caller has bounded them before.

    Attributes
    ----------
    tables_ : dict of str to pyarrow.Table
        Released. Per feature: the key column; ``count_<class>``, noisy and unclipped; ``p_<class>``,
        smoothed.
    noise_std_ : dict
        Standard deviation of the noise of each accumulated count.
    defaults_ : dict
        Features of values outside a domain: counts 0, the overall share of each class.
    privacy_spent_ : PrivacyLoss

    Notes
    -----
    :Guarantee: (epsilon, delta)-DP per call of ``fit``; epsilon-DP when ``delta`` is 0.
    :Unit: up to `max_rows_per_unit` rows; with `unit`, chosen at random among those of one id.
    :Neighbours: add or remove one unit.
    :Mechanism: one joint release of all tables; discrete Laplace of scale F / epsilon over F features, or
        discrete Gaussian, which is smaller for many features.
    :Sensitivity: one row moves one cell in each of the F tables by 1: L1 is F, L2 is sqrt(F).

    Probabilities are posterior means: a value seen rarely beside the noise leans on the share its class has
    overall, by an amount estimated from the release itself.

    References
    ----------
    .. [1] PTK paper, Table 1, row 1.
    """

    def __init__(
        self,
        features: Any = None,
        label: Any = None,
        *,
        classes: Any,
        domains: Any = None,
        hash_buckets: Any = None,
        epsilon: Any,
        delta: Any = 0,
        unit: Any = None,
        max_rows_per_unit: Any = 1,
    ) -> None:
        self.features = features
        self.label = label
        self.classes = classes
        self.domains = domains
        self.hash_buckets = hash_buckets
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.max_rows_per_unit = max_rows_per_unit

    def required_columns(self) -> tuple[str, ...]:
        """Return the feature columns, then the label's when it is a column."""
        label = self._label_column()
        return self._feature_names() if label is None else (*self._feature_names(), label)

    def table_schemas(self) -> dict[str, TableSchema]:
        """Return one table per feature, keyed by it."""
        schemas = {}
        for domain in self._domains():
            fields = [pa.field(domain.column, domain.arrow_type, nullable=False)]
            fields += [pa.field(name, pa.float64(), nullable=False) for name in self._columns()]
            refuse_duplicates([field.name for field in fields], "the columns of a released table")
            schemas[domain.column] = TableSchema((domain.column,), pa.schema(fields))
        return schemas

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return ``<feature>_count_<class>`` and ``<feature>_p_<class>`` for each feature and class."""
        names = [f"{feature}_{column}" for feature in self._feature_names() for column in self._columns()]
        return np.asarray(names, dtype=object)

    def _resolved_columns(self) -> dict[str, list[str]]:
        return {"features": list(self._feature_names())}

    def _feature_names(self) -> tuple[str, ...]:
        if self.hash_buckets is not None:
            raise InvalidParameterError("hash_buckets is not supported yet: declare domains={column: values}")
        if not isinstance(self.domains, Mapping):
            raise InvalidDomainError("domains must map each feature column to its public values")
        features = check_columns(self.domains if self.features is None else self.features, "features")
        if not features or set(features) != set(self.domains):
            raise InvalidDomainError("domains must declare exactly the columns of features, at least one")
        label = self._label_column()
        if label is not None:
            refuse_duplicates((*features, label), "features and label")
        return features

    def _label_column(self) -> str | None:
        return None if self.label is None else check_name(self.label, "label")

    def _needs_y(self) -> bool:
        return True

    def _domains(self) -> tuple[Domain, ...]:
        n_classes = len(self._classes())
        domains = tuple(Domain.of(name, self.domains[name]) for name in self._feature_names())
        for domain in domains:
            product_size((domain,), n_classes)
        return domains

    def _classes(self) -> Domain:
        classes = Domain.of(self.label if isinstance(self.label, str) else "y", self.classes)
        if len(classes) < 2:
            raise InvalidDomainError("classes must hold at least two values")
        return classes

    def _columns(self) -> list[str]:
        suffixes = [_suffix(value) for value in self._classes().values]
        refuse_duplicates(suffixes, "the names of classes")
        return [*(f"count_{suffix}" for suffix in suffixes), *(f"p_{suffix}" for suffix in suffixes)]

    def _components(self) -> list[Component]:
        n_classes = len(self._classes())
        return [Component(domain.column, len(domain) * n_classes, 1) for domain in self._domains()]

    def _steps(self) -> dict[str, float]:
        return dict.fromkeys(self._feature_names(), 1.0)

    def _collect(self, table: InputTable, label: Any) -> dict[str, npt.NDArray[np.int64]]:
        classes = self._classes()
        labels, n_classes = classes.encode(label), len(classes)
        known, units = labels != OUTSIDE, {}
        for domain in self._domains():
            codes, size = domain.encode(table.column(domain.column)), len(domain) * n_classes
            total = np.zeros(size + 1, dtype=np.int64)
            for rows in blocks(len(codes), size):
                kept = known[rows] & (codes[rows] != OUTSIDE)
                # Dropped rows do the same work, in a cell that is thrown away.
                total += count_by(np.where(kept, codes[rows] * n_classes + labels[rows], size), size + 1)
            units[domain.column] = total[:size]
        return units

    def _read(self, values: Values, variance: Mapping[str, float]) -> Reading:
        n_classes, columns, schemas = len(self._classes()), self._columns(), self.table_schemas()
        counts = {name: values[name].reshape(-1, n_classes) for name in values}
        overall = np.sum([table.sum(axis=0) for table in counts.values()], axis=0)
        cells = float(sum(len(table) * variance[name] for name, table in counts.items()))
        share = _shares(overall, cells)
        tables, std, defaults, keys = {}, {}, {}, self._key_columns()
        for name, table in counts.items():
            probability = _probabilities(table, share, variance[name])
            numbers = np.column_stack([table, probability])
            tables[name] = pa.table(
                {**keys[name], **{c: numbers[:, i] for i, c in enumerate(columns)}},
                schema=schemas[name].schema,
            )
            std[name] = dict.fromkeys(columns[:n_classes], variance[name] ** 0.5)
            defaults[name] = dict(zip(columns, [0.0] * n_classes + share.tolist(), strict=True))
        return Reading(tables, std, defaults)

    def _values_of(self, tables: Mapping[str, Any]) -> dict[str, Floats]:
        counts = self._columns()[: len(self._classes())]
        return {
            name: np.column_stack([tables[name].column(c).to_numpy() for c in counts]).reshape(-1)
            for name in self._feature_names()
        }

    def _key_columns(self) -> dict[str, dict[str, Any]]:
        return {domain.column: {domain.column: domain.array()} for domain in self._domains()}

    def _transform_columns(self) -> tuple[str, ...]:
        return self._feature_names()

    def _transform(self, table: InputTable) -> Floats:
        domains, columns = self._domains(), self._columns()
        features = np.empty((table.n_rows, len(domains) * len(columns)))
        for place, domain in enumerate(domains):
            released, default = self.tables_[domain.column], self.defaults_[domain.column]
            lookup = lookup_table(released, columns, default)
            part = slice(place * len(columns), (place + 1) * len(columns))
            features[:, part] = lookup[domain.encode(table.column(domain.column))]
        return features

    def _true_error(self, exact: Units) -> float:
        """Mean over features and rows of the total variation between released and true probabilities."""
        n_classes, errors = len(self._classes()), []
        names = self._columns()[n_classes:]
        for feature in self._feature_names():
            counts = exact[feature].reshape(-1, n_classes).astype(np.float64)
            rows = counts.sum(axis=1)
            true = counts / np.maximum(rows, 1.0)[:, None]
            released = np.column_stack([self.tables_[feature].column(name).to_numpy() for name in names])
            distance = np.abs(released - true).sum(axis=1) / 2
            errors.append(float((distance * rows).sum() / rows.sum()) if rows.sum() else 0.0)
        return float(np.clip(np.mean(errors), 0.0, 1.0))


def _suffix(value: Key) -> str:
    """Return how a class is written in a column name."""
    text = str(value).lower() if isinstance(value, bool) else str(value).replace("-", "minus_")
    check_name(f"c{text}", "a class, as part of a column name,")
    return text


def _shares(totals: Floats, variance: float) -> Floats:
    """Return the overall share of each class, leaning on equal shares where noise prevails."""
    equal = np.full(len(totals), 1 / len(totals))
    size = max(float(totals.sum()), 0.0)
    deviations = totals - size * equal
    return _simplex(equal + shrunken_deviation(deviations, np.asarray([size]), variance, 0.25))


def _probabilities(counts: Floats, share: Floats, variance: float) -> Floats:
    """Return class probabilities per row of noisy counts, shrunken towards `share`."""
    n_classes = counts.shape[1]
    size = counts.sum(axis=1)
    deviations = counts - size[:, None] * share
    spread = share * (1 - share)
    noise = variance * ((1 - share) ** 2 + share**2 * (n_classes - 1))
    sampling = np.maximum(size, 0.0)[:, None] * spread
    expected = np.broadcast_to(noise, counts.shape) + sampling
    prior = prior_variance(
        deviations, np.repeat(size[:, None], n_classes, axis=1), expected, n_classes * variance, 0.25
    )
    return _simplex(share + shrunken_deviation(deviations, size[:, None], expected, prior))


def _simplex(probabilities: Floats) -> Floats:
    """Clip to [0, 1] and rescale to a sum of 1 along the last axis."""
    clipped = np.clip(probabilities, 0.0, 1.0)
    total = clipped.sum(axis=-1, keepdims=True)
    equal = np.full_like(clipped, 1 / clipped.shape[-1])
    return np.where(total > 0, clipped / np.where(total > 0, total, 1.0), equal)
