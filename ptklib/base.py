"""The estimator contract: scikit-learn outside, a released state inside."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ptklib.arrays import Floats, Ints
from ptklib.bounding import ROWS_MAX, bounded_rows
from ptklib.canonical_json import json_digest
from ptklib.columns import as_column
from ptklib.displays.estimators import ShownEstimator
from ptklib.exceptions import (
    CorruptStateError,
    InvalidParameterError,
    MissingColumnError,
    SchemaError,
    StateMismatchError,
    UnmatchedWarning,
)
from ptklib.families import load_family
from ptklib.fit_cache import one_fit
from ptklib.inputs import InputTable
from ptklib.names import check_name
from ptklib.partials import PartialStatistics, merge_all
from ptklib.privacy import PrivacyLoss, PrivacyUnit
from ptklib.scalars import whole_number
from ptklib.spec import estimator_from_spec, plain
from ptklib.state import FORMAT_VERSION, ReleasedState, TableSchema
from ptklib.unmatched import unmatched

Units = Mapping[str, Ints]


@dataclass(frozen=True, eq=False)
class Release:
    """The output of a family: tables, and numbers about their noise where that has a closed form."""

    tables: dict[str, Any]
    noise_std: dict[str, dict[str, float]] = field(default_factory=dict)
    noise_variance: dict[str, float] = field(default_factory=dict)
    defaults: dict[str, dict[str, float]] = field(default_factory=dict)


class DPEstimator(ShownEstimator, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Parent of every PTK family; it assumes nothing about the form of the release.

    A family says which columns it reads and what it loses. It also says which exact integer vectors it keeps of
    a shard, and how those become noisy tables. Sharding, continuation and persistence are the same for all.

    Notes
    -----
    :Guarantee: (epsilon, delta)-DP per `fit` or `finalize`, as `declared_loss` says; partial statistics are
        not DP and must stay inside the trusted zone.
    :Unit: up to `max_rows_per_unit` rows. With `unit`, a column of ids, that many rows of each id are kept by
        random choice, and the guarantee is one per id. A shard must then have all rows of its ids. Without `unit`,
        the caller has bounded the rows before: one row by default.
    :Neighbours: add or remove one unit.

    After `fit` an object has its parameters, `released` and `public` attributes, and nothing else.
    """

    released: ClassVar[tuple[str, ...]] = (
        "tables_",
        "noise_std_",
        "noise_variance_",
        "defaults_",
        "n_releases_",
    )
    public: ClassVar[tuple[str, ...]] = ("privacy_spent_", "n_features_in_", "feature_names_in_")

    epsilon: Any
    delta: Any
    unit: Any = None
    max_rows_per_unit: Any = 1

    # What a family defines. Each reads public parameters only, except _collect, _release and _true_error.

    @abstractmethod
    def declared_loss(self) -> PrivacyLoss:
        """Return the loss of one `fit`, before any data are read.

        Raises
        ------
        InvalidParameterError
            When any parameter cannot be used; nothing about parameters may fail later.
        """

    @abstractmethod
    def required_columns(self) -> tuple[str, ...]:
        """Return the columns of the stream that are trained on."""

    @abstractmethod
    def table_schemas(self) -> dict[str, TableSchema]:
        """Return keys and columns of each released table."""

    @abstractmethod
    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return the names of the columns of `transform`."""

    @abstractmethod
    def _empty(self) -> dict[str, Ints]:
        """Return the exact integer vectors of no row at all."""

    @abstractmethod
    def _collect(self, table: InputTable, label: Any) -> dict[str, Ints]:
        """Return the exact integer vectors of some rows."""

    @abstractmethod
    def _release(self, exact: Units, previous: ReleasedState | None) -> Release:
        """Draw all the noise that `declared_loss` counts; `previous` was checked."""

    @abstractmethod
    def _transform(self, table: InputTable) -> Floats:
        """Return the features of some rows."""

    @abstractmethod
    def _true_error(self, exact: Units) -> float:
        """Return the error of the released tables from exact integer vectors, in [0, 1]."""

    # What a family may define.

    def _transform_columns(self) -> tuple[str, ...]:
        """Return the columns that `transform` reads."""
        return self.required_columns()

    _joined: ClassVar[tuple[str, ...]] = ()
    """Vectors that shards join end to end instead of adding up: the quantised rows of iterative families.

    They may have any length, a multiple of what one row takes; all other vectors have the length of `_empty`.
    """

    def _resolved_columns(self) -> dict[str, list[str]]:
        """Return the parameters that name columns, with defaults resolved."""
        return {}

    def released_keys(self) -> tuple[str, ...]:
        """Return the tables whose keys, and so whose number of rows, are part of the release."""
        return ()

    def released_domains(self) -> dict[str, dict[str, Any]]:
        """Return, by table, the values that columns of keys and texts may have, as far as they are public.

        Notes
        -----
        A service checks the states of a team's own class by it. By default these are the values of the keys that are
        known without the data.
        """
        return {
            table: {name: column.unique().to_pylist() for name, column in columns.items()}
            for table, columns in self._key_columns().items()
        }

    def _key_columns(self) -> dict[str, dict[str, Any]]:
        """Return the key columns of each table as Arrow arrays, as far as they are known without the data."""
        return {}

    def _derive(self) -> None:
        """Set further `released` attributes as functions of ``tables_``; called by fit and from_state."""

    def _label_column(self) -> str | None:
        """Return the label's column, or None when there is no label or it comes as `y`."""
        return None

    _unseen_note: ClassVar[str] = ""
    """What a family adds to the warning of such columns."""

    def _unseen(self) -> tuple[str, ...]:
        """Return columns without a visible usable value: their released counts cannot be told from noise.

        A function of released values and parameters alone. It must not look at rows, nor at types of columns.
        """
        return ()

    def _needs_y(self) -> bool:
        return False

    def _named_label(self) -> str | None:
        return "y" if self._label_column() is None and self._needs_y() else self._label_column()

    def local_guarantee(self) -> dict[str, Any]:
        """Return what a family whose noise devices add promises them, as plain JSON; nothing for all others."""
        return {}

    def privacy_unit(self) -> PrivacyUnit:
        """Return what `declared_loss` protects, before any data are read.

        Notes
        -----
        A loss towards all rows of a user says little of one more row of a user who is there already. That row may take
        another's place, which is a removal and an addition.
        """
        return PrivacyUnit.RECORD if self.unit is None else PrivacyUnit.USER

    def input_columns(self) -> tuple[str, ...]:
        """Return the columns of the stream that `fit` reads, the column of the privacy unit included."""
        columns = self.required_columns()
        return columns if self.unit is None or self.unit in columns else (*columns, self.unit)

    # Training

    def fit(self, X: Any, y: Any = None, *, previous_state: ReleasedState | None = None) -> Self:
        """Release the state of the rows of `X`, continuing `previous_state` when given."""
        with one_fit():
            loss = self._check_parameters()
            self.check_previous_state(previous_state)
            table, label = self._bounded(self._given(X, y), y)
            self._complete(self._collect(table, label), previous_state, loss)
            unseen = self._unseen()
        self.n_features_in_ = len(table.names)
        if table.named and all(isinstance(name, str) for name in table.names):
            self.feature_names_in_ = np.asarray(table.names, dtype=object)
        if unseen:
            told = unmatched(unseen, self._named_label()) + self._unseen_note
            warnings.warn(told, UnmatchedWarning, stacklevel=2)
        return self

    def partial_statistics(self, X: Any, y: Any = None) -> PartialStatistics:
        """Return the exact statistics of one shard. **Private**: store them encrypted."""
        with one_fit():
            self._check_parameters()
            exact = self._collect(*self._bounded(self._given(X, y), y))
            return PartialStatistics(type(self).__name__, self._fingerprint(), exact)

    def merge(self, parts: Iterable[PartialStatistics]) -> PartialStatistics:
        """Merge parts of this configuration; no part at all is an empty block."""
        empty = PartialStatistics(type(self).__name__, self._fingerprint(), self._empty())
        return merge_all(empty, parts, self._joined)

    def condenses(self) -> bool:
        """Return whether partial statistics condense the rows: no vector of theirs is the rows one by one."""
        return not set(self._joined) & set(self._empty())

    def iterates(self) -> bool:
        """Return whether training goes over the rows again and again."""
        return not self.condenses()

    def finalize(
        self, parts: Iterable[PartialStatistics], previous_state: ReleasedState | None = None
    ) -> Self:
        """Draw noise once over the merged parts and set the released attributes."""
        with one_fit():
            loss = self._check_parameters()
            self.check_previous_state(previous_state)
            self._complete(self.merge(parts).arrays, previous_state, loss)
            self._name_inputs()
        return self

    def _complete(self, exact: Units, previous: ReleasedState | None, loss: PrivacyLoss) -> None:
        n_releases = 1 if previous is None else 1 + int(previous.meta["n_releases"])
        self._install(self._release(exact, previous), n_releases, loss)

    def _check_parameters(self) -> PrivacyLoss:
        self.table_schemas()  # refuses columns that would collide
        self._rows_per_unit()
        return self.declared_loss()

    def _label(self, table: InputTable, y: Any) -> Any:
        if not self._needs_y():
            return None
        column = self._label_column()
        if column is None and y is None:
            raise SchemaError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: or name its column, label="
            )
        label = as_column(y, "y") if column is None else table.column(column)
        if len(label) != table.n_rows:
            raise SchemaError("X and y have different lengths")
        return label

    def _given(self, X: Any, y: Any) -> InputTable:
        try:
            return self._table(X)
        except MissingColumnError as error:
            if y is None or not self._needs_y() or error.column != self._label_column():
                raise
            raise SchemaError(
                f"{error}. With label={error.column!r} the label is a column of X and y is not read: "
                f"add that column to X, or leave label out and pass y."
            ) from None

    def _table(self, X: Any) -> InputTable:
        return InputTable(X, self.input_columns())

    def _bounded(self, table: InputTable, y: Any) -> tuple[InputTable, Any]:
        """Return table and label, with at most `max_rows_per_unit` rows of each unit."""
        label = self._label(table, y)
        if self.unit is None:
            return table, label
        kept = bounded_rows(table.column(self.unit), self._rows_per_unit())
        return table.take(kept), None if label is None else label.take(kept)

    def _rows_per_unit(self) -> int:
        """Return how many rows one privacy unit has at most: what every sensitivity is multiplied with."""
        if self.unit is not None:
            check_name(self.unit, "unit")
        return whole_number(self.max_rows_per_unit, "max_rows_per_unit", 1, ROWS_MAX)

    def _fingerprint(self) -> str:
        return json_digest(_without_budget(self.to_spec()))

    def check_previous_state(self, state: ReleasedState | None) -> None:
        """Raise unless `state` is None or this configuration can continue it; reads no data.

        Raises
        ------
        StateMismatchError
            When family or parameters differ in more than epsilon and delta.
        CorruptStateError
            When its tables are not the ones its parameters lead to.
        """
        if state is None:
            return
        if not isinstance(state, ReleasedState):
            raise InvalidParameterError("previous_state must be a ReleasedState: pass estimator.to_state()")
        if _without_budget(self._completed(state.spec())) != _without_budget(self.to_spec()):
            raise StateMismatchError(
                "previous_state has another family or other parameters: only epsilon and delta may change"
            )
        self._check_state(state)

    def _completed(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return a stored spec with the defaults of parameters that are younger than it."""
        if spec["family"] != type(self).__name__:
            return spec
        try:
            return type(self)(**spec["params"]).to_spec()
        except (TypeError, InvalidParameterError):  # parameters that this version does not have, or refuses
            return spec

    # Persistence

    def to_spec(self) -> dict[str, Any]:
        """Return family and parameters as plain JSON values; default columns are spelled out.

        JSON objects have no order, so columns that default to the order of a mapping are written as a list.
        """
        params = {**self.get_params(deep=False), **self._resolved_columns()}
        return {"family": type(self).__name__, "params": {n: plain(v, n) for n, v in sorted(params.items())}}

    def to_state(self) -> ReleasedState:
        """Return what was released."""
        check_is_fitted(self)
        return ReleasedState(
            self.tables_,
            {
                "format_version": FORMAT_VERSION,
                **self.to_spec(),
                "tables": {name: schema.to_json() for name, schema in self.table_schemas().items()},
                "loss": self.privacy_spent_.to_json(),
                "n_releases": self.n_releases_,
                "noise_std": self.noise_std_,
                "noise_variance": self.noise_variance_,
                "defaults": self.defaults_,
                **({"guarantee": local} if (local := self.local_guarantee()) else {}),
            },
        )

    @classmethod
    def from_state(cls, state: ReleasedState) -> Self:
        """Return the fitted estimator of a state; called on `DPEstimator`, of any family.

        Raises
        ------
        StateMismatchError
            When the state is of another family than `cls`.
        CorruptStateError
            When its tables are not the ones its parameters lead to.
        """
        if not issubclass(load_family(state.meta["family"]), cls):
            raise StateMismatchError(f"the state is of family {state.meta['family']}, not {cls.__name__}")
        estimator: Self = estimator_from_spec(state.spec())
        estimator._check_state(state)
        if state.meta.get("guarantee", {}) != estimator.local_guarantee():
            raise CorruptStateError("the guarantee of the state is not the one its parameters lead to")
        meta = state.meta
        release = Release(
            dict(state.tables),
            {name: dict(columns) for name, columns in meta["noise_std"].items()},
            dict(meta["noise_variance"]),
            {name: dict(columns) for name, columns in meta["defaults"].items()},
        )
        estimator._install(release, meta["n_releases"], state.loss)
        estimator._name_inputs()
        return estimator

    def _check_state(self, state: ReleasedState) -> None:
        """Raise `CorruptStateError` unless `state` is one this configuration can release."""
        schemas, stored = self.table_schemas(), state.schemas
        if {n: s.to_json() for n, s in schemas.items()} != {n: s.to_json() for n, s in stored.items()}:
            raise CorruptStateError("the tables of the state are not the ones its parameters lead to")
        for name, keys in self._key_columns().items():
            table = state.tables[name]
            if not all(table.column(key).combine_chunks().equals(column) for key, column in keys.items()):
                raise CorruptStateError(f"the keys of table {name!r} are not the declared domain")

    def _install(self, release: Release, n_releases: int, loss: PrivacyLoss) -> None:
        self.tables_ = release.tables
        self.noise_std_ = release.noise_std
        self.noise_variance_ = release.noise_variance
        self.defaults_ = release.defaults
        self.n_releases_ = n_releases
        self.privacy_spent_ = loss
        self._derive()

    def _name_inputs(self) -> None:
        names = self.input_columns()
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.asarray(names, dtype=object)

    # Use

    def transform(self, X: Any) -> Floats:
        """Return the features of `X`: functions of each row and of released values only."""
        check_is_fitted(self)
        return self._transform(InputTable(X, self._transform_columns()))

    def error_from_true_value(self, part: PartialStatistics) -> float:
        """Return how far the released tables are from exact sums, in [0, 1].

        It is NaN where the part has nothing to measure by: no row that the family can use, or no variance to explain.

        **Private.** The value is not DP. It must not leave the trusted zone, nor enter a log, a message or a state.
        With the release beside it, it *is* the true value.
        """
        check_is_fitted(self)
        return self._true_error(self.merge([part]).arrays)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "tables_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        tags.target_tags.required = self._needs_y() and self._label_column() is None
        return tags


def _without_budget(spec: Mapping[str, Any]) -> dict[str, Any]:
    params = {name: value for name, value in spec["params"].items() if name not in ("epsilon", "delta")}
    return {"family": spec["family"], "params": params}
