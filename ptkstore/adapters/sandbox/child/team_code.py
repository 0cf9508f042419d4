"""The child's work for team code: it opens the rows, hands them into the sandbox and checks the answer.

Keys, and the way to the raw zone and to staging, stay on this side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ptklib.state import ReleasedState
from ptkstore.adapters.sandbox.confinement.confined import Confinement, run_confined
from ptkstore.adapters.sandbox.messages.codes import TEAM_CODE_FAILED
from ptkstore.adapters.sandbox.messages.team_code import (
    NotAsDeclared,
    Parts,
    longest_losses,
    losses_from,
    state_from,
)
from ptkstore.adapters.sandbox.processes.process import LONGEST_ANSWER
from ptkstore.domain.ptks.bundles import bundle_of
from ptkstore.errors import InvariantBroken, NoSandbox
from ptkstore.ports.row_processes import RunFailed

_KEPT = ("loss", "n_releases", "noise_std", "noise_variance", "defaults")


def train_team_code(
    estimator: Mapping[str, Any],
    bundle: bytes,
    rows: pa.Table,
    previous: ReleasedState | None,
    confinement: Confinement,
) -> ReleasedState | RunFailed:
    """Train once in the sandbox; the code's prints, errors and times are not reported.

    Parameters
    ----------
    estimator, bundle, rows, previous
        The code's description, the code, the granted rows, and the state to go on from.
    confinement
        The sandbox.
    """
    answer = _run("train", estimator, bundle, rows, previous, confinement)
    if isinstance(answer, RunFailed):
        return answer
    releases = 1 if previous is None else 1 + int(previous.meta["n_releases"])
    try:
        return state_from(answer, estimator, releases)
    except NotAsDeclared:
        return RunFailed(TEAM_CODE_FAILED)


def losses_by_team_code(
    estimator: Mapping[str, Any],
    bundle: bytes,
    rows: pa.Table,
    state: ReleasedState,
    confinement: Confinement,
) -> npt.NDArray[np.float64] | RunFailed:
    """Have the code say the loss of each row under a state, in a sandbox of its own that ends with the call.

    The process gets these rows and this state, and its numbers come here. A later run sees nothing of it.

    Parameters
    ----------
    estimator, bundle, rows, state
        The code's description, the code, the rows, and a state that it trained.
    confinement
        The sandbox.

    Returns
    -------
    ndarray of shape (n_rows,), float64
        As the code said them, so neither clipped nor finite. **Private.**
    """
    longest = max(LONGEST_ANSWER, longest_losses(rows.num_rows))
    answer = _run("losses", estimator, bundle, rows, state, confinement, longest)
    if isinstance(answer, RunFailed):
        return answer
    try:
        return losses_from(answer, rows.num_rows)
    except NotAsDeclared:
        return RunFailed(TEAM_CODE_FAILED)


def check_code(estimator: Mapping[str, Any], bundle: bytes | None) -> None:
    """Raise `InvariantBroken` unless code came with an estimator that is team code, and with no other."""
    if (bundle_of(estimator) is None) is not (bundle is None):
        raise InvariantBroken("team code is run with its bundle, and nothing else is")


def _run(
    act: str,
    estimator: Mapping[str, Any],
    bundle: bytes,
    rows: pa.Table,
    state: ReleasedState | None,
    confinement: Confinement,
    longest_answer: int = LONGEST_ANSWER,
) -> bytes | RunFailed:
    header = {
        "do": act,
        "estimator": dict(estimator),
        "previous": None if state is None else {name: state.meta[name] for name in _KEPT},
    }
    parts: Parts = [("bundle", bundle), ("rows", stream_of(rows)), *_tables(state)]
    try:
        ended = run_confined(
            confinement.bubblewrap, header, parts, confinement.limits_now(), longest_answer=longest_answer
        )
    except NoSandbox as error:
        return RunFailed(error.code)
    return ended.answer if ended.failure is None else RunFailed(ended.failure)


def _tables(state: ReleasedState | None) -> Iterator[tuple[str, memoryview]]:
    for name, table in ({} if state is None else state.tables).items():
        yield f"previous/{name}", stream_of(table)


def stream_of(table: pa.Table) -> memoryview:
    """Write a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())
