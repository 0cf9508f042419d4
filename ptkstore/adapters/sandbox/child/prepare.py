"""The child's work on a closed window: batches in, units bounded, one file per part and group out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ptklib.arrays import Ints
from ptkstore.application.ingest.event_tables import empty_table, filled
from ptkstore.application.windows.privacy_units import kept_rows, units_of
from ptkstore.domain.streams.schemas import HASH, ROW_ID
from ptkstore.ports.objects import RawZone
from ptkstore.ports.row_processes import PrepareRequest

SplitHash: TypeAlias = Callable[[bytes, npt.NDArray[np.void]], npt.NDArray[np.uint64]]
_ID = pa.binary(16)
_WIDE = {pa.string(): pa.large_string()}
_AT_ONCE = 1 << 16


def prepare(request: PrepareRequest, raw: RawZone, split_hash: SplitHash) -> None:
    """Write one file per part and group; a privacy unit is in one, by its keyed hash (differences.md P7).

    A repeated or concurrent run keeps the same rows of each unit and puts them into the same files.
    """
    batches = raw.read_batches(request.window, request.tokens, request.window_key, frozenset(request.noted))
    pieces = [filled(batch, request.schema) for batch in batches]  # some are older than the newest columns
    rows = pa.concat_tables(pieces) if pieces else _no_rows(request)
    kept, groups = np.arange(rows.num_rows), _groups(rows, request)
    hashes = split_hash(request.split_key, _ids(rows))
    if request.unit_column is not None:
        codes, units = units_of(rows[request.unit_column])
        several = groups if request.attribute is not None else None
        kept = kept_rows(codes, hashes, request.max_rows_per_unit, several)
        groups = groups[kept]
        hashes = split_hash(request.split_key, units)[codes[kept]]
    # All bounds but the last, which is 2**64 and needs no comparison.
    parts = np.searchsorted(np.array(request.part_bounds[:-1], dtype=np.uint64), hashes, side="right")
    n_groups = max(1, len(request.attribute_values))
    n_files, files = len(request.part_bounds) * n_groups, parts * n_groups + groups
    order = np.lexsort((hashes, files))  # by hash within a file: a range of hashes is read without the others
    edges = np.cumsum(np.bincount(files, minlength=n_files)).tolist()
    ordered = _Ordered(rows.drop_columns([ROW_ID]), kept[order])
    for file, (start, stop) in enumerate(pairwise((0, *edges))):
        hashed = pa.array(hashes[order[start:stop]], type=pa.uint64())
        table = ordered.between(start, stop).append_column(HASH, hashed)
        raw.write_part(request.window, file, table, request.window_key)


class _Ordered:
    """Rows in another order, of which a piece at a time is made."""

    def __init__(self, rows: pa.Table, order: Ints) -> None:
        self._schema, self._order = rows.schema, order
        wide = [pa.field(f.name, _WIDE.get(f.type, f.type), f.nullable) for f in rows.schema]
        self._rows = rows.cast(pa.schema(wide)).combine_chunks()  # the offsets of text columns end at 2 GiB

    def between(self, start: int, stop: int) -> pa.Table:
        """Return the rows from place `start` up to `stop`."""
        pieces = [self._schema.empty_table()]
        for first in range(start, stop, _AT_ONCE):
            places = pa.array(self._order[first : min(stop, first + _AT_ONCE)])
            pieces.append(self._rows.take(places).cast(self._schema))
        return pa.concat_tables(pieces)


def _groups(rows: pa.Table, request: PrepareRequest) -> Ints:
    """Return the place of each row's value in the attribute's domain, outside of which no row was accepted."""
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
