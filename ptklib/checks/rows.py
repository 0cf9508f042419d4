"""Synthetic rows from the public declarations of an estimator: no real row is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ptklib.arrays import Ints
from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import Bounds

LABEL = "y"

CROWD = 400
"""Units that are alike: so many that what is learned from them is sure beside the noise of a usual budget."""

_CROWDED_ROWS, _LEAST_CROWD = 4_000, 50

_LITTLE = 1e-3
"""Of an interval, from its end: next to nothing, but not nothing."""


@dataclass(frozen=True, slots=True)
class Column:
    """The public knowledge of a column: its values, or the ends of its interval."""

    values: tuple[Any, ...]
    """All values of a category; of a number (least, most)."""
    numeric: bool = False

    @classmethod
    def of(cls, declared: object) -> "Column":
        """Read a sequence of values, or a pair (low, high) of floats, as a caller declares them."""
        if isinstance(declared, Column):
            return declared
        if isinstance(declared, Bounds):
            return cls((declared.low, declared.high), numeric=True)
        if (
            isinstance(declared, str)
            or not isinstance(declared, Sequence | np.ndarray | range)
            or not len(declared)
        ):
            raise InvalidParameterError("a column is declared by its values, or by (low, high) as floats")
        values = tuple(v.item() if isinstance(v, np.generic) else v for v in declared)
        return cls(values, numeric=len(values) == 2 and all(type(v) is float for v in values))

    def spread(self, n: int, step: float) -> npt.NDArray[Any]:
        """Return `n` values from all over the column, by an additive sequence of irrational `step`."""
        shares = np.arange(1, n + 1) * step % 1.0
        if self.numeric:
            low, high = self.values
            return np.asarray(low + (high - low) * shares)
        return self.array([self.values[int(share * len(self.values))] for share in shares])

    def repeat(self, place: int, n: int) -> npt.NDArray[Any]:
        """Return `n` times the first (0) or the last (-1) value."""
        return self.array([self.values[place]] * n)

    def near(self, place: int) -> npt.NDArray[Any]:
        """Return the first (0) or the last (-1) value; of a number, one a little nearer to the middle."""
        if not self.numeric:
            return self.repeat(place, 1)
        low, high = self.values
        return np.asarray([(1 - _LITTLE) * self.values[place] + _LITTLE * (low + high) / 2])

    def array(self, values: list[Any]) -> npt.NDArray[Any]:
        """Return some of its values as a column of its type."""
        if self.numeric:
            return np.asarray(values, dtype=np.float64)
        return np.asarray(values, dtype=object if isinstance(self.values[0], str) else type(self.values[0]))


_KINDS = {
    "string": Column(tuple(f"v{i}" for i in range(20))),
    "int64": Column(tuple(range(20))),
    "bool": Column((False, True)),
}
"""Made-up values of columns whose values nobody declares."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A synthetic table, and the `y` of `fit` where one is needed."""

    X: pd.DataFrame
    y: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: slice) -> "Rows":
        return Rows(self.X[rows], None if self.y is None else self.y[rows])

    def __add__(self, more: "Rows") -> "Rows":
        y = None if self.y is None or more.y is None else np.concatenate([self.y, more.y])
        return Rows(pd.concat([self.X, more.X], ignore_index=True), y)


