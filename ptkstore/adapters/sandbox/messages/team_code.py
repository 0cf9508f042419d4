"""Input and output of a sandbox: a line of JSON with the sizes of what follows it, never a pickle.

Rows go in as an Arrow stream. Tables come out as plain columns, because their reader has keys and rows: a reader of
Arrow is far more code than one of arrays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ptklib.exceptions import PtklibError
from ptklib.spec import estimator_from_spec
from ptklib.state import FORMAT_VERSION, ReleasedState, TableSchema
from ptkstore.ports.team_code import Examined, Finding

SEALED: Final = b"sealed\n"
"""What the sandbox says before it learns anything."""

HEADER_BYTES_MAX: Final = 2**20
TEXT_MAX: Final = 4_000
ROWS_MAX: Final = 2**24
_FINDINGS_MAX = 200
_REASON_MAX = 1_000
_STATUSES = frozenset({"passed", "failed", "skipped"})
_FIXED: Final[dict[str, np.dtype[Any]]] = {
    "int64": np.dtype("<i8"),
    "float64": np.dtype("<f8"),
    "bool": np.dtype("u1"),
}
_RELEASED = ("noise_std", "noise_variance", "defaults")

Parts: TypeAlias = Sequence[tuple[str, bytes | memoryview]]


class NotAsDeclared(ValueError):
    """The output of a sandbox is not what it should be; says nothing more."""


def message(header: Mapping[str, Any], parts: Parts = ()) -> bytes:
    """Write a header and named parts."""
    sizes = [[name, len(content)] for name, content in parts]
    line = json.dumps({**header, "parts": sizes}, allow_nan=False).encode()
    return b"".join([line, b"\n", *(content for _, content in parts)])


def split(content: bytes) -> tuple[dict[str, Any], dict[str, memoryview]]:
    """Return header and parts of a message; `NotAsDeclared` unless it is whole and nothing follows it."""
    line, newline, _ = content[:HEADER_BYTES_MAX].partition(b"\n")
    try:
        header = json.loads(line.decode("utf-8")) if newline else None
    except (ValueError, RecursionError):
        raise NotAsDeclared from None
    if not isinstance(header, dict):
        raise NotAsDeclared
    sizes = header.pop("parts", None)
    if not isinstance(sizes, list):
        raise NotAsDeclared
    rest, place, parts = memoryview(content), len(line) + 1, dict[str, memoryview]()
    for entry in sizes:
        if not isinstance(entry, list) or len(entry) != 2:
            raise NotAsDeclared
        name, size = entry
        if not isinstance(name, str) or name in parts:
            raise NotAsDeclared
        if type(size) is not int or not 0 <= size <= len(content) - place:
            raise NotAsDeclared
        parts[name] = rest[place : place + size]
        place += size
    if place != len(content):
        raise NotAsDeclared
    return header, parts


def columns_of(tables: Mapping[str, Any], schemas: Mapping[str, TableSchema]) -> tuple[dict[str, int], Parts]:
    """Return the tables of a state as plain columns: rows of each, and one part per column."""
    rows, parts = {}, []
    for name, schema in schemas.items():
        table = tables[name]
        rows[name] = table.num_rows
        for field in schema.schema:
            values = table.column(field.name)
            kind = _kind(field.type)
            if kind == "string":
                content = json.dumps(values.to_pylist()).encode()
            else:
                content = np.ascontiguousarray(values.to_numpy(), dtype=_FIXED[kind]).tobytes()
            parts.append((f"{name}/{field.name}", content))
    return rows, parts


def state_from(answer: bytes, estimator: Mapping[str, Any], releases: int) -> ReleasedState:
    """Read the state that a training in the sandbox answered with, and compare it with what was declared.

    Names, losses and schemas are ours; only numbers, keys and the facts about noise are the code's. Raises
    `NotAsDeclared` if anything else came.
    """
    header, parts = split(answer)
    if set(header) != {"rows", *_RELEASED} or not isinstance(header["rows"], dict):
        raise NotAsDeclared
    described = estimator_from_spec(estimator)
    schemas = described.table_schemas()
    if set(header["rows"]) != set(schemas):
        raise NotAsDeclared
    tables = {name: _table(name, schema, header["rows"][name], parts) for name, schema in schemas.items()}
    if sum(len(schema.schema) for schema in schemas.values()) != len(parts):
        raise NotAsDeclared
    try:
        return ReleasedState(
            tables,
            {
                "format_version": FORMAT_VERSION,
                **described.to_spec(),
                "tables": {name: schema.to_json() for name, schema in schemas.items()},
                "loss": described.declared_loss().to_json(),
                "n_releases": releases,
                **{name: header[name] for name in _RELEASED},
            },
        )
    except (PtklibError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise NotAsDeclared from None


LOSSES: Final = "losses"
_LOSS: Final = np.dtype("<f8")


def longest_losses(n_rows: int) -> int:
    """Return how many bytes an answer with the loss of each of so many rows has at most."""
    return HEADER_BYTES_MAX + n_rows * _LOSS.itemsize


def losses_message(losses: npt.NDArray[np.float64]) -> bytes:
    """Write the loss of each row."""
    return message({}, [(LOSSES, np.ascontiguousarray(losses, dtype=_LOSS).tobytes())])


def losses_from(answer: bytes, n_rows: int) -> npt.NDArray[np.float64]:
    """Read the losses of so many rows, any numbers; `NotAsDeclared` if anything else came, or another number of them.

    Returns
    -------
    ndarray of shape (n_rows,), float64
        As the code said them: not clipped, and perhaps not finite.
    """
    header, parts = split(answer)
    if header or set(parts) != {LOSSES} or len(parts[LOSSES]) != n_rows * _LOSS.itemsize:
        raise NotAsDeclared
    return np.frombuffer(parts[LOSSES], dtype=_LOSS).astype(np.float64)


def examined_from(answer: bytes) -> Examined:
    """Read what an examination answered with; texts are cut, and shown as texts only."""
    header, parts = split(answer)
    if set(header) != {"described", "findings", "printed"} or parts:
        raise NotAsDeclared
    described, findings, printed = header["described"], header["findings"], header["printed"]
    if not (described is None or isinstance(described, dict)) or not isinstance(printed, str):
        raise NotAsDeclared
    if not isinstance(findings, list) or not 1 <= len(findings) <= _FINDINGS_MAX:
        raise NotAsDeclared
    return Examined(described, tuple(map(_finding, findings)), shown(printed, TEXT_MAX))


def shown(text: str, most: int) -> str:
    """Return the end of a text, without what would steer a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text[-most:])


