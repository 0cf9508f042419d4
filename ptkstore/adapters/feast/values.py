"""Arrow values as Feast's types and messages, without pandas, which makes integers beside nulls floats."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ptkstore.adapters.feast.tables import TIMESTAMP, ViewTable
from ptkstore.errors import InvalidRequest

if TYPE_CHECKING:
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey
    from feast.protos.feast.types.Value_pb2 import Value
    from feast.types import FeastType

_INT64_LIMIT = 2**63


def feast_type(plain: pa.DataType) -> FeastType:
    """Return Feast's type of a column in one of the types of `tables`."""
    from feast.types import Array, Bool, Bytes, Float32, Float64, Int64, String, UnixTimestamp

    types: dict[pa.DataType, FeastType] = {
        pa.int64(): Int64,
        pa.float64(): Float64,
        pa.string(): String,
        pa.bool_(): Bool,
        pa.binary(): Bytes,
        TIMESTAMP: UnixTimestamp,
        pa.list_(pa.float32()): Array(Float32),
        pa.list_(pa.float64()): Array(Float64),
        pa.list_(pa.int64()): Array(Int64),
        pa.list_(pa.string()): Array(String),
        pa.list_(pa.bool_()): Array(Bool),
    }
    return types[plain]


def online_rows(table: ViewTable) -> Iterator[tuple[EntityKey, dict[str, Value]]]:
    """Each row as entity key and features."""
    names = table.rows.column_names
    makers = [value_maker(field.type) for field in table.rows.schema]
    n_keys = len(table.keys)
    for batch in table.rows.to_batches(max_chunksize=10_000):
        columns = [
            [make(value) for value in column.to_pylist()]
            for make, column in zip(makers, batch.columns, strict=True)
        ]
        for cells in zip(*columns, strict=True):
            yield (
                entity_key(table.keys, cells[:n_keys]),
                dict(zip(names[n_keys:], cells[n_keys:], strict=True)),
            )


def entity_key(keys: tuple[str, ...], values: tuple[Value, ...]) -> EntityKey:
    """Make Feast's message for one value of the join keys."""
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey

    return EntityKey(join_keys=list(keys), entity_values=list(values))


def key_value(view: str, key: str, is_integer: bool, given: object) -> Value:
    """Convert a join key's value from a caller: a number may come as text, as on a command line."""
    from feast.protos.feast.types.Value_pb2 import Value

    if not is_integer:
        if isinstance(given, str):
            return Value(string_val=given)
        raise InvalidRequest(f"join key {key!r} of {view} is a string")
    number: int | None
    try:
        number = int(given) if isinstance(given, str) else operator.index(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = None  # the error would quote the key
    if number is None or not -_INT64_LIMIT <= number < _INT64_LIMIT:
        raise InvalidRequest(f"join key {key!r} of {view} is a 64-bit integer")
    return Value(int64_val=number)


def python_value(value: Value) -> Any:
    """Back from Feast; None where nothing was released."""
    from feast.type_map import feast_value_type_to_python_type

    return feast_value_type_to_python_type(value)


def value_field(plain: pa.DataType) -> str:
    """Name the field of Feast's message for values of a type."""
    return f"{feast_type(plain).to_value_type().name.lower()}_val"


def value_maker(plain: pa.DataType) -> Callable[[Any], Value]:
    """Make what converts values of a type to Feast's messages, and None to an empty one."""
    from feast.protos.feast.types.Value_pb2 import Value

    field, null = value_field(plain), Value()
    if pa.types.is_list(plain):
        message: Any = type(getattr(null, field))
        return lambda value: null if value is None else Value(**{field: message(val=value)})
    if plain == TIMESTAMP:
        return lambda value: null if value is None else Value(unix_timestamp_val=int(value.timestamp()))
    return lambda value: null if value is None else Value(**{field: value})
