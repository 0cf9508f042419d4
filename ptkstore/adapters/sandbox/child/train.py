"""The child's training: rows in, released state out; or rows in, partial statistics out, and from those the state."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from ptklib.partials import PartialStatistics
from ptklib.spec import estimator_from_spec
from ptklib.state import ReleasedState
from ptkstore.adapters.sandbox.child.rows import check_apart, tables_of
from ptkstore.adapters.sandbox.child.team_code import stream_of, train_team_code
from ptkstore.adapters.sandbox.confinement.confined import USUAL_CONFINEMENT, Confinement
from ptkstore.domain.ptks.ptks import granted
from ptkstore.domain.versions.versions import Draft, table_files
from ptkstore.errors import InvariantBroken, OutcomeUnknown, Unavailable
from ptkstore.ports.objects import RawZone, Staging
from ptkstore.ports.row_processes import (
    STAGING_FAILED,
    CollectRequest,
    RunFailed,
    StagedPartial,
    TrainRequest,
)

PARTIAL_FILE: Final = "partial.arrow"
_WAITS: Final = (1, 2, 4, 8, 15, 30)  # seconds, between tries to write


def train(
    request: TrainRequest,
    raw: RawZone,
    staging: Staging,
    confinement: Confinement = USUAL_CONFINEMENT,
) -> Draft | RunFailed:
    """Train on the granted rows, or on what was collected of them, and leave the state in staging.

    Parameters
    ----------
    request, raw, staging
        The order, the places of rows, and the places of the state's files under the names of the lake.
    confinement
        The sandbox of team code.
    """
    estimator = _estimator(request)
    previous = None if request.previous_state is None else ReleasedState.from_files(request.previous_state)
    estimator.check_previous_state(previous)
    if not request.rows and not request.partials:
        raise InvariantBroken("a training has rows or partials")
    check_apart(estimator, request.rows, by_window=request.bundle is None)
    if request.bundle is not None:
        rows = pa.concat_tables(tables_of(request.rows, raw, _columns(estimator)))
        released = train_team_code(estimator.to_spec(), request.bundle, rows, previous, confinement)
        return released if isinstance(released, RunFailed) else _drafted(released, request, staging)
    parts = _staged(request.partials, staging) if request.partials else _collected(estimator, request, raw)
    state = estimator.finalize(parts, previous_state=previous).to_state()
    return _drafted(state, request, staging)


def _drafted(state: ReleasedState, request: TrainRequest, staging: Staging) -> Draft | RunFailed:
    files, contents = table_files(state.to_files())
    if not _written(request, contents, staging):
        return RunFailed(STAGING_FAILED)
    return Draft(request.draft_id, files, dict(state.meta))


def collect(request: CollectRequest, raw: RawZone, staging: Staging) -> RunFailed | None:
    """Leave the exact statistics of the granted rows in staging: **private**, and encrypted there.

    They are not compressed: how long sums are depends on the estimator alone.
    """
    estimator = _estimator(request)
    check_apart(estimator, request.rows, by_window=True)
    table = estimator.merge(_collected(estimator, request, raw)).to_table()
    written = _written(request, {PARTIAL_FILE: bytes(stream_of(table))}, staging)
    return None if written else RunFailed(STAGING_FAILED)


def _written(request: TrainRequest | CollectRequest, files: Mapping[str, bytes], staging: Staging) -> bool:
    """Write to staging what was made, the very same again while that fails: its noise is drawn once."""
    for wait_seconds in (*_WAITS, None):
        try:
            staging.write(request.draft_id, files, request.draft_key)
        except (Unavailable, OutcomeUnknown):
            if wait_seconds is None:
                break
            time.sleep(wait_seconds)
        else:
            return True
    return False


def _estimator(request: TrainRequest | CollectRequest) -> Any:
    estimator = estimator_from_spec(granted(request.estimator, request.epsilon, request.delta))
    estimator.declared_loss()
    return estimator


def _collected(
    estimator: Any, request: TrainRequest | CollectRequest, raw: RawZone
) -> Iterator[PartialStatistics]:
    """Yield the statistics of one window after the other, so that the rows of a single one are in memory.

    With a `unit` the estimator bounds the rows of a user in each: a unit is a user's rows of one window.
    """
    return map(estimator.partial_statistics, tables_of(request.rows, raw, _columns(estimator)))


def _columns(estimator: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(estimator.input_columns()))


def _staged(partials: Iterable[StagedPartial], staging: Staging) -> Iterator[PartialStatistics]:
    for partial in partials:
        content = staging.read(partial.draft_id, (PARTIAL_FILE,), partial.draft_key)[PARTIAL_FILE]
        yield PartialStatistics.from_table(pa.ipc.open_stream(content).read_all())
