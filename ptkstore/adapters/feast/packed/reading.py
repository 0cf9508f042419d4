"""Answers of a store to HMGET, as columns of cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from feast.protos.feast.types.Value_pb2 import Value

from ptkstore.adapters.feast.packed.layout import ANY, HEAD, Layouts
from ptkstore.adapters.feast.packed.messages import message


@dataclass(slots=True)
class Cells:
    """Rows of one table: per row its event time (None: no such row), per feature its kind and one cell per row."""

    micros: list[int | None]
    columns: list[tuple[str, list[Any]]]


def cells_of(rows: Sequence[bytes | None], features: Sequence[str], layouts: Layouts) -> Cells:
    """Unpack rows, of whatever layouts, for these features; a feature that a row does not hold is null."""
    heads = {row[:HEAD] for row in rows if row is not None}
    if len(heads) != 1:
        return _cells_of_several(rows, features, layouts)
    layout = layouts.of(next(row for row in rows if row is not None))
    unpacked: Sequence[tuple[int, Sequence[Any]] | None]
    if None in rows:
        unpacked = [None if row is None else layout.unpack(row) for row in rows]
    else:
        unpacked = layout.unpack_many(cast("Sequence[bytes]", rows))
    places = [layout.position.get(feature) for feature in features]
    columns: list[tuple[str, list[Any]]]
    if None in places or None in unpacked:
        columns = [
            (
                ANY if place is None else layout.kinds[place],
                [None if row is None or place is None else row[1][place] for row in unpacked],
            )
            for place in places
        ]
    elif len(unpacked) == 1:
        ((_, values),) = unpacked  # type: ignore[misc]  # no None among them
        columns = [(layout.kinds[place], [values[place]]) for place in places]  # type: ignore[index]
    else:
        turned = list(zip(*(row[1] for row in unpacked if row is not None), strict=True))
        columns = [(layout.kinds[p], list(turned[p])) for p in places if p is not None]
    return Cells([None if row is None else row[0] for row in unpacked], columns)


def _cells_of_several(rows: Sequence[bytes | None], features: Sequence[str], layouts: Layouts) -> Cells:
    """Rows that writers of different layouts left: every cell as a message."""
    micros: list[int | None] = []
    columns: list[tuple[str, list[Any]]] = [(ANY, []) for _ in features]
    for row in rows:
        at, values = (None, {}) if row is None else values_of(row, layouts)
        micros.append(at)
        for feature, (_, column) in zip(features, columns, strict=True):
            value = values.get(feature)
            empty = value is None or value.WhichOneof("val") is None
            column.append(None if empty or value is None else value.SerializeToString())
    return Cells(micros, columns)


def values_of(row: bytes, layouts: Layouts) -> tuple[int, dict[str, Value]]:
    """Read one row as its event time and Feast's messages."""
    layout = layouts.of(row)
    micros, values = layout.unpack(row)
    named: Iterable[tuple[str, str, Any]] = zip(layout.names, layout.kinds, values, strict=True)
    return micros, {name: message(kind, cell) for name, kind, cell in named}
