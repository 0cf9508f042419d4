"""What the child does for team code: it opens the rows, hands them into the sandbox and looks at what comes out.

Keys, and the way to the raw zone and to staging, stay on this side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from ptklib.state import ReleasedState
from ptkstore.adapters.sandbox.confinement.bubblewrap import Bubblewrap
from ptkstore.adapters.sandbox.confinement.confined import run_confined
from ptkstore.adapters.sandbox.messages.codes import TEAM_CODE_FAILED
from ptkstore.adapters.sandbox.messages.team_code import NotAsDeclared, Parts, state_from
from ptkstore.adapters.sandbox.processes.process import Limits
from ptkstore.errors import NoSandbox
from ptkstore.ports.row_processes import RunFailed

_KEPT = ("loss", "n_releases", "noise_std", "noise_variance", "defaults")


def train_team_code(
    estimator: Mapping[str, Any],
    bundle: bytes,
    rows: pa.Table,
    previous: ReleasedState | None,
    bubblewrap: Bubblewrap,
    limits: Limits,
) -> ReleasedState | RunFailed:
    """Train once in the sandbox; nothing of what the code prints, raises or takes is told.

    Parameters
    ----------
    estimator, bundle, rows, previous
        The code's description, the code, the granted rows, and the state to go on from.
    bubblewrap, limits
        The sandbox.
    """
    header = {
        "do": "train",
        "estimator": dict(estimator),
        "previous": None if previous is None else {name: previous.meta[name] for name in _KEPT},
    }
    parts: Parts = [("bundle", bundle), ("rows", stream_of(rows)), *_previous(previous)]
    try:
        ended = run_confined(bubblewrap, header, parts, limits)
    except NoSandbox as error:
        return RunFailed(error.code)
    if ended.failure is not None:
        return RunFailed(ended.failure)
    releases = 1 if previous is None else 1 + int(previous.meta["n_releases"])
    try:
        return state_from(ended.answer, estimator, releases)
    except NotAsDeclared:
        return RunFailed(TEAM_CODE_FAILED)


def _previous(previous: ReleasedState | None) -> Iterator[tuple[str, memoryview]]:
    for name, table in ({} if previous is None else previous.tables).items():
        yield f"previous/{name}", stream_of(table)


def stream_of(table: pa.Table) -> memoryview:
    """Write a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())
