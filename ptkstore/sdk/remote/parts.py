"""How a large table is cut into parts: by its rows alone, whatever form they have in memory.

So the same rows in the same order make the same parts. It does not matter whether they are of one chunk or of many,
sliced, of dictionaries, or from pandas, with or without empty columns. A batch that is sent again continues where it
stopped.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ptklib.arrays import Ints
from ptklib.arrow_types import without_dictionaries, without_views

PART_BYTES = 32 * 2**20
PART_ROWS = 500_000
_CELL_BYTES = 8  # no cell that a stream takes is longer, but for the text of a text


class Parts:
    """The parts of a table, one at least, each of one chunk and without dictionaries; made when they are asked for."""

    def __init__(self, table: pa.Table) -> None:
        self._table = _readable(table)
        self._starts = _starts(self._table)

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[pa.Table]:
        """One after the other."""
        ends = [*self._starts[1:], self._table.num_rows]
        for start, end in zip(self._starts, ends, strict=True):
            yield _plain(self._table.slice(start, end - start))


def _starts(table: pa.Table) -> list[int]:
    """The row that each part begins with: as many rows as are within the bounds, and one at least."""
    ends = np.cumsum(_row_bytes(table))
    starts, start = list[int](), 0
    while start < table.num_rows or not starts:
        starts.append(start)
        before = ends[start - 1] if start else 0
        within = int(np.searchsorted(ends, before + PART_BYTES, side="right"))
        start = max(start + 1, min(within, start + PART_ROWS))
    return starts


def _row_bytes(table: pa.Table) -> Ints:
    """A size of each row in which types and memory have no part; a body takes hardly more for it."""
    held = sum(not _is_empty(column) for column in table.columns)
    sizes = np.full(table.num_rows, _CELL_BYTES * held, dtype=np.int64)
    for column in table.columns:
        start = 0
        for chunk in column.chunks:
            sizes[start : start + len(chunk)] += _text_bytes(chunk)
            start += len(chunk)
    return sizes


def _text_bytes(chunk: pa.Array) -> Ints | int:
    """The length of each text in UTF-8; none where there is none."""
    if pa.types.is_dictionary(chunk.type):
        lengths = _text_bytes(chunk.dictionary)
        if isinstance(lengths, int):
            return lengths
        taken = pc.take(pa.array(lengths), chunk.indices)
        return np.asarray(pc.fill_null(taken, 0).to_numpy(zero_copy_only=False), dtype=np.int64)
    if not _is_text(chunk.type):
        return 0
    return np.asarray(pc.fill_null(pc.binary_length(chunk), 0).to_numpy(zero_copy_only=False), dtype=np.int64)


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )


def _readable(table: pa.Table) -> pa.Table:
    """Texts as the API takes them; columns that hold nothing, but for times, without a place for it."""
    for index, field in enumerate(table.schema):
        given = table.column(index)
        column = without_views(given)
        if _is_empty(column) and not pa.types.is_timestamp(column.type):
            column = pa.chunked_array([pa.nulls(len(column))])
        if column is not given:
            table = table.set_column(index, field.name, column)
    return table


def _is_empty(column: pa.ChunkedArray) -> bool:
    """Whether it has rows and no value in any."""
    if not pa.types.is_dictionary(column.type):
        return bool(0 < len(column) == column.null_count)
    held = (pc.is_valid(chunk.dictionary).take(chunk.indices) for chunk in column.chunks)
    return len(column) > 0 and not any(pc.any(one).as_py() for one in held)


def _plain(table: pa.Table) -> pa.Table:
    """The rows in one chunk: each chunk costs a message of its own, and the API takes no dictionaries."""
    return without_dictionaries(table).combine_chunks()
