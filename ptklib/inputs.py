"""Input tables: pandas, pyarrow and numpy read column by column."""

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from scipy.sparse import issparse

from ptklib.exceptions import SchemaError


class InputTable:
    """Columns of a pandas DataFrame, a pyarrow Table or RecordBatch, or a two-dimensional array.

    Parameters
    ----------
    data : DataFrame, Table, RecordBatch or array-like of shape (n_rows, n_columns)
        An array has no names: its columns are ``x0``, ``x1`` ... or, when there are exactly as many as
        `expected`, take those names in order.
    expected : sequence of str
        The columns the caller is going to read.

    Raises
    ------
    SchemaError
        When a column of `expected` is missing or occurs twice. Names columns and types only.
    """

    def __init__(self, data: Any, expected: Sequence[str]) -> None:
        self.named = isinstance(data, pd.DataFrame | pa.Table | pa.RecordBatch)
        if isinstance(data, pd.DataFrame):
            self._data, names, self.n_rows = data, list(data.columns), len(data)
        elif self.named:
            self._data, names, self.n_rows = data, list(data.schema.names), data.num_rows
        else:
            array = as_array(data)
            if array.ndim != 2:
                raise SchemaError(
                    "X must be a DataFrame, an Arrow table or a two-dimensional array. Reshape your data."
                )
            numbered = [f"x{i}" for i in range(array.shape[1])]
            by_position = len(expected) == len(numbered) and not set(expected) <= set(numbered)
            self._data, names, self.n_rows = (
                array,
                list(expected) if by_position else numbered,
                array.shape[0],
            )
        self.names = tuple(names)
        for name in expected:
            if names.count(name) != 1:
                fault = "is missing" if name not in names else "occurs more than once"
                raise SchemaError(f"column {name!r} {fault}: needed are {', '.join(map(repr, expected))}")

    def column(self, name: str) -> Any:
        """Return one column as a numpy array or an Arrow array."""
        if isinstance(self._data, np.ndarray):
            return self._data[:, self.names.index(name)]
        column = self._data[name] if isinstance(self._data, pd.DataFrame) else self._data.column(name)
        return as_column(column, name)

    def take(self, rows: npt.NDArray[np.int64]) -> Self:
        """Return the table of some rows."""
        part = copy(self)
        if isinstance(self._data, pd.DataFrame):
            part._data = self._data.iloc[rows]
        else:
            part._data = self._data[rows] if isinstance(self._data, np.ndarray) else self._data.take(rows)
        part.n_rows = len(rows)
        return part

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """Return one numeric column as float64; missing entries and non-numbers among objects are NaN."""
        return as_numbers(self.column(name), name)


def as_array(values: Any) -> npt.NDArray[Any]:
    """Return a numpy array; other sequences keep each entry's own type.

    Were a common type chosen, one row could change how all others are read, and no sensitivity would hold.
    """
    if issparse(values):
        raise SchemaError("sparse input is not supported: give a dense array or a table")
    array = values if isinstance(values, np.ndarray) else np.asarray(values, dtype=object)
    if array.dtype.kind == "c":
        raise SchemaError("Complex data not supported: a column holds real numbers")
    return array


def as_column(values: Any, name: str) -> Any:
    """Return a one-dimensional array-like as a numpy array or an Arrow array."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, pd.Series | pd.Index):
        if isinstance(values.dtype, np.dtype):
            return values.to_numpy()
        if isinstance(values.dtype, pd.CategoricalDtype):
            return values.to_numpy(dtype=object)  # categories may mix types: entry by entry
        try:
            return pa.array(values, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError):
            raise SchemaError(f"column {name!r} has type {values.dtype}, which cannot be read") from None
    array = as_array(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise SchemaError(f"column {name!r} must be one-dimensional")
    return array


def as_numbers(column: Any, name: str) -> npt.NDArray[np.float64]:
    """Return a column of numbers as float64."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "iufb":
            return column.astype(np.float64, copy=False)
        if column.dtype.kind == "O":
            return np.fromiter(map(_number, column), dtype=np.float64, count=len(column))
        raise SchemaError(f"column {name!r} has type {column.dtype}, a number is needed")
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise SchemaError(f"column {name!r} has type {kind}, a number is needed")
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    numbers = column.cast(pa.float64(), safe=False)
    dense = numbers.to_numpy(zero_copy_only=False) if isinstance(numbers, pa.Array) else numbers.to_numpy()
    return np.asarray(dense, dtype=np.float64)


def _number(value: object) -> float:
    if not isinstance(value, int | float | np.integer | np.floating | np.bool_):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("nan")
