"""Tables of any kind: whatever has column names is read by name, and only what has none by position."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.sparse import issparse

from ptklib.arrays import Ints
from ptklib.arrow_types import without_views
from ptklib.columns import as_array, as_column
from ptklib.exceptions import SchemaError

Columns = dict[str, Any]
"""Columns by name, as given, all of one length."""

_NAMES_MAX, _NAME_LENGTH_MAX = 20, 60
_ONE_COLUMN = (
    "X is one column, and a table is needed: give a DataFrame, an Arrow table or a two-dimensional array"
)


def as_table(data: Any) -> Any:
    """Return a pandas DataFrame, an Arrow table, columns by name, or an array, which alone has no names.

    Parameters
    ----------
    data : table
        A table in one of many forms: a DataFrame of pandas, a table or record batch of pyarrow; anything that
        exports Arrow (polars, duckdb and others) or the dataframe protocol; a mapping of columns; a
        structured array; an array-like of rows.

    Raises
    ------
    SchemaError
        When `data` has columns with names that cannot be read from here: it is lazy, or can be read only once.
    """
    if isinstance(data, pd.DataFrame | pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        raise SchemaError("a RecordBatchReader can be read only once: give the table of reader.read_all()")
    if isinstance(data, Mapping) and not issparse(data):  # one kind of sparse arrays is a mapping of places
        return _of_mapping(data)
    if isinstance(data, np.ndarray) and data.dtype.names is not None:
        if data.ndim != 1:
            raise SchemaError("a structured array must be one-dimensional: its fields are the columns")
        return {name: data[name] for name in data.dtype.names}
    kind = type(data)
    if isinstance(data, pd.Series | pd.Index):
        raise SchemaError(_ONE_COLUMN)
    for protocol, (form, read) in _PROTOCOLS.items():
        if hasattr(kind, protocol):
            return _exported(data, form, read)
    _refuse_names(data)
    return as_array(data)


def as_arrow(data: Any) -> Any:
    """Return a table with column names as an Arrow table, with no views of texts and bytes.

    Raises
    ------
    SchemaError
        When `data` has no column names, or a column cannot be read. Names columns and types only.
    """
    table = as_table(data)
    if isinstance(table, np.ndarray):
        raise SchemaError(
            "the rows have no column names: give a DataFrame, an Arrow table or a mapping of columns"
        )
    if isinstance(table, pd.DataFrame):
        names = [str(name) for name in table.columns]
        columns = [_of_pandas(table.iloc[:, place], name) for place, name in enumerate(names)]
    elif isinstance(table, pa.Table):
        names, columns = table.column_names, [without_views(column) for column in table.columns]
    else:
        names, columns = list(table), [_of_pandas(column, name) for name, column in table.items()]
    return pa.table(columns, names=names)


def column_names(table: Any) -> list[Any]:
    """Return the names of what `as_table` returned; an array has none."""
    if isinstance(table, np.ndarray):
        return []
    if isinstance(table, pa.Table):
        return list(table.schema.names)
    return list(table.columns if isinstance(table, pd.DataFrame) else table)


def n_rows(table: Any) -> int:
    """Return the number of rows of what `as_table` returned."""
    if isinstance(table, dict):
        return len(next(iter(table.values()), ()))
    return len(table)


def column_of(table: Any, name: str) -> Any:
    """Return one column of a table with names as a numpy array, or an Arrow array of a plain type."""
    return as_column(table.column(name) if isinstance(table, pa.Table) else table[name], name)


def take_rows(table: Any, rows: Ints, names: Sequence[str]) -> Any:
    """Return some rows of the columns `names` of a table; all columns of an array."""
    if isinstance(table, np.ndarray):
        return table[rows]
    if isinstance(table, pd.DataFrame):
        return table[list(names)].iloc[rows]
    taken = {name: column_of(table, name).take(rows) for name in names}
    return pa.table(taken) if isinstance(table, pa.Table) else taken


def slice_rows(table: Any, first: int, stop: int) -> Any:
    """Return the rows from `first` up to `stop` of what `as_table` returned."""
    if isinstance(table, dict):
        return {name: column_of(table, name)[first:stop] for name in table}
    return table[first:stop]


def listed(names: Sequence[Any]) -> str:
    """Return the names for a message, of a bounded number and length."""
    shown = [_short(repr(name)) for name in names[:_NAMES_MAX]]
    more = [f"and {len(names) - _NAMES_MAX} more"] if len(names) > _NAMES_MAX else []
    return ", ".join(shown + more)


def _short(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH_MAX else name[:_NAME_LENGTH_MAX] + "..."


def _of_mapping(data: Mapping[Any, Any]) -> Columns:
    for name in data:
        if not isinstance(name, str) or not hasattr(type(data[name]), "__len__"):
            raise SchemaError("a mapping must have names of columns as keys, and columns as values")
    if len({len(column) for column in data.values()}) > 1:
        raise SchemaError("the columns of X have different lengths")
    return dict(data)


def _exported(data: Any, form: str, read: Callable[[Any], Any]) -> Any:
    try:
        return read(data)
    except SchemaError:
        raise
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError, RuntimeError):
        raise SchemaError(_unreadable(data, form)) from None


def _of_stream(data: Any) -> Any:
    _refuse_objects(data)
    return pa.table(data)


def _of_batch(data: Any) -> Any:
    return pa.Table.from_batches([pa.record_batch(data)])


def _of_protocol(data: Any) -> Any:
    from pyarrow.interchange import from_dataframe

    return from_dataframe(data)


_PROTOCOLS = {
    "__arrow_c_stream__": ("Arrow", _of_stream),
    "__arrow_c_array__": ("Arrow", _of_batch),
    "__dataframe__": ("the dataframe protocol", _of_protocol),
}


def _unreadable(data: Any, form: str) -> str:
    kind = _short(f"{type(data).__module__}.{type(data).__qualname__}")
    return f"X is a {kind} that {form} cannot read as a table: give a DataFrame, or an Arrow table"


def _refuse_objects(data: Any) -> None:
    """Refuse columns of Python objects in polars, which exports where they are in memory instead of what they are."""
    if type(data).__module__.partition(".")[0] != "polars" or not hasattr(type(data), "schema"):
        return
    objects = [name for name, kind in data.schema.items() if str(kind) == "Object"]
    if objects:
        raise SchemaError(f"column {objects[0]!r} has type Object of polars, which cannot be read")


_NAMES_OF_ROWS = ("_fields", "__fields__", "keys")  # named tuples; rows of Spark; rows of databases


def _refuse_names(data: Any) -> None:
    """Refuse what has column names and no form that is read here: by position other columns would be read."""
    kind = type(data)
    if hasattr(kind, "collect_schema"):  # a lazy frame of polars
        raise SchemaError("a lazy table has no rows yet: collect it first, with collect()")
    if any(hasattr(kind, attribute) for attribute in ("columns", "column_names", "schema")):
        raise SchemaError(
            _unreadable(data, "this library")
            + ". Methods such as compute(), to_pandas(), to_table() or to_arrow() return one"
        )
    if isinstance(data, Sequence) and any(
        issubclass(row, Mapping | pd.Series) or any(hasattr(row, name) for name in _NAMES_OF_ROWS)
        for row in set(map(type, data))
    ):
        raise SchemaError(
            "the rows of a list have names: give a DataFrame, an Arrow table or a mapping of columns"
        )


def _of_pandas(column: Any, name: str) -> Any:
    """Return a column as an Arrow array of the type that Arrow finds in its values."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return without_views(column)
    try:
        return without_views(pa.array(column, from_pandas=True))
    except (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError):
        raise SchemaError(
            f"column {_short(name)!r} has values that are not of one type: give it one before"
        ) from None
