"""Entity keys as the fields of a hash: the values of the join keys, in the order of the keys' names."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey

# Fields that are no rows begin with a zero byte; a row's field begins with the mark of its first value or is empty.
LAYOUT_FIELD = b"\x00L"
STATUS_FIELD = b"\x00S"

_INT64 = struct.Struct("<cq")
_INT32 = struct.Struct("<ci")
_LENGTH = struct.Struct("<cI")
INT64_MARK, INT32_MARK, TIME_MARK, TEXT_MARK, BYTES_MARK = b"q", b"i", b"t", b"s", b"b"


def int64_field(value: int) -> bytes:
    """Of one 64-bit integer."""
    return _INT64.pack(INT64_MARK, value)


def int32_field(value: int) -> bytes:
    """Of one 32-bit integer."""
    return _INT32.pack(INT32_MARK, value)


def text_field(value: str) -> bytes:
    """Of one text."""
    content = value.encode("utf-8")
    return _LENGTH.pack(TEXT_MARK, len(content)) + content


def row_field(entity_key: EntityKey) -> bytes:
    """Of Feast's message."""
    pairs = sorted(zip(entity_key.join_keys, entity_key.entity_values, strict=True), key=lambda pair: pair[0])
    return b"".join(_value_field(value) for _, value in pairs)


def _value_field(value: Any) -> bytes:
    kind = value.WhichOneof("val")
    if kind == "int64_val":
        return int64_field(value.int64_val)
    if kind == "string_val":
        return text_field(value.string_val)
    if kind == "int32_val":
        return int32_field(value.int32_val)
    if kind == "unix_timestamp_val":
        return _INT64.pack(TIME_MARK, value.unix_timestamp_val)
    if kind == "bytes_val":
        content: bytes = value.bytes_val
        return _LENGTH.pack(BYTES_MARK, len(content)) + content
    raise ValueError(f"a join key cannot be of type {kind}")


def int64_fields(values: npt.NDArray[np.int64]) -> list[bytes]:
    """Of many 64-bit integers."""
    fields = np.empty(len(values), [("mark", "S1"), ("value", "<i8")])
    fields["mark"], fields["value"] = INT64_MARK, values
    return slices(fields.tobytes(), fields.dtype.itemsize)


def slices(content: bytes, width: int) -> list[bytes]:
    """Cut into pieces of one width."""
    return [content[start : start + width] for start in range(0, len(content), width)]


# What a caller's value must be, exactly, to be encoded without Feast's conversions.
_MANY = 16  # keys from which on an array is quicker
ENCODERS: dict[str, tuple[type, Callable[[Any], bytes]]] = {
    "INT64": (int, int64_field),
    "INT32": (int, int32_field),
    "STRING": (str, text_field),
}


def fields_of(columns: Sequence[Sequence[Any]], kinds: Sequence[str]) -> list[bytes] | None:
    """Encode columns of Python values, sorted by key name, as fields; None if Feast must convert them."""
    encoded = []
    for column, kind in zip(columns, kinds, strict=True):
        exact, encode = ENCODERS[kind]
        if set(map(type, column)) != {exact}:
            return None
        try:
            if exact is int and len(column) >= _MANY and kind == "INT64":
                encoded.append(int64_fields(np.array(column, np.int64)))
            else:
                encoded.append([encode(value) for value in column])
        except (struct.error, OverflowError, UnicodeEncodeError):
            return None
    if len(encoded) == 1:
        return encoded[0]
    return [b"".join(parts) for parts in zip(*encoded, strict=True)]
