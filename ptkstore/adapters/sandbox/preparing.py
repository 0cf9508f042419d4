"""What the child does with a closed window: batches in, units bounded, one file per part and group out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ptkstore.application.tables import empty_table
from ptkstore.application.units import kept_rows, units_of
from ptkstore.domain.columns import HASH, ROW_ID
from ptkstore.ports.objects import RawZone
from ptkstore.ports.training import PrepareRequest

SplitHash: TypeAlias = Callable[[bytes, npt.NDArray[np.void]], npt.NDArray[np.uint64]]
_ID = pa.binary(16)


def prepare(request: PrepareRequest, raw: RawZone, split_hash: SplitHash) -> None:
    """Write one file per part and group; a privacy unit lies in exactly one, by its keyed hash and its own rows (P7).

    A repeated or concurrent run keeps the same rows of each unit and puts them into the same files.
    """
    pieces = list(raw.read_batches(request.window, request.tokens, request.window_key))
    rows = pa.concat_tables(pieces) if pieces else _no_rows(request)
    groups = _groups(rows, request)
    hashes = split_hash(request.split_key, _ids(rows))
    if request.unit_column is not None:
        codes, units = units_of(rows[request.unit_column])
        several = groups if request.attribute is not None else None
        kept = kept_rows(codes, hashes, request.max_rows_per_unit, several)
        rows, groups = rows.take(pa.array(kept)), groups[kept]
        hashes = split_hash(request.split_key, units)[codes[kept]]
    # All bounds but the last, which is 2**64 and needs no comparison.
    parts = np.searchsorted(np.array(request.part_bounds[:-1], dtype=np.uint64), hashes, side="right")
    rows = rows.drop_columns([ROW_ID]).append_column(HASH, pa.array(hashes, type=pa.uint64()))
    n_groups = max(1, len(request.attribute_values))
    files = parts * n_groups + groups
    for file in range(len(request.part_bounds) * n_groups):
        raw.write_part(request.window, file, rows.filter(pa.array(files == file)), request.window_key)


def _groups(rows: pa.Table, request: PrepareRequest) -> npt.NDArray[np.int64]:
    """The place of each row's value in the attribute's domain, outside of which no row was accepted."""
    if request.attribute is None:
        return np.zeros(rows.num_rows, dtype=np.int64)
    column = rows[request.attribute]
    domain = pa.array(request.attribute_values, type=column.type)
    return np.asarray(pc.index_in(column, value_set=domain).to_numpy(), dtype=np.int64)


def _ids(rows: pa.Table) -> npt.NDArray[np.void]:
    ids = rows[ROW_ID].combine_chunks()
    if isinstance(ids, pa.ChunkedArray):
        ids = pa.concat_arrays(ids.chunks) if ids.num_chunks else pa.array([], type=_ID)
    data = ids.buffers()[1]
    if data is None or not len(ids):
        return np.empty(0, dtype="V16")
    return np.frombuffer(data, dtype="V16")[ids.offset : ids.offset + len(ids)]


def _no_rows(request: PrepareRequest) -> pa.Table:
    return empty_table(request.schema).append_column(ROW_ID, pa.array([], type=_ID))
