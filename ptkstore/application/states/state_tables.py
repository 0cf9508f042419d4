"""Search and sort the tables of a published state, for people who look at it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ptklib.row_noise import OWN_NOISE, has_own_noise
from ptkstore.domain.versions.versions import table_of

BYTES_MOST = 16_000_000
"""Files that are larger together are not read for a page."""


CELLS_MOST = 1_000_000
"""A small file may hold many equal cells: a table with more is not read for a page."""


@dataclass(frozen=True, slots=True)
class TableAsk:
    """The rows that are asked for: of a table, with this text in a key, in the order of a column."""

    table: str = ""
    text: str = ""
    column: str = ""
    descending: bool = False
    limit: int = 50


@dataclass(frozen=True, slots=True)
class StateTable:
    """Rows of one table of a state; all of it is DP output or public.

    `noise_std` has the standard deviation of the noise in a column where the state tells it; with `noise_by_row` it is
    the largest of the rows. `n_rows` are all rows of the table, and `n_found` those with the text.
    """

    name: str
    tables: tuple[str, ...]
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    numeric: frozenset[str]
    noise_std: Mapping[str, float]
    n_rows: int
    n_found: int
    rows: tuple[tuple[Any, ...], ...]
    column: str
    descending: bool

    @property
    def noise_by_row(self) -> str:
        """The column in which each row has its own noise; empty where all rows have the same."""
        return OWN_NOISE if has_own_noise(self.numeric - {*self.keys}, self.noise_std) else ""

    def noises_of(self, column: str) -> list[float | None]:
        """Return the noise of a column's values, row by row; None where the state does not tell it."""
        if self.noise_by_row and column in self.noise_std:
            return self.values_of(self.noise_by_row)
        return [self.noise_std.get(column)] * len(self.rows)

    def values_of(self, column: str) -> list[Any]:
        """Return the values of a column, row by row."""
        place = self.columns.index(column)
        return [row[place] for row in self.rows]


def is_small(content: Mapping[str, Any]) -> bool:
    """Return whether the files of a manifest are read for a page."""
    return sum(int(file["size"]) for file in content["files"]) <= BYTES_MOST


def state_table(content: Mapping[str, Any], files: Mapping[str, bytes], ask: TableAsk) -> StateTable | None:
    """Return rows of a table of a state in hand; None if it has no table.

    A table or a column that is not there is left out of the question.
    """
    by_name = {table_of(name): data for name, data in files.items()}
    if not by_name:
        return None
    name = ask.table if ask.table in by_name else min(by_name)
    facts = pq.read_metadata(io.BytesIO(by_name[name]))
    if facts.num_rows * facts.num_columns > CELLS_MOST:
        return None
    table = pq.read_table(io.BytesIO(by_name[name]))
    keys = tuple(key for key in content["schema"].get(name, {}).get("keys", ()) if key in table.column_names)
    n_rows = table.num_rows
    table = _with_text(table, keys or tuple(table.column_names), ask.text)
    column = ask.column if ask.column in table.column_names and _is_plain(table[ask.column].type) else ""
    if column:
        table = table.sort_by([(column, "descending" if ask.descending else "ascending")])
    shown = table.slice(0, ask.limit)
    noise = content["state"].get("noise_std", {})
    return StateTable(
        name=name,
        tables=tuple(sorted(by_name)),
        keys=keys,
        columns=tuple(table.column_names),
        numeric=frozenset(one.name for one in table.schema if _is_number(one.type)),
        noise_std=dict(noise.get(name, {})) if isinstance(noise, Mapping) else {},
        n_rows=n_rows,
        n_found=table.num_rows,
        rows=tuple(zip(*(shown[name].to_pylist() for name in shown.column_names), strict=True)),
        column=column,
        descending=ask.descending,
    )


def _with_text(table: pa.Table, keys: Sequence[str], text: str) -> pa.Table:
    """The rows of which a key has the text in it, in any case of letters."""
    plain = [key for key in keys if _is_plain(table[key].type)]
    if not text or not plain:
        return table
    found = pa.scalar(False)
    for key in plain:
        words = pc.cast(table[key], pa.string())
        found = pc.or_(found, pc.fill_null(pc.match_substring(words, text, ignore_case=True), False))
    return table.filter(found)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_plain(kind: pa.DataType) -> bool:
    return _is_number(kind) or bool(
        pa.types.is_string(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind)
    )