def _finding(entry: Any) -> Finding:
    if not isinstance(entry, list) or len(entry) != 3 or not all(isinstance(part, str) for part in entry):
        raise NotAsDeclared
    check, status, reason = entry
    if status not in _STATUSES or len(check) > 100 or not check.isprintable():
        raise NotAsDeclared
    return Finding(check, status, shown(reason, _REASON_MAX))


def _table(name: str, schema: TableSchema, rows: Any, parts: Mapping[str, memoryview]) -> pa.Table:
    if type(rows) is not int or not 0 <= rows <= ROWS_MAX:
        raise NotAsDeclared
    columns = []
    for field in schema.schema:
        content = parts.get(f"{name}/{field.name}")
        if content is None:
            raise NotAsDeclared
        columns.append(_column(_kind(field.type), content, rows))
    return pa.table(columns, schema=schema.schema)


def _column(kind: str, content: memoryview, rows: int) -> pa.Array:
    if kind == "string":
        return _texts(content, rows)
    dtype = _FIXED[kind]
    if len(content) != rows * dtype.itemsize:
        raise NotAsDeclared
    values = np.frombuffer(content, dtype=dtype)
    if kind == "bool":
        if values.size and values.max() > 1:
            raise NotAsDeclared
        return pa.array(values.astype(np.bool_))
    return pa.array(values)


def _texts(content: memoryview, rows: int) -> pa.Array:
    try:
        values = json.loads(bytes(content).decode("utf-8"))
        if not isinstance(values, list) or len(values) != rows or not all(type(v) is str for v in values):
            raise NotAsDeclared
        return pa.array(values, pa.string())
    except (ValueError, RecursionError):  # NotAsDeclared is one, so are lone surrogates
        raise NotAsDeclared from None


def _kind(arrow_type: Any) -> str:
    return {"int64": "int64", "double": "float64", "bool": "bool", "string": "string"}[str(arrow_type)]
