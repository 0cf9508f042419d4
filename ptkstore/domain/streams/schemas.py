"""Schemas of streams: their columns, and those that came later."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ptkstore.domain.names import checked_name
from ptkstore.errors import InvalidRequest

RESERVED_PREFIX = "ptk_"
"""Columns that the service adds to rows begin so; no stream can declare one of such a name."""
ROW_ID: Final = f"{RESERVED_PREFIX}row"  # 16 random bytes, the privacy unit 'record'
HASH: Final = f"{RESERVED_PREFIX}hash"  # its keyed hash, once the row lies in a part
COLUMNS_MAX = 500


class ColumnType(StrEnum):
    """The type of a stream column."""

    INT64 = "int64"
    FLOAT64 = "float64"
    STRING = "string"
    BOOL = "bool"
    TIMESTAMP = "timestamp"


ATTRIBUTE_TYPES: dict[ColumnType, type] = {
    ColumnType.INT64: int,
    ColumnType.STRING: str,
    ColumnType.BOOL: bool,
}
"""What blocks can be made by: types whose values have a public list."""
_DEFAULTS: dict[ColumnType, type] = {**ATTRIBUTE_TYPES, ColumnType.FLOAT64: float}


@dataclass(frozen=True, slots=True)
class Added:
    """A column that came later: rows without a value of it have `default`, which is public.

    Windows from the number `since` on hold it.
    """

    column: str
    default: str | int | float | bool
    since: int


@dataclass(frozen=True, slots=True)
class Schema:
    """The declared columns of a stream; `time_column` is the event time in UTC.

    A schema only grows, by one column with a default at a time: nothing is renamed, removed or given another type.
    """

    columns: tuple[tuple[str, ColumnType], ...]
    time_column: str
    added: tuple[Added, ...] = ()

    def __post_init__(self) -> None:
        names = [name for name, _ in self.columns]
        if not names:
            raise InvalidRequest("a stream needs at least one column")
        for name in names:
            checked_name("column", name)
            if name.startswith(RESERVED_PREFIX):
                raise InvalidRequest(
                    f"column {name!r}: names that begin with {RESERVED_PREFIX!r} are reserved"
                )
        if len(set(names)) != len(names):
            raise InvalidRequest("column names must differ")
        if dict(self.columns).get(self.time_column) is not ColumnType.TIMESTAMP:
            raise InvalidRequest(f"the time column {self.time_column!r} must be a declared timestamp column")
        if len(names) > COLUMNS_MAX:
            raise InvalidRequest(f"a stream has at most {COLUMNS_MAX} columns")
        for one in self.added:
            _check_default(one, self.type_of(one.column))

    @property
    def version(self) -> int:
        """1 as created, and one more with each column that was added."""
        return 1 + len(self.added)

    @property
    def defaults(self) -> dict[str, str | int | float | bool]:
        """Of the columns that were added."""
        return {one.column: one.default for one in self.added}

    @property
    def since(self) -> int:
        """All windows from this one on hold all columns."""
        return max((one.since for one in self.added), default=0)

    def with_column(self, column: str, kind: ColumnType, default: object, *, since: int) -> Schema:
        """Return the next version; `InvalidRequest` for a name that is taken, or a default that is none of the type."""
        if self.type_of(column) is not None:
            raise InvalidRequest(f"the stream has a column {column!r} already; its type and default stay")
        if kind is ColumnType.FLOAT64 and type(default) is int:
            default = float(default)
        new = Added(column, default, since)  # type: ignore[arg-type] # it is checked there
        return Schema((*self.columns, (column, kind)), self.time_column, (*self.added, new))

    def as_created(self) -> Schema:
        """Return the first version."""
        return Schema(tuple(c for c in self.columns if c[0] not in self.defaults), self.time_column)

    def type_of(self, column: str) -> ColumnType | None:
        """Return the declared type, or None for an unknown column."""
        return dict(self.columns).get(column)


def _check_default(added: Added, kind: ColumnType | None) -> None:
    """`InvalidRequest` unless a row can have the default; a moment in time cannot replace another."""
    if kind not in _DEFAULTS:
        raise InvalidRequest(
            f"column {added.column!r} cannot be added: only {', '.join(_DEFAULTS)} have a default"
        )
    value = added.default
    if type(value) is not _DEFAULTS[kind]:
        raise InvalidRequest(f"the default of column {added.column!r} must be a {kind.value}")
    if not (math.isfinite(value) if isinstance(value, float) else is_plain(value)):
        raise InvalidRequest(
            f"the default of column {added.column!r} cannot be stored in a {kind.value} column"
        )


def is_plain(value: str | int | bool) -> bool:
    """Return whether a value can be stored in its column and shown in a message."""
    if isinstance(value, str):
        return len(value) <= 200 and value.isprintable()
    return -(2**63) <= value < 2**63
