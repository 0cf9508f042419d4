"""One column: a sequence of values in any form becomes a numpy or an Arrow array."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import issparse

from ptklib.arrays import Floats
from ptklib.arrow_types import without_views
from ptklib.exceptions import SchemaError
from ptklib.scalars import float_of


def as_array(values: Any) -> npt.NDArray[Any]:
    """Return a numpy array; other sequences keep each entry's own type.

    Were a common type chosen, one row could change how all others are read, and no sensitivity would hold.
    """
    if issparse(values):
        raise SchemaError("sparse input is not supported: give a dense array or a table")
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(object), None)  # entry by entry: what is masked is missing
    array = np.asarray(values) if isinstance(values, np.ndarray) else np.asarray(values, dtype=object)
    if array.dtype.kind == "c":
        raise SchemaError("Complex data not supported: a column has real numbers")
    return array


def as_column(values: Any, name: str) -> Any:
    """Return a one-dimensional array-like as a numpy array, or as an Arrow array of a plain type.

    Raises
    ------
    SchemaError
        When `values` cannot be read, or is a table of more than one column.
    """
    if isinstance(values, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        return _of_pandas(values, name)
    if isinstance(values, pa.Table | pa.RecordBatch):
        if values.num_columns != 1:
            raise SchemaError(f"column {name!r} must be one-dimensional")
        return plain_column(values.column(0), name)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return plain_column(values, name)
    if hasattr(type(values), "__arrow_c_stream__") or hasattr(type(values), "__arrow_c_array__"):
        return _exported(values, name)
    array = as_array(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise SchemaError(f"column {name!r} must be one-dimensional")
    if array.dtype.kind == "V":
        raise SchemaError(f"column {name!r} has type {array.dtype}, which cannot be read")
    return array


def as_numbers(column: Any, name: str) -> Floats:
    """Return a column of numbers as float64; missing entries and non-numbers among objects are NaN."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "iufb":
            return column.astype(np.float64, copy=False)
        if column.dtype.kind == "O":
            return np.fromiter(map(float_of, column), dtype=np.float64, count=len(column))
        raise SchemaError(f"column {name!r} has type {column.dtype}, a number is needed")
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise SchemaError(f"column {name!r} has type {kind}, a number is needed")
    numbers = column.cast(pa.float64(), safe=False)
    dense = numbers.to_numpy(zero_copy_only=False) if isinstance(numbers, pa.Array) else numbers.to_numpy()
    return np.asarray(dense, dtype=np.float64)


def plain_column(column: Any, name: str) -> Any:
    """Return an Arrow column without dictionary, runs or views: as one of the types that are read."""
    try:
        column = without_views(column)
        kind = column.type
        if pa.types.is_dictionary(kind):
            return column.cast(kind.value_type)
        if pa.types.is_float16(kind):
            return column.cast(pa.float32())  # few functions of Arrow read shorter ones
    except (pa.ArrowException, NotImplementedError):
        raise SchemaError(f"column {name!r} has type {column.type}, which cannot be read") from None
    return column


def _of_pandas(values: Any, name: str) -> Any:
    if isinstance(values.dtype, np.dtype):
        return values.to_numpy()
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.to_numpy(dtype=object)  # categories may mix types: entry by entry
    try:
        column = pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        if isinstance(values.dtype, pd.StringDtype):  # a text is no UTF-8: entry by entry
            return values.to_numpy(dtype=object)
        raise SchemaError(f"column {name!r} has type {values.dtype}, which cannot be read") from None
    return plain_column(column, name)


def _exported(values: Any, name: str) -> Any:
    """Return a column that another library exports in Arrow's C interface."""
    try:
        stream = hasattr(type(values), "__arrow_c_stream__")
        column = pa.chunked_array(values) if stream else pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
        raise SchemaError(f"column {name!r} has a type that cannot be read") from None
    if pa.types.is_struct(column.type):  # a table
        if column.type.num_fields != 1:
            raise SchemaError(f"column {name!r} must be one-dimensional")
        column = pc.struct_field(column, [0])
    return plain_column(column, name)
