"""The names that consumers type: views, features and references."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ptkstore.domain.names import split_ptk_id
from ptkstore.domain.ptks.serving import COMPUTED, FILLED, STATE_KEY
from ptkstore.domain.ptks.views import STATE_VIEW, base_view
from ptkstore.errors import InvalidRequest, SchemaMismatch

__all__ = ["STATE_KEY", "STATE_VIEW"]

PROJECT = "ptk"
VERSION_FEATURE = "ptk_version"
AS_OF_COLUMN = "ptk_as_of"
PUBLISHED_COLUMN = "ptk_published_at"
RESERVED_COLUMNS = frozenset({VERSION_FEATURE, AS_OF_COLUMN, PUBLISHED_COLUMN, "event_timestamp"})

_TABLE = re.compile(r"[a-z][a-z0-9_]*")
_COLUMN = re.compile(r"[^\s:@,/\\\x00-\x1f]+")
_REFERENCE = re.compile(r"(?P<view>[^@:]+)(?:@v(?P<version>\d{1,9}))?:(?P<feature>[^@:]+)")


def view_name(ptk_id: str, table: str, n_tables: int) -> str:
    """Name the view of a PTK's only table `<team>__<name>`, and of one of several `<team>__<name>__<table>`."""
    split_ptk_id(ptk_id)
    base = base_view(ptk_id)
    if n_tables == 1:
        return base
    if not _TABLE.fullmatch(table) or "__" in table or table == FILLED:
        raise SchemaMismatch(
            f"table name {table!r} must match [a-z][a-z0-9_]* without '__', and not be {FILLED!r}, to be served"
        )
    return f"{base}__{table}"


def is_view_of(base: str, view: str) -> bool:
    """Tell whether a view belongs to the PTK whose only view would be named `base`."""
    head, _, table = view.rpartition("__")
    return view == base or (head == base and _TABLE.fullmatch(table) is not None)


def computed_name(base: str) -> str:
    """Name the computed view of the PTK whose only view would be named `base`."""
    return f"{base}__{COMPUTED}"


def is_computed(view: str) -> bool:
    """Tell whether a name is that of a computed view."""
    return view.endswith(f"__{COMPUTED}")


def filled_name(view: str) -> str:
    """Name the view that answers with a view's declared defaults."""
    return f"{view}__{FILLED}"


def is_filled(view: str) -> bool:
    """Tell whether a name is that of a view with defaults."""
    return view.endswith(f"__{FILLED}")


def source_of(filled: str) -> str:
    """Name the view whose rows a view with defaults fills."""
    return filled.removesuffix(f"__{FILLED}")


def checked_column(view: str, column: str) -> str:
    """Return the name of a key or feature, or raise `SchemaMismatch` if no reference can carry it."""
    if column in RESERVED_COLUMNS:
        raise SchemaMismatch(f"column {column!r} of {view} has a name that the feature store uses itself")
    if not _COLUMN.fullmatch(column) or "__" in column:
        raise SchemaMismatch(
            f"column {column!r} of {view} must have no space and none of ': @ , / __' to be served"
        )
    return column


@dataclass(frozen=True, slots=True)
class Reference:
    """`view:feature`, the newest version, or `view@vN:feature`, version N."""

    view: str
    version: int | None
    feature: str


def parse_reference(text: str) -> Reference:
    """Parse a reference as consumers write it, or raise `InvalidRequest`."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise InvalidRequest(f"{text!r} is no feature reference; write 'view:feature' or 'view@v3:feature'")
    version = match["version"]
    return Reference(match["view"], None if version is None else int(version), match["feature"])


def asked_as(view: str, version: int | None) -> str:
    """Return a view as a reference names it."""
    return view if version is None else f"{view}@v{version}"
