"""Rows written as text, read into declared columns: no type is guessed, and no word is said about a value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from ptkstore.application.ingest.event_tables import ARROW
from ptkstore.domain.streams.schemas import ColumnType
from ptkstore.errors import SchemaMismatch

Columns = Mapping[str, ColumnType]

_LINE_BYTES = 2**20
# A time without an offset is in UTC, a date its first moment; what is finer than a microsecond is cut.
_TIMES = (
    (r"^(\d{4}-\d{2}-\d{2})$", r"\1 00:00:00Z"),
    (r"^(\d{4}-\d{2}-\d{2}[ T][\d:.]+)$", r"\1Z"),
    (r"(\.\d{6})\d+", r"\1"),
)


def read_ndjson(
    source: Any,
    columns: Columns,
    *,
    undeclared: str = "error",
    threads: bool = False,
    line_bytes: int = _LINE_BYTES,
) -> pa.Table:
    """Read one JSON object per line; a declared column that a line lacks is null there.

    Parameters
    ----------
    source : path, or file of pyarrow
    undeclared : 'error', 'ignore' or 'infer'
        The treatment of fields that `columns` lacks.
    line_bytes : int
        Lines of this length are read; longer ones may be refused.

    Raises
    ------
    pyarrow.ArrowInvalid
        With a text that contains values. `ndjson_fault` says where it is, without them.
    """
    return pyarrow.json.read_json(
        source,
        read_options=pyarrow.json.ReadOptions(use_threads=threads, block_size=line_bytes),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([pa.field(name, ARROW[kind]) for name, kind in columns.items()]),
            newlines_in_values=False,
            unexpected_field_behavior=undeclared,
        ),
    )


def ndjson_fault(content: bytes, columns: Columns) -> str | None:
    """Find the first fault of lines that could not be read: line and column; None if no single line has one."""
    lines = content.split(b"\n")

    def read(some: list[bytes]) -> None:
        if text := b"\n".join(some).strip():
            read_ndjson(pa.BufferReader(text), columns, undeclared="ignore")

    place = _first_refused(lines, read)
    if place is None:
        return None
    for name, kind in columns.items():
        if not _is_readable(lines[place], name, kind):
            return f"column {name!r} holds no {kind.value} in line {place + 1}"
    if len(lines[place]) > _LINE_BYTES:
        return f"line {place + 1} is longer than {_LINE_BYTES} bytes"
    return f"line {place + 1} cannot be read as one JSON object"


def read_csv(source: Any, columns: Columns) -> pa.Table:
    """Read comma-separated rows below a header; the types of columns that `columns` lacks are guessed.

    Raises
    ------
    SchemaMismatch
        A cell has no value of its column's type. The message names column and row, never the value.
    pyarrow.ArrowInvalid
        The text is no such table. Its message contains values.
    """
    octets = dict.fromkeys(columns, pa.binary())
    table = pyarrow.csv.read_csv(
        source, convert_options=pyarrow.csv.ConvertOptions(column_types=octets, strings_can_be_null=False)
    )
    for place, name in enumerate(table.column_names):
        if name in columns:
            table = table.set_column(place, name, _converted(table.column(place), name, columns[name]))
    return table


def _converted(cells: pa.ChunkedArray, name: str, kind: ColumnType) -> pa.ChunkedArray:
    try:
        return _cast(cells, kind)
    except pa.ArrowInvalid:  # its text holds the value
        place = _first_refused(cells, lambda some: _cast(some, kind))
    row = "" if place is None else f" in row {place + 1} below the header"
    raise SchemaMismatch(f"column {name!r} holds no {kind.value}{row}")


def _cast(cells: pa.ChunkedArray, kind: ColumnType) -> pa.ChunkedArray:
    text = cells.cast(pa.string())
    if kind is ColumnType.STRING:
        return text
    text = pc.utf8_trim_whitespace(text)
    text = pc.if_else(pc.is_in(text, _no_value()), pa.scalar(None, pa.string()), text)
    if kind is ColumnType.TIMESTAMP:
        for pattern, replacement in _TIMES:
            text = pc.replace_substring_regex(text, pattern, replacement)
    return text.cast(ARROW[kind])


@cache
def _no_value() -> pa.Array:
    """Texts that pyarrow reads as no value; made when first needed, as that loads pandas."""
    return pa.array(pyarrow.csv.ConvertOptions().null_values)


def _first_refused(whole: Any, read: Callable[[Any], object]) -> int | None:
    """The place of the first item that `read` refuses; None if it refuses none by itself."""
    low, high = 0, len(whole)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _refuses(read, whole[low:middle]) else (middle, high)
    return low if high > low and _refuses(read, whole[low:high]) else None


def _refuses(read: Callable[[Any], object], part: Any) -> bool:
    try:
        read(part)
    except pa.ArrowInvalid:
        return True
    return False


def _is_readable(line: bytes, name: str, kind: ColumnType) -> bool:
    """Whether a line is of JSON that has a value of this type under this name, or none."""
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        return True  # the fault is none of one column
    if not isinstance(parsed, dict) or name not in parsed:
        return True
    alone = json.dumps({name: parsed[name]}).encode()
    size = len(alone) + 1

    def read(text: bytes) -> None:
        read_ndjson(pa.BufferReader(text), {name: kind}, line_bytes=size)

    return not _refuses(read, alone)
