"""What the child does with a closed window: batches in, one file per part out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ptkstore.application.tables import empty_table
from ptkstore.domain.columns import HASH, ROW_ID
from ptkstore.ports.objects import RawZone
from ptkstore.ports.training import PrepareRequest

SplitHash: TypeAlias = Callable[[bytes, npt.NDArray[np.void]], npt.NDArray[np.uint64]]
_ID = pa.binary(16)


def prepare(request: PrepareRequest, raw: RawZone, split_hash: SplitHash) -> None:
    """Write one file per part; each row lies in exactly one, decided by its own id and the stream's key (PAPERS P7).

    A repeated or concurrent run puts the same rows into the same parts.
    """
    pieces = list(raw.read_batches(request.window, request.tokens, request.window_key))
    rows = pa.concat_tables(pieces) if pieces else _no_rows(request)
    hashes = split_hash(request.split_key, _ids(rows))
    # All bounds but the last, which is 2**64 and needs no comparison.
    parts = np.searchsorted(np.array(request.part_bounds[:-1], dtype=np.uint64), hashes, side="right")
    rows = rows.drop_columns([ROW_ID]).append_column(HASH, pa.array(hashes, type=pa.uint64()))
    for part in range(len(request.part_bounds)):
        raw.write_part(request.window, part, rows.filter(pa.array(parts == part)), request.window_key)


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
