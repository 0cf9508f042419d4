"""The names that consumers type: views, features and references."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ptkstore.domain.names import split_ptk_id
from ptkstore.domain.ptks.serving import FILLED, STATE_KEY
from ptkstore.domain.ptks.views import STATE_VIEW, base_view
from ptkstore.errors import InvalidRequest, SchemaMismatch

__all__ = ["STATE_KEY", "STATE_VIEW"]

PROJECT = "ptk"
VERSION_FEATURE = "ptk_version"
PTK_VERSION_TAG = "ptk.version"
PTK_SHA256_TAG = "ptk.sha256"
AS_OF_COLUMN = "ptk_as_of"
PUBLISHED_COLUMN = "ptk_published_at"
RESERVED_COLUMNS = frozenset({VERSION_FEATURE, AS_OF_COLUMN, PUBLISHED_COLUMN, "event_timestamp"})

_TABLE = re.compile(r"[a-z][a-z0-9_]*")
_COLUMN = re.compile(r"[^\s:@,/\\\x00-\x1f]+")
_REFERENCE = re.compile(r"(?P<view>[^@:]+)(?:@v(?P<version>\d{1,9}))?:(?P<feature>[^@:]+)")


def view_name(ptk_id: str, table: str, n_tables: int) -> str:
    """`<team>__<name>` for the only table of a PTK, `<team>__<name>__<table>` for one of several."""
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
    """Whether a view belongs to the PTK whose only view would be named `base`."""
    head, _, table = view.rpartition("__")
    return view == base or (head == base and _TABLE.fullmatch(table) is not None)


def checked_column(view: str, column: str) -> str:
    """The name of a key or feature, if a reference can carry it."""
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
    """A reference as consumers write it, or `InvalidRequest`."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise InvalidRequest(f"{text!r} is no feature reference; write 'view:feature' or 'view@v3:feature'")
    version = match["version"]
    return Reference(match["view"], None if version is None else int(version), match["feature"])


def asked_as(view: str, version: int | None) -> str:
    """A view as a reference names it."""
    return view if version is None else f"{view}@v{version}"