class Synthetic:
    """Makes rows for one estimator.

    Parameters
    ----------
    estimator : DPEstimator
        Unfitted; only its parameters are read.
    columns : mapping of column to values or (low, high), optional
        Declarations for columns whose parameters are called otherwise than those of this library:
        ``domains``, ``bounds``, ``max_norm``, ``classes``, ``label_bounds``. `LABEL` is the name for the `y`
        of `fit`.

    Raises
    ------
    InvalidParameterError
        When a column has no declaration.
    """

    def __init__(self, estimator: Any, columns: Mapping[str, Any] | None = None) -> None:
        params = estimator.get_params(deep=False)
        self._unit, most = params.get("unit"), params.get("max_rows_per_unit")
        if params.get("guarantee") == "user":
            self._unit, most = params.get("user"), params.get("max_rows_per_user")
        self._rows_per_unit = int(most or 1)
        self.owner: str | None = None
        """The column of users whose rows are units of their own."""
        if params.get("guarantee") == "record":
            self.owner = estimator.input_columns()[0]
        self.crowd = max(min(CROWD, _CROWDED_ROWS // self._rows_per_unit), _LEAST_CROWD)
        self.names = tuple(estimator.input_columns())
        named = params.get("label") in self.names  # a column of the table, which `y` need not repeat
        self._needs_y = bool(estimator.__sklearn_tags__().target_tags.required) and not named
        self._label = LABEL if self._needs_y else str(params.get("label"))
        given = {name: Column.of(declared) for name, declared in (columns or {}).items()}
        wanted = [*self.names, *([LABEL] if self._needs_y else [])]
        self.columns = {
            name: given[name] if name in given else _declared(name, params)
            for name in wanted
            if name != self._unit
        }
        self._ids: tuple[Any, ...] | None = None
        if self._unit is not None:
            try:
                column = given[self._unit] if self._unit in given else _declared(self._unit, params)
                self._ids = column.values
            except InvalidParameterError:  # any id will do
                self._ids = None

    @property
    def crowded(self) -> bool:
        """Whether one unit can be added to a crowd of others."""
        return self._ids is None or len(self._ids) > 1

    def many(self, n: int) -> Rows:
        """Return `n` rows from all over the declared columns; the same in every call."""
        steps = np.sqrt(np.arange(len(self.columns)) + 2.0) + np.pi  # no two columns in step
        spread = {
            name: column.spread(n, float(step))
            for (name, column), step in zip(self.columns.items(), steps, strict=True)
        }
        return self._rows(spread, n, 0)

    @property
    def labelled(self) -> bool:
        """Whether one column is a label."""
        return self._label in self.columns

    def alike(self, place: int, n_units: int, first_unit: int = 0, label_place: int | None = None) -> Rows:
        """Return the rows of `n_units` units that are all alike: all at the first (0) or last (-1) values.

        The label may be at the other end. Each unit has as many rows as one may have.
        """
        n = n_units * self._rows_per_unit
        places = dict.fromkeys(self.columns, place)
        if label_place is not None:
            places[self._label] = label_place
        return self._rows(
            {name: c.repeat(places[name], n) for name, c in self.columns.items()}, n, first_unit
        )

    def lighter_row(self) -> Rows:
        """Return one row of the last owner, otherwise at the first values or, of numbers, near them."""
        places = dict.fromkeys(self.columns, 0) | {str(self.owner): -1}
        return self._rows({name: c.near(places[name]) for name, c in self.columns.items()}, 1, 0)

    def _rows(self, columns: dict[str, npt.NDArray[Any]], n: int, first_unit: int) -> Rows:
        y = columns.pop(LABEL) if self._needs_y else None
        if self._unit is not None and self._unit in self.names:
            numbers = first_unit + np.arange(n) // self._rows_per_unit
            columns[self._unit] = numbers if self._ids is None else self._named(numbers)
        return Rows(pd.DataFrame({name: columns[name] for name in self.names}), y)

    def _named(self, numbers: Ints) -> npt.NDArray[Any]:
        """Return declared ids: the last one for units outside the crowd, the others in turn for the crowd."""
        assert self._ids is not None
        others = self._ids[:-1] or self._ids
        return Column(self._ids).array(
            [self._ids[-1] if i >= self.crowd else others[i % len(others)] for i in numbers]
        )


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Two datasets that differ in one privacy unit."""

    name: str
    without: Rows
    unit: Rows
    """One dataset, and the rows that the other has in addition."""
    amplified: Rows
    """Rows of `n_amplified` units like it: what one unit changes, magnified; never used for a bound."""
    n_amplified: int

    @property
    def with_unit(self) -> Rows:
        """The larger dataset."""
        return self.without + self.unit


def neighbours(synthetic: Synthetic, n_amplified: int = 400) -> list[Neighbours]:
    """Return pairs that make one unit as visible as it can be.

    Nothing against one unit at either end of all columns, a crowd of equal rows against one more, a crowd at
    the other end, and one with the other label. Choices by how far rows are apart move most beside the third,
    residuals of predictions beside the last. If the rows of users are units of their own, a heavy row is also
    added to a light one of its user. Numbers computed of a user then turn as far as one row can turn them.
    """
    pairs = []
    for place, end in ((-1, "highest"), (0, "lowest")):
        n = synthetic.crowd
        crowd, unit = synthetic.alike(place, n), synthetic.alike(place, 1, first_unit=n)
        amplified = synthetic.alike(place, n_amplified, first_unit=n)
        pairs.append(Neighbours(f"empty, {end}", crowd[:0], unit, amplified, n_amplified))
        if synthetic.crowded:
            others = synthetic.alike(-1 - place, n)
            pairs.append(Neighbours(f"crowd, {end}", crowd, unit, amplified, n_amplified))
            pairs.append(Neighbours(f"opposite crowd, {end}", others, unit, amplified, n_amplified))
            if synthetic.labelled:
                contrary = synthetic.alike(place, n, label_place=-1 - place)
                pairs.append(Neighbours(f"contrary crowd, {end}", contrary, unit, amplified, n_amplified))
    if synthetic.owner is not None:
        row, many = synthetic.alike(-1, 1), synthetic.alike(-1, n_amplified)
        pairs.append(Neighbours("another row of its user", synthetic.lighter_row(), row, many, n_amplified))
    return pairs


def _declared(name: str, params: Mapping[str, Any]) -> Column:
    """Find what the parameters say of a column."""
    if name == LABEL or name == params.get("label"):
        if params.get("label_bounds") is not None:
            return Column.of(Bounds.of(params["label_bounds"], name))
        if params.get("classes") is not None:
            return Column.of(params["classes"])
    for role, values in (("user", "users"), ("item", "items")):
        if params.get(role) == name and params.get(values) is not None:
            return Column.of(params[values])
    domains, bounds = params.get("domains"), params.get("bounds")
    if isinstance(domains, Mapping) and domains.get(name) is not None:
        return Column.of(domains[name])
    if isinstance(bounds, Mapping) and bounds.get(name) is not None:
        return Column.of(Bounds.of(bounds[name], name))
    if isinstance(params.get("select"), Mapping) and name in params["select"]:
        return _KINDS[params["select"][name]]
    if isinstance(bounds, tuple | list | np.ndarray | Bounds):
        return Column.of(Bounds.of(bounds, name))
    if params.get("max_norm") is not None:
        return Column.of(Bounds(-float(params["max_norm"]), float(params["max_norm"])))
    if params.get("hash_buckets") is not None:
        return _KINDS["string"]
    raise InvalidParameterError(
        f"nothing is declared of column {name!r}: give columns={{{name!r}: values}} or {{{name!r}: (low, high)}}"
    )
