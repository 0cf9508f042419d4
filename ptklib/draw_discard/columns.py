"""Columns of a specification: how the entries of one column become whole numbers, whatever they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.exceptions import InvalidDomainError, InvalidParameterError, MissingColumnError, SchemaError
from ptklib.names import check_name
from ptklib.privacy import Bounds
from ptklib.public_hash import buckets_of, hash_entries
from ptklib.scalars import float_of, is_integer, number_of, whole_number

OUTSIDE = -1
"""Code of an entry that is not among the declared values."""

VALUES_MAX = 2**16
"""Values of a column, or buckets of them."""

TEXT_BYTES_MAX = 256

INTEGER_MAX = 2**53 - 1
"""Larger integers are not exact in clients that have floating point numbers alone."""

_PLAIN = "iufb"
"""Kinds of numpy arrays that hold numbers, or booleans."""

_OBJECTS = "OUT"
"""Kinds of those that hold objects, or texts."""

_UNREADABLE = ValueError, OverflowError, SystemError
"""What numpy and Arrow raise for an entry that is no text; the last for numbers that are no letters."""

_ARRAYS = ("__array__", "__arrow_c_array__", "__arrow_c_stream__")
"""What columns of other libraries have."""


@dataclass(frozen=True)
class Numeric:
    """A column of numbers between public bounds.

    Methods of columns take entries as `readable` returns them.
    """

    column: str
    low: float
    high: float

    def __post_init__(self) -> None:
        check_name(self.column, "a column")
        bounds = Bounds(self.low, self.high)
        object.__setattr__(self, "low", bounds.low + 0.0)  # -0.0 has another text
        object.__setattr__(self, "high", bounds.high + 0.0)

    def shares(self, entries: Any) -> Floats:
        """Return where each entry is between the bounds, from 0 to 1; NaN where there is no number."""
        clamped = np.minimum(np.maximum(_numbers(entries), self.low), self.high)
        return np.asarray((clamped - self.low) / (self.high - self.low))

    def to_json(self) -> dict[str, Any]:
        """Return the column as plain JSON values."""
        return {"column": self.column, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Categorical:
    """A column with public values of one kind: texts, integers or booleans."""

    column: str
    values: Sequence[str | int | bool]

    def __post_init__(self) -> None:
        check_name(self.column, "a column")
        if isinstance(self.values, str | bytes | Mapping) or not isinstance(self.values, Sequence):
            raise InvalidDomainError(f"the values of {self.column!r} must be a list")
        if not 1 <= len(self.values) <= VALUES_MAX:
            raise InvalidDomainError(f"the values of {self.column!r} must be 1 to {VALUES_MAX}")
        values = tuple(_value(value, self.column) for value in self.values)
        if len(set(map(type, values))) > 1 or len(set(values)) < len(values):
            raise InvalidDomainError(f"the values of {self.column!r} must be distinct and of one type")
        object.__setattr__(self, "values", values)

    def __len__(self) -> int:
        return len(self.values)

    def codes(self, entries: Any) -> Ints:
        """Return the place of each entry among the values, `OUTSIDE` where it is none of them."""
        codes, kind = self._codes, type(self.values[0])
        found = np.full(len(entries), OUTSIDE, dtype=np.int64)
        if isinstance(entries, np.ndarray):
            entries = entries.tolist()
        for place, entry in enumerate(entries):
            if kind is int:
                entry = number_of(entry)  # 3.0 is 3; a boolean is no number
            elif kind is bool and isinstance(entry, np.bool_):
                entry = bool(entry)
            if isinstance(entry, kind) or (kind is int and isinstance(entry, float)):
                found[place] = codes.get(entry, OUTSIDE)
        return found

    @cached_property
    def _codes(self) -> dict[Any, int]:
        return {value: code for code, value in enumerate(self.values)}

    def to_json(self) -> dict[str, Any]:
        """Return the column as plain JSON values."""
        return {"column": self.column, "values": list(self.values)}


@dataclass(frozen=True)
class Hashed:
    """A column whose values nobody declares: each falls into one of several buckets.

    The hash is that of `ptklib.public_hash` with the seed 0: of texts and of integers. Booleans, and floats that are
    whole numbers, count as integers.
    """

    column: str
    hash_buckets: int

    def __post_init__(self) -> None:
        check_name(self.column, "a column")
        buckets = whole_number(self.hash_buckets, f"hash_buckets of {self.column!r}", 2, VALUES_MAX)
        object.__setattr__(self, "hash_buckets", buckets)

    def __len__(self) -> int:
        return self.hash_buckets

    def codes(self, entries: Any) -> Ints:
        """Return the bucket of each entry, `OUTSIDE` where there is neither a text nor a whole number."""
        hashes, valid = hash_entries(entries, 0)
        return np.where(valid, buckets_of(hashes, self.hash_buckets), OUTSIDE)

    def to_json(self) -> dict[str, Any]:
        """Return the column as plain JSON values."""
        return {"column": self.column, "hash_buckets": self.hash_buckets}


Coded = Categorical | Hashed
"""Columns that choose one weight of several."""

Column = Numeric | Categorical | Hashed


def column_of(document: object) -> Column:
    """Read what `to_json` of a column wrote.

    Raises
    ------
    InvalidParameterError
        When it is no mapping with exactly the fields of one of the kinds, or a field cannot be used.
    """
    fields = set(document) if isinstance(document, Mapping) else set()
    if isinstance(document, Mapping) and fields == {"column", "low", "high"}:
        return Numeric(document["column"], document["low"], document["high"])
    if isinstance(document, Mapping) and fields == {"column", "values"}:
        return Categorical(document["column"], document["values"])
    if isinstance(document, Mapping) and fields == {"column", "hash_buckets"}:
        return Hashed(document["column"], document["hash_buckets"])
    raise InvalidParameterError(
        "a column has the fields column, low and high; column and values; or column and hash_buckets"
    )


def columns_by_name(rows: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the named columns of a table, of one length: lists, tuples, ranges, arrays of numpy or of Arrow.

    Parameters
    ----------
    rows : mapping of columns, or table
        Lists, tuples or arrays by name; or any table with column names that `ptklib.tables` reads, which loads pandas.
    names : sequence of str

    Raises
    ------
    MissingColumnError
        When the table lacks a column.
    SchemaError
        When the table has no column names, its columns have different lengths, or the type of a column is not read.
        No entry decides about it.
    """
    if not isinstance(rows, Mapping):
        from ptklib.inputs import InputTable  # loads pandas and pyarrow: not for a device with plain lists

        table = InputTable(rows, names)
        if not table.named:
            raise SchemaError("the rows have no column names: give a mapping of columns, or a table")
        rows = {name: table.column(name) for name in names}
    found = {}
    for name in names:
        if name not in rows:
            raise MissingColumnError(f"column {name!r} is missing", name)
        found[name] = _column(rows[name], name)
    if len({len(column) for column in found.values()}) > 1:
        raise SchemaError("the columns have different lengths")
    return found


