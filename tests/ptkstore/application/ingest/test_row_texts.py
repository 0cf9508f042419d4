"""Rows written as text: the declared types hold, and a fault is named by column and row without its value."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from ptkstore.application.ingest.event_tables import ARROW
from ptkstore.application.ingest.row_texts import ndjson_fault, read_csv, read_ndjson
from ptkstore.domain.streams.schemas import ColumnType
from ptkstore.errors import SchemaMismatch

COLUMNS = {
    "at": ColumnType.TIMESTAMP,
    "n": ColumnType.INT64,
    "x": ColumnType.FLOAT64,
    "s": ColumnType.STRING,
    "b": ColumnType.BOOL,
}
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def csv(name: str, *cells: str) -> pa.ChunkedArray:
    text = "\n".join([f"{name},other", *(f"{cell},1" for cell in cells), ""])
    return read_csv(io.BytesIO(text.encode()), COLUMNS)[name]


@pytest.mark.parametrize(
    ("name", "cells", "values"),
    [
        ("s", ["00123", "NA", "", " 1"], ["00123", "NA", "", " 1"]),
        ("b", ["0", "1", "true", "False", ""], [False, True, True, False, None]),
        ("n", ["007", " 7 ", "", "NA"], [7, 7, None, None]),
        ("x", ["1", "1.5", "nan"], [1.0, 1.5, None]),
        ("at", ["2026-01-05T12:00:00Z", "2026-01-05 12:00:00", "2026-01-05 12:00"], [NOON] * 3),
        ("at", ["2026-01-05T14:00:00+02:00", "2026-01-05 06:30:00-0530", ""], [NOON, NOON, None]),
        ("at", ["2026-01-05 12:00:00.000000999Z", "2026-01-05 12:00:00.000000999"], [NOON] * 2),
        ("at", ["2026-01-05"], [NOON.replace(hour=0)]),
    ],
)
def test_cells_are_read_as_their_column_is_declared(
    name: str, cells: list[str], values: list[object]
) -> None:
    found = csv(name, *cells)
    assert found.type == ARROW[COLUMNS[name]]
    assert found.to_pylist() == values


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("n", "1", "271828.5"),
        ("n", "1", "27182818284590452353602874"),
        ("x", "1", "x271828"),
        ("b", "1", "271828"),
        ("at", "2026-01-05", "271828"),
    ],
)
@pytest.mark.parametrize("row", [1, 2, 7, 12])
def test_a_cell_of_another_type_is_named_by_column_and_row(name: str, good: str, bad: str, row: int) -> None:
    cells = [good] * 12
    cells[row - 1 :] = [bad] * (13 - row)  # the first of them counts
    with pytest.raises(SchemaMismatch) as error:
        csv(name, *cells)
    assert str(error.value) == f"column {name!r} holds no {COLUMNS[name]} in row {row} below the header"
    assert error.value.__suppress_context__ or error.value.__context__ is None


def test_text_that_is_no_utf_8_is_named_by_column_and_row() -> None:
    with pytest.raises(SchemaMismatch, match="column 's' holds no string in row 2 below the header"):
        read_csv(io.BytesIO(b"n,s\n1,a\n1,caf\xe9\n"), COLUMNS)


def test_types_of_other_columns_are_guessed() -> None:
    table = read_csv(io.BytesIO(b"s,t,u\n1,1,a\n"), {"s": ColumnType.STRING})
    assert table.schema.types == [pa.string(), pa.int64(), pa.string()]
    lines = pa.BufferReader(b'{"s": "2026-01-05", "t": 1}\n')
    table = read_ndjson(lines, {"s": ColumnType.STRING}, undeclared="infer")
    assert table.to_pylist() == [{"s": "2026-01-05", "t": 1}]


def test_lines_are_read_as_declared() -> None:
    lines = b'{"at": "2026-01-05T12:00:00Z", "s": "00123"}\n{"at": "2026-01-05 12:00:00", "x": 1}\n'
    assert read_ndjson(pa.BufferReader(lines), COLUMNS).to_pylist() == [
        {"at": NOON, "n": None, "x": None, "s": "00123", "b": None},
        {"at": NOON, "n": None, "x": 1.0, "s": None, "b": None},
    ]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b'{"n": "271828"}', "column 'n' holds no int64 in line {}"),
        (b'{"n": 271828.5}', "column 'n' holds no int64 in line {}"),
        (b'{"at": "Ann", "n": 1}', "column 'at' holds no timestamp in line {}"),
        (b'{"other": 1, "b": [271828]}', "column 'b' holds no bool in line {}"),
        (b"[271828]", "line {} cannot be read as one JSON object"),
        (b'{"n": 1, "s": "Ann', "line {} cannot be read as one JSON object"),
        (b'{"x": 1e999}', "line {} cannot be read as one JSON object"),
    ],
)
@pytest.mark.parametrize("line", [1, 3, 8])
def test_a_line_that_is_no_row_is_named_with_its_column(bad: bytes, says: str, line: int) -> None:
    lines = [b'{"n": 1, "s": "a"}', b""] * 4
    lines[line - 1] = bad
    content = b"\n".join(lines)
    with pytest.raises(pa.ArrowInvalid):
        read_ndjson(pa.BufferReader(content), COLUMNS)
    assert ndjson_fault(content, COLUMNS) == says.format(line)


def test_a_line_that_is_too_long_is_told_so() -> None:
    content = b'{"n": 1}\n{"s": "' + b"x" * 3 * 2**20 + b'", "n": 1}\n'
    with pytest.raises(pa.ArrowInvalid):
        read_ndjson(pa.BufferReader(content), COLUMNS)
    assert ndjson_fault(content, COLUMNS) == "line 2 is longer than 1048576 bytes"


def test_lines_whose_declared_columns_are_right_have_no_fault() -> None:
    assert ndjson_fault(b'{"n": 1, "u": 1}\n{"n": 2, "u": "a"}\n', COLUMNS) is None
    assert ndjson_fault(b"", COLUMNS) is None
