"""Released tables in the few types that every Feast store serves alike."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ptkstore.adapters.feast.names import STATE_KEY, VERSION_FEATURE, checked_column, view_name
from ptkstore.errors import SchemaMismatch
from ptkstore.ports.features import PublishedState

TIMESTAMP = pa.timestamp("us", tz="UTC")
KEY_TYPES = (pa.int64(), pa.string())


@dataclass(frozen=True, slots=True)
class ViewTable:
    """The rows of one view: its join keys, then its features, `ptk_version` last."""

    view: str
    keys: tuple[str, ...]
    rows: pa.Table

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that are no keys."""
        return tuple(name for name in self.rows.column_names if name not in self.keys)


def view_tables(state: PublishedState) -> list[ViewTable]:
    """Return the views of a state, in the order of their names.

    A table without keys is one row about the PTK itself: it gets the join key `ptk`, with the PTK's id.
    Raises `SchemaMismatch` for anything that Feast would store wrongly or not at all.
    """
    views = []
    for name, table in sorted(state.tables.items()):
        view = view_name(state.ptk_id, name, len(state.tables))
        keys = tuple(state.keys.get(name, ()))
        if not keys:
            if table.num_rows != 1 or STATE_KEY in table.column_names:
                raise SchemaMismatch(
                    f"{view} has no join keys: it must be one row without a column {STATE_KEY!r}"
                )
            table = table.append_column(STATE_KEY, pa.array([state.ptk_id]))
            keys = (STATE_KEY,)
        views.append(ViewTable(view, keys, _checked_rows(view, table, keys, state.version)))
    return views


def _checked_rows(view: str, table: pa.Table, keys: tuple[str, ...], version: int) -> pa.Table:
    if missing := [key for key in keys if key not in table.column_names]:
        raise SchemaMismatch(f"{view} lacks its join keys {missing}")
    if len(set(table.column_names)) < len(table.column_names):
        raise SchemaMismatch(f"{view} has two columns of one name")
    columns: dict[str, pa.ChunkedArray] = {}
    for name in (*keys, *(n for n in table.column_names if n not in keys)):
        checked_column(view, name)
        columns[name] = _plain(view, name, table.column(name))
    for key in keys:
        if pa.types.is_boolean(columns[key].type):
            columns[key] = columns[key].cast(pa.int64())  # Feast has no boolean keys; True equals 1
        if columns[key].type not in KEY_TYPES:
            raise SchemaMismatch(f"join key {key!r} of {view} must be integer, string or boolean")
        if columns[key].null_count:
            raise SchemaMismatch(f"join key {key!r} of {view} must not be null")
    rows = pa.table(columns)
    if rows.select(list(keys)).group_by(list(keys)).aggregate([]).num_rows < rows.num_rows:
        raise SchemaMismatch(f"{view} has several rows for one value of {list(keys)}")
    version_column = pa.chunked_array([pa.repeat(pa.scalar(version, pa.int64()), rows.num_rows)])
    return rows.append_column(VERSION_FEATURE, version_column)


def _plain(view: str, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    target = _plain_type(column.type)
    if target is None:
        raise SchemaMismatch(f"column {name!r} of {view} has type {column.type}, which cannot be served")
    if pa.types.is_list(target) and any(chunk.flatten().null_count for chunk in column.chunks):
        raise SchemaMismatch(f"column {name!r} of {view} has lists that hold nulls, which cannot be served")
    try:
        return pc.cast(column, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass  # Arrow's message quotes the value
    raise SchemaMismatch(f"column {name!r} of {view} does not fit into {target}")


def _plain_type(given: pa.DataType) -> pa.DataType | None:
    types = pa.types
    if types.is_dictionary(given):
        return _plain_type(given.value_type)
    if types.is_list(given) or types.is_large_list(given) or types.is_fixed_size_list(given):
        if types.is_float32(given.value_type):
            return pa.list_(pa.float32())  # embeddings: half the memory online
        value = _plain_type(given.value_type)
        nested = value is None or types.is_list(value) or types.is_timestamp(value) or types.is_binary(value)
        return None if nested else pa.list_(value)
    for accepts, target in (
        (types.is_boolean, pa.bool_()),
        (types.is_integer, pa.int64()),
        (types.is_floating, pa.float64()),
        (types.is_null, pa.float64()),
        (types.is_string, pa.string()),
        (types.is_large_string, pa.string()),
        (types.is_date, pa.string()),
        (types.is_timestamp, TIMESTAMP),
        (types.is_binary, pa.binary()),
        (types.is_large_binary, pa.binary()),
    ):
        if accepts(given):
            return target
    return None
