"""Arrow tables as packed rows, many at once and without a message per value."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ptkstore.adapters.feast.packed.keys import int64_fields, slices, text_field
from ptkstore.adapters.feast.packed.layout import ANY, Layout, content_of
from ptkstore.adapters.feast.packed.messages import KIND_OF
from ptkstore.adapters.feast.tables import TIMESTAMP, ViewTable
from ptkstore.adapters.feast.values import value_field, value_maker


def table_layout(table: ViewTable) -> Layout:
    """Return the layout of a table's rows."""
    fields = {name: value_field(table.rows.schema.field(name).type) for name in table.features}
    return Layout(sorted((name, KIND_OF.get(field, ANY)) for name, field in fields.items()))


def packed_rows(
    table: ViewTable, layout: Layout, as_of: datetime, *, at_once: int
) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Pack the rows of a table: fields and rows, `at_once` of them at a time."""
    micros = round(as_of.timestamp() * 1_000_000)
    for start in range(0, table.rows.num_rows, at_once):
        part = table.rows.slice(start, at_once).combine_chunks()
        yield _fields(table, part), _rows(layout, part, micros)


def _fields(table: ViewTable, part: pa.Table) -> list[bytes]:
    columns = [_key_fields(part[key]) for key in sorted(table.keys)]
    return columns[0] if len(columns) == 1 else [b"".join(values) for values in zip(*columns, strict=True)]


def _key_fields(column: pa.ChunkedArray) -> list[bytes]:
    if column.type == pa.int64():
        return int64_fields(column.to_numpy())
    return [text_field(value) for value in column.to_pylist()]


def _rows(layout: Layout, part: pa.Table, micros: int) -> list[bytes]:
    fixed = np.zeros(part.num_rows, layout.fixed_type)
    fixed["head"] = np.void(layout.head)
    fixed["micros"] = micros
    rest: list[list[bytes]] = []
    for index, (name, kind) in enumerate(zip(layout.names, layout.kinds, strict=True)):
        column = part[name]
        if column.null_count:
            fixed["nulls"][:, index // 8] |= column.is_null().to_numpy().astype(np.uint8) << (index % 8)
        if kind in "dq?t":
            fixed[f"c{index}"] = _numbers(column)
            continue
        contents = _contents(column, kind)
        fixed[f"c{index}"] = [len(content) for content in contents]
        rest.append(contents)
    heads = slices(fixed.tobytes(), layout.fixed_type.itemsize)
    if not rest:
        return heads
    return [b"".join(parts) for parts in zip(heads, *rest, strict=True)]


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    if column.type == TIMESTAMP:
        # Whole seconds as the stock store keeps them; towards zero, as Python's int() does.
        column = pc.divide(pc.cast(column, pa.int64()), 1_000_000)
    filler = pa.scalar(False) if column.type == pa.bool_() else pa.scalar(0, column.type)
    numbers: npt.NDArray[Any] = pc.fill_null(column, filler).to_numpy()
    return numbers


def _contents(column: pa.ChunkedArray, kind: str) -> list[bytes]:
    if kind == ANY:
        make = value_maker(column.type)
        return [make(value).SerializeToString() for value in column.to_pylist()]  # of a null no bytes
    return [b"" if value is None else content_of(kind, value) for value in column.to_pylist()]
