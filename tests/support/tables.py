"""The same rows in every kind of table that has column names."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc


class ArrowStream:
    """What another library exports: a stream of record batches, and nothing else."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class ArrowArray:
    """One exported record batch, and nothing else."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._batch.__arrow_c_array__(requested_schema)


class DataFrameProtocol:
    """What only speaks the dataframe protocol, as older libraries do."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries that are going to give it up
            return self._frame.__dataframe__(nan_as_null, allow_copy)


def arrow(frame: pd.DataFrame) -> pa.Table:
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    texts = [pa.field(f.name, pa.string()) if pa.types.is_null(f.type) else f for f in table.schema]
    return table.cast(pa.schema(texts))  # of no rows pandas knows no more than that they are objects


def batch(frame: pd.DataFrame) -> pa.RecordBatch:
    table = arrow(frame).combine_chunks()
    columns = [pa.concat_arrays(c.chunks) if c.chunks else pa.array([], c.type) for c in table.columns]
    return pa.record_batch(columns, table.schema)


def with_types(frame: pd.DataFrame, **types: Any) -> pa.Table:
    """An Arrow table whose columns of a name in `types` have these types, as far as there are such columns."""
    table = arrow(frame)
    for place, name in enumerate(table.column_names):
        if name in types:
            table = table.set_column(place, name, types[name](table.column(name)))
    return table


def texts(change: Callable[[Any], Any]) -> Callable[[pd.DataFrame], pa.Table]:
    return lambda frame: with_types(frame, zone=change, answer=change, zone_2=change)


def whole(kind: pa.DataType) -> Callable[[pd.DataFrame], pa.Table]:
    return lambda frame: with_types(frame, hour=lambda c: c.cast(kind), user=lambda c: c.cast(kind))


def structured(frame: pd.DataFrame) -> Any:
    made = np.empty(len(frame), dtype=[(name, frame[name].to_numpy().dtype) for name in frame.columns])
    for name in frame.columns:
        made[name] = frame[name].to_numpy()
    return made


NAMED: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda f: f,
    "pandas with another index": lambda f: f.set_index(np.arange(len(f))[::-1]),
    "pandas' own types": lambda f: f.convert_dtypes(),
    "pandas over Arrow": lambda f: f.convert_dtypes(dtype_backend="pyarrow"),
    "pandas' objects": lambda f: f.astype(object),
    "pandas' categories": lambda f: f.assign(
        **{n: f[n].astype("category") for n in f.columns if n.startswith("zone")}
    ),
    "Arrow": arrow,
    "Arrow in chunks": lambda f: pa.concat_tables([arrow(f[:1]), arrow(f[1:4]), arrow(f[4:])]),
    "Arrow in a slice": lambda f: pa.concat_tables([arrow(f), arrow(f)]).combine_chunks().slice(len(f)),
    "a record batch": batch,
    "large texts": texts(lambda c: c.cast(pa.large_string())),
    "views of texts": texts(lambda c: c.cast(pa.string_view())),
    "dictionaries": texts(lambda c: c.dictionary_encode()),
    "dictionaries of numbers": lambda f: with_types(f, hour=lambda c: c.dictionary_encode()),
    "runs": texts(lambda c: pc.run_end_encode(c.combine_chunks())),
    "short integers": whole(pa.uint8()),
    "unsigned integers": whole(pa.uint64()),
    "whole floats": whole(pa.float64()),
    "short floats": whole(pa.float16()),
    "whole decimals": whole(pa.decimal128(19, 0)),
    "polars": pl.from_pandas,
    "polars in chunks": lambda f: pl.concat([pl.from_pandas(f[:3]), pl.from_pandas(f[3:])], rechunk=False),
    "polars' categories": lambda f: pl.from_pandas(f).with_columns(pl.col(pl.String).cast(pl.Categorical)),
    "polars' short integers": lambda f: pl.from_pandas(f).with_columns(pl.col(pl.Int64).cast(pl.UInt8)),
    "an exported stream": lambda f: ArrowStream(arrow(f)),
    "an exported stream of polars": lambda f: ArrowStream(pl.from_pandas(f)),
    "an exported batch": lambda f: ArrowArray(batch(f)),
    "the dataframe protocol": DataFrameProtocol,
    "the dataframe protocol of polars": lambda f: DataFrameProtocol(pl.from_pandas(f)),
    "a mapping of arrays": lambda f: {name: f[name].to_numpy() for name in f.columns},
    "a mapping of lists": lambda f: {name: f[name].tolist() for name in f.columns},
    "a mapping of polars' series": lambda f: pl.from_pandas(f).to_dict(),
    "a structured array": structured,
    "a record array": lambda f: f.to_records(index=False),
}
"""Kinds of tables with column names: what makes one of a pandas frame of int64, float64, bool and text."""

ONE_COLUMN: dict[str, Callable[[Sequence[Any]], Any]] = {
    "a list": list,
    "an array": np.asarray,
    "objects": lambda v: np.array(v, dtype=object),
    "pandas": pd.Series,
    "polars": lambda v: pl.Series("y", v),
    "polars' frame": lambda v: pl.DataFrame({"y": v}),
    "Arrow": lambda v: pa.array(v),
    "Arrow in chunks": lambda v: pa.chunked_array([pa.array(v[:2]), pa.array(v[2:])]),
    "an Arrow table": lambda v: pa.table({"y": v}),
    "an exported array": lambda v: ArrowArray(pa.array(v)),
    "an exported stream": lambda v: ArrowStream(pl.Series("y", v)),
    "a frame": lambda v: pd.DataFrame({"y": v}),
}
"""Kinds of single columns, as `y` may be one."""
