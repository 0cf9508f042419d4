"""Values between Feast's messages and packed cells; every message survives exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from feast.protos.feast.types import Value_pb2 as messages
from feast.protos.feast.types.Value_pb2 import Value
from feast.type_map import feast_value_type_to_python_type
from feast.value_type import ValueType

from ptkstore.adapters.feast.packed.layout import ANY, Layout

KIND_OF = {
    "double_val": "d",
    "float_val": "f",
    "int64_val": "q",
    "int32_val": "i",
    "bool_val": "?",
    "unix_timestamp_val": "t",
    "string_val": "s",
    "bytes_val": "b",
    "double_list_val": "D",
    "float_list_val": "F",
    "int64_list_val": "Q",
}
_FIELD_OF = {kind: field for field, kind in KIND_OF.items()}
_LIST_OF: dict[str, Any] = {"D": messages.DoubleList, "F": messages.FloatList, "Q": messages.Int64List}
_DECLARED = {ValueType[field.removesuffix("_val").upper()]: kind for field, kind in KIND_OF.items()}
# Kinds whose cells are what Feast's `to_dict` answers, unless the view declares one of the types that it converts.
PLAIN_KINDS = frozenset("dfqi?sbDFQ")
_CONVERTED = frozenset(declared for declared in ValueType if "UUID" in declared.name)


def layout_of(rows: Iterable[Mapping[str, Value]], declared: Mapping[str, ValueType]) -> Layout:
    """Choose one layout for rows: the kind their values have, or messages where they differ."""
    kinds: dict[str, str | None] = dict.fromkeys(declared)
    for row in rows:
        for name, value in row.items():
            field = value.WhichOneof("val")
            if field is None:
                kinds.setdefault(name, None)
                continue
            kind = KIND_OF.get(field, ANY)
            kinds[name] = kind if kinds.get(name) in (None, kind) else ANY
    fields = (
        (name, kind or _DECLARED.get(declared.get(name, ValueType.UNKNOWN), ANY))
        for name, kind in kinds.items()
    )
    return Layout(sorted(fields))


def cells(layout: Layout, row: Mapping[str, Value]) -> list[Any]:
    """Return the cells of a row in the order of its layout."""
    return [_cell(kind, row.get(name)) for name, kind in zip(layout.names, layout.kinds, strict=True)]


def _cell(kind: str, value: Value | None) -> Any:
    if value is None or value.WhichOneof("val") is None:
        return None
    if kind == ANY:
        return value.SerializeToString()
    content = getattr(value, _FIELD_OF[kind])
    return content.val if kind in _LIST_OF else content


def message(kind: str, cell: Any) -> Value:
    """Convert a cell to Feast's message; an empty one is null."""
    return _MAKERS[kind](cell) if cell is not None else Value()


def _maker(kind: str) -> Callable[[Any], Value]:
    if kind == ANY:
        from_bytes: Callable[[Any], Value] = Value.FromString
        return from_bytes
    field = _FIELD_OF[kind]
    if kind in _LIST_OF:
        make = _LIST_OF[kind]
        return lambda cell: Value(**{field: make(val=cell)})
    return lambda cell: Value(**{field: cell})


_MAKERS = {kind: _maker(kind) for kind in (*_FIELD_OF, ANY)}


def python_values(kind: str, column: list[Any], declared: ValueType) -> list[Any]:
    """Convert cells of one kind to what `OnlineResponse.to_dict` answers."""
    if kind in PLAIN_KINDS and declared not in _CONVERTED:
        return column
    return [
        None if cell is None else feast_value_type_to_python_type(message(kind, cell), declared)
        for cell in column
    ]
