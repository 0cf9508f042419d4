"""The parent's look at a draft before anyone else hears of it."""

from __future__ import annotations

import hashlib

from ptklib.exceptions import PtklibError
from ptklib.spec import estimator_from_spec
from ptklib.state import ReleasedState
from ptkstore.domain.ptks import granted
from ptkstore.domain.snapshots import Draft, table_file_name
from ptkstore.errors import CorruptObject, InvalidRequest
from ptkstore.ports.objects import Staging
from ptkstore.ports.training import TrainRequest

_SUFFIX = ".parquet"


def is_sound(draft: Draft, request: TrainRequest, staging: Staging) -> bool:
    """Whether staging holds, byte for byte, a state of the requested estimator within the granted loss."""
    if draft.draft_id != request.draft_id:
        return False
    try:
        files = staging.read(draft.draft_id, [file.name for file in draft.files], request.draft_key)
        tables = {}
        for file in draft.files:
            content = files[file.name]
            table = file.name.removesuffix(f"-{file.sha256}{_SUFFIX}")
            if table in tables or file.name != table_file_name(table, file.sha256):
                return False
            if len(content) != file.size or hashlib.sha256(content).hexdigest() != file.sha256:
                return False
            tables[table] = content
        state = ReleasedState.from_parts(tables, draft.state)
        estimator_from_spec(granted(request.estimator, request.epsilon, request.delta)).check_previous_state(
            state
        )
    except (PtklibError, InvalidRequest, CorruptObject):
        return False
    return state.loss.epsilon <= request.epsilon and state.loss.delta <= request.delta
