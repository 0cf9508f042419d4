"""A part on disk, and requests to train on it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ptklib.state import ReleasedState
from ptkstore.adapters.keys import AesGcmSealer
from ptkstore.adapters.objects import FsspecRawZone, FsspecStaging
from ptkstore.adapters.sandbox.parent import ChildRuns, Program
from ptkstore.adapters.sandbox.processes.process import Ended
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.versions import Draft, table_of
from ptkstore.ports.row_processes import OpenedRows, Request, TrainRequest

WINDOW = WindowId("taxi", 0)
WHOLE = 2**64
# A program of a run: it forks, tells both pids and waits.
FORKS_AND_WAITS = """
import signal
pid = os.fork()
if pid:
    os.write(fd, b"%d %d" % (os.getpid(), pid))
signal.pause()
"""
SPEC: dict[str, Any] = {
    "family": "HistoricalStatistics",
    "params": {
        "keys": ["zone"],
        "values": ["speed"],
        "domains": {"zone": ["a", "b"]},
        "bounds": {"speed": [0.0, 60.0]},
        "epsilon": 1.0,
        "delta": 0,
    },
}


@dataclass(frozen=True, slots=True)
class Answering(Program):
    """A program that starts no process."""

    line: bytes = b""

    def run(self, request: Request, keep_alive: Callable[[], None]) -> Ended:
        return Ended(self.line, 0, timed_out=False)


@dataclass(frozen=True)
class World:
    root: Path
    raw: FsspecRawZone
    staging: FsspecStaging
    window_key: bytes
    draft_key: bytes
    window: WindowId = WINDOW

    def runs(self, **options: Any) -> ChildRuns:
        return ChildRuns(self.program(**options), staging=self.staging)

    def runs_that_answer(self, line: bytes) -> ChildRuns:
        """Runs in no process, whose child answers with this line."""
        return ChildRuns(Answering(self.raw.url, self.staging.url, line=line), staging=self.staging)

    def program(self, **options: Any) -> Program:
        return Program(self.raw.url, self.staging.url, **options)

    def write(self, rows: pa.Table) -> None:
        self.raw.write_part(WINDOW, 2, rows, self.window_key)

    def elsewhere(self) -> FsspecStaging:
        """An empty staging area."""
        return FsspecStaging(str(self.root / "elsewhere"), AesGcmSealer())

    def rows(self, **changes: Any) -> OpenedRows:
        """All rows of the part."""
        rows = OpenedRows((self.raw.part_url(WINDOW, 2),), 0, WHOLE, self.window_key)
        return replace(rows, **changes)

    def request(self, **changes: Any) -> TrainRequest:
        request = TrainRequest(
            estimator=SPEC,
            epsilon=10.0,
            delta=0.0,
            rows=(self.rows(),),
            draft_id=f"taxi.0.{secrets.token_hex(8)}",
            draft_key=self.draft_key,
            previous_state=None,
        )
        return replace(request, **changes)


def new_world(root: Path) -> World:
    sealer = AesGcmSealer()
    return World(
        root,
        FsspecRawZone(str(root / "raw"), sealer),
        FsspecStaging(str(root / "staging"), sealer),
        secrets.token_bytes(32),
        secrets.token_bytes(32),
    )


def some_rows(n: int = 4_000) -> pa.Table:
    """Half of each zone; hashes evenly over their range, zone a in the lower half; a column nobody needs."""
    half = n // 2
    return pa.table(
        {
            "zone": ["a"] * half + ["b"] * half,
            "speed": [10.0] * half + [50.0] * half,
            "driver": ["canary-driver"] * n,
            "ptk_hash": pa.array(
                np.linspace(0, 2**64 - 1, n, dtype=np.float64).clip(0, 2**64 - 2048).astype(np.uint64)
            ),
        }
    )


def nothing() -> None:
    pass


def state_of(world: World, draft: Draft) -> ReleasedState:
    files = world.staging.read(draft.draft_id, [file.name for file in draft.files], world.draft_key)
    return ReleasedState.from_parts({table_of(name): data for name, data in files.items()}, draft.state)


def counts(state: ReleasedState) -> dict[str, float]:
    table = state.tables["statistics"]
    return dict(zip(table["zone"].to_pylist(), table["count"].to_pylist(), strict=True))


def near(value: float) -> Any:
    """Noise of scale 4 at most stays within 100 but once in 10**10 runs."""
    return pytest.approx(value, abs=100)
