"""Keys in columns: 64-bit integers and strings, read entry by entry."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ptklib.arrays import Bools, Ints
from ptklib.arrow_types import dense
from ptklib.exceptions import SchemaError
from ptklib.scalars import TEXT_BYTES_MAX, is_text, is_whole, number_of

_INT64_MAX = 2**63 - 1


def integer_keys(column: Any, name: str) -> tuple[Ints, Bools]:
    """Return the integers of a numpy or Arrow column and which entries are integers within 64 signed bits.

    Notes
    -----
    A float that is a whole number is that integer. Booleans, strings and missing entries among objects are not.

    Raises
    ------
    SchemaError
        When the type of the column cannot hold integers.
    """
    if isinstance(column, np.ndarray):
        return _numpy_integers(column, name)
    column = _plain(column)
    if pa.types.is_null(column.type):
        return np.zeros(len(column), dtype=np.int64), np.zeros(len(column), dtype=np.bool_)
    if pa.types.is_decimal(column.type):
        return _object_integers(dense(column))
    if pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
    elif not pa.types.is_integer(column.type):
        raise SchemaError(f"column {name!r} has type {column.type}, integers are needed")
    filled = pc.fill_null(column, pa.scalar(0, type=column.type))
    values, valid = _numpy_integers(dense(filled), name)
    return values, valid & ~dense(column.is_null())


def string_keys(column: Any, name: str) -> Any:
    """Return the strings of a numpy or Arrow column as an Arrow array; everything else in it is null.

    Notes
    -----
    A string that is not UTF-8, or longer than `TEXT_BYTES_MAX` bytes, is null.

    Raises
    ------
    SchemaError
        When the type of the column cannot hold strings.
    """
    if isinstance(column, np.ndarray):
        strings = _numpy_strings(column, name)
    else:
        strings = _plain(column)
        if pa.types.is_null(strings.type):
            strings = strings.cast(pa.string())
        elif not (pa.types.is_string(strings.type) or pa.types.is_large_string(strings.type)):
            raise SchemaError(f"column {name!r} has type {strings.type}, strings are needed")
    strings = _valid(strings)
    long = pc.greater(pc.binary_length(strings), TEXT_BYTES_MAX)
    if pc.any(long).as_py():
        strings = pc.if_else(long, pa.scalar(None, type=strings.type), strings)
    return strings


def _valid(strings: Any) -> Any:
    """Return Arrow strings with null for those that are not UTF-8; nobody checks that when a file is read."""
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        octets = strings.cast(pa.large_binary()).to_pylist()
        return pa.array([_decoded(text) for text in octets], type=strings.type)
    return strings


def _decoded(text: bytes | None) -> str | None:
    try:
        return None if text is None else text.decode()
    except UnicodeDecodeError:
        return None


def _plain(column: Any) -> Any:
    """Return an Arrow column in one piece and without a dictionary."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _numpy_integers(column: npt.NDArray[Any], name: str) -> tuple[Ints, Bools]:
    kind = column.dtype.kind
    if kind == "O":
        return _object_integers(column)
    if kind == "f":
        with np.errstate(invalid="ignore"):
            values = column.astype(np.int64)
            return values, (values == column) & (np.abs(column) < 2.0**63)
    if kind == "u":
        return column.astype(np.int64), column <= np.uint64(_INT64_MAX)
    if kind == "i":
        return column.astype(np.int64, copy=False), np.ones(len(column), dtype=np.bool_)
    raise SchemaError(f"column {name!r} has type {column.dtype}, integers are needed")


def _object_integers(column: npt.NDArray[np.object_]) -> tuple[Ints, Bools]:
    if pd.api.types.infer_dtype(column, skipna=False) == "integer":
        try:
            return column.astype(np.int64), np.ones(len(column), dtype=np.bool_)
        except OverflowError:
            pass
    integers = [_integer(value) for value in column]
    valid = np.fromiter((value is not None for value in integers), dtype=np.bool_, count=len(integers))
    return np.fromiter((value or 0 for value in integers), dtype=np.int64, count=len(integers)), valid


def _integer(value: object) -> int | None:
    """Return an entry of a column of objects as an integer."""
    number = number_of(value)
    if number is None or (isinstance(number, float) and not is_whole(number)):
        return None
    whole = int(number)
    return whole if -_INT64_MAX - 1 <= whole <= _INT64_MAX else None


def _numpy_strings(column: npt.NDArray[Any], name: str) -> Any:
    if column.dtype.kind == "U":
        column = column.astype(object)
    elif column.dtype.kind != "O":
        raise SchemaError(f"column {name!r} has type {column.dtype}, strings are needed")
    if pd.api.types.infer_dtype(column, skipna=True) == "string":
        try:
            return pa.array(column, type=pa.string(), from_pandas=True)
        except (UnicodeEncodeError, pa.ArrowException):  # read entry by entry what is no string
            pass
    return pa.array([value if is_text(value) else None for value in column], type=pa.string())
