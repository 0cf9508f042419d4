"""What the child does: rows in, released state out."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from ptklib.spec import estimator_from_spec
from ptklib.state import ReleasedState
from ptkstore.domain.columns import HASH
from ptkstore.domain.ptks import granted
from ptkstore.domain.snapshots import Draft, StateFile, table_file_name
from ptkstore.ports.objects import RawZone, Staging
from ptkstore.ports.training import TrainRequest

_SUFFIX = ".parquet"


def train(request: TrainRequest, raw: RawZone, staging: Staging) -> Draft:
    """Open the granted rows, train, and leave the state in staging under the names of the lake."""
    estimator = estimator_from_spec(granted(request.estimator, request.epsilon, request.delta))
    estimator.declared_loss()
    previous = None if request.previous_state is None else ReleasedState.from_files(request.previous_state)
    estimator.check_previous_state(previous)
    columns = tuple(dict.fromkeys(estimator.input_columns()))
    pieces = [raw.read_part(url, request.window_key, (*columns, HASH)) for url in request.part_urls]
    rows = pa.concat_tables(pieces)
    part = estimator.partial_statistics(_granted_rows(rows, request).select(list(columns)))
    state = estimator.finalize([part], previous_state=previous).to_state()
    files = {}
    for name, content in state.to_files().items():
        if name.endswith(_SUFFIX):
            files[table_file_name(name.removesuffix(_SUFFIX), hashlib.sha256(content).hexdigest())] = content
    staging.write(request.draft_id, files, request.draft_key)
    described = tuple(
        StateFile(name, len(content), hashlib.sha256(content).hexdigest()) for name, content in files.items()
    )
    return Draft(request.draft_id, described, dict(state.meta))


def _granted_rows(rows: pa.Table, request: TrainRequest) -> pa.Table:
    if request.hash_high <= request.hash_low:
        return rows.slice(0, 0)
    hashes = rows[HASH].to_numpy()
    chosen = (hashes >= np.uint64(request.hash_low)) & (hashes <= np.uint64(request.hash_high - 1))
    return rows.filter(pa.array(chosen))