def _column(values: Any, name: str) -> Any:
    if isinstance(values, list | tuple | range):
        return values
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(object), None)
    elif not isinstance(values, np.ndarray):
        if not any(hasattr(type(values), protocol) for protocol in _ARRAYS):
            raise SchemaError(f"column {name!r} must be a list or an array")
        from ptklib.columns import as_column  # as above

        values = as_column(values, name)
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise SchemaError(f"column {name!r} must be one-dimensional")
    return values


def taken(column: Any, places: Ints) -> Any:
    """Return some entries of a column."""
    if isinstance(column, np.ndarray):
        return column[places]
    return column.take(places) if hasattr(column, "take") else [column[place] for place in places.tolist()]


def readable(column: Any) -> Any:
    """Return a column as an array of numbers or booleans, or as a list, tuple or range; nothing is raised.

    All entries of a type other than numbers, booleans and texts are missing (None). So is an entry that
    cannot be read, such as a text which is no UTF-8.
    """
    if isinstance(column, np.ndarray):
        if column.dtype.kind in _PLAIN:
            return column
        known = column.dtype.kind in _OBJECTS
    elif hasattr(column, "to_pylist"):
        known = _is_known(column.type)
    else:
        return column
    if not known:
        return [None] * len(column)
    try:
        return list(column) if isinstance(column, np.ndarray) else column.to_pylist()
    except _UNREADABLE:
        return [_entry(column, place) for place in range(len(column))]


def _is_known(kind: Any) -> bool:
    """Return whether Arrow's type is one of numbers, booleans or texts."""
    from pyarrow import types

    ours = types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_string
    return any(test(kind) for test in (*ours, types.is_large_string))


def _entry(column: Any, place: int) -> Any:
    try:
        entry = column[place]
        return entry.as_py() if hasattr(entry, "as_py") else entry
    except _UNREADABLE:
        return None


def _numbers(entries: Any) -> Floats:
    if not isinstance(entries, np.ndarray):
        return np.fromiter(map(float_of, entries), dtype=np.float64, count=len(entries))
    numbers = entries.astype(np.float64)
    if entries.dtype.itemsize > numbers.dtype.itemsize:
        numbers[np.isinf(numbers) & ~np.isinf(entries)] = np.nan
    return numbers


def _value(value: object, column: str) -> str | int | bool:
    if isinstance(value, bool):
        return value
    if is_integer(value):
        if abs(int(value)) > INTEGER_MAX:
            raise InvalidDomainError(f"the values of {column!r} have an integer beyond 2**53 - 1")
        return int(value)
    if not isinstance(value, str):
        raise InvalidDomainError(f"the values of {column!r} must be texts, integers or booleans")
    try:
        short = len(value.encode()) <= TEXT_BYTES_MAX
    except UnicodeEncodeError:
        short = False
    if not short:
        raise InvalidDomainError(f"the values of {column!r} must be UTF-8 of at most {TEXT_BYTES_MAX} bytes")
    return str(value)
