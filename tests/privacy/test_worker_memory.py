"""What a worker that lives for weeks still holds in its memory of a window that has expired: no row."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.sdk import Store
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from tests.faults.scenario import DAY, ORIGIN
from tests.privacy.canary import FRACTION, TEXT, WHOLE, find
from tests.support.local import local

pytestmark = [pytest.mark.real, pytest.mark.long]

STREAM = "birds"
ROWS = 5_000
FIRST = WindowId(STREAM, 0)
CHUNK = 1 << 20
OVERLAP = 256

# Works on jobs as a process of Celery's pool does; told to, it reads the rows itself, as no worker should.
WORKER = """
import sys
from pathlib import Path
from ptkstore.domain.streams.windows import WindowId
from ptkstore.settings import Settings
from ptkstore.wiring import Service
service = Service(Settings(home=Path(sys.argv[1]), online_store="sqlite", publish_tick_seconds=0.05))
kept = []
print("ready", flush=True)
for line in sys.stdin:
    what, one = line.split()
    if what == "work":
        done = service.work_on(one)
    else:
        window = WindowId(sys.argv[2], 0)
        with service.begin() as uow:
            tokens = uow.streams.tokens_for(window)
        kept += service.raw.read_batches(window, tokens, service.keys.sealing_key(window))
        done = bool(kept)
    print(done, flush=True)
"""


@dataclass(frozen=True)
class Worker:
    process: subprocess.Popen[str]

    def does(self, what: str) -> None:
        """Have one thing done by it, and come back when it is idle again."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "True\n", what

    def memory(self) -> Iterator[bytes]:
        """All that it may ever have written to, in pieces that overlap."""
        inside = Path(f"/proc/{self.process.pid}")
        with (inside / "mem").open("rb", buffering=0) as memory:
            for line in (inside / "maps").read_text().splitlines():
                mapped = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
                if mapped is None:
                    continue
                start, end = (int(bound, 16) for bound in mapped.groups())
                for place in range(start, end, CHUNK):
                    with suppress(OSError):  # the kernel's own pages
                        memory.seek(place)
                        yield memory.read(min(CHUNK + OVERLAP, end - place))

    def holds(self) -> set[str]:
        """The canaries in its memory."""
        return set().union(*(find(piece, depth=0) for piece in self.memory() if piece.strip(b"\0")))


@contextmanager
def worker(home: Path) -> Iterator[Worker]:
    arguments = [sys.executable, "-c", WORKER, str(home), STREAM]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=home.parent
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield Worker(process)
        process.communicate()


def rows() -> pa.Table:
    return pa.table(
        {
            "at": pa.array([ORIGIN] * ROWS, pa.timestamp("us", tz="UTC")),
            "note": [TEXT] * ROWS,
            "weight": [FRACTION] * ROWS,
            "ring": pa.array([WHOLE] * ROWS, pa.int64()),
        }
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with a window of canaries that has closed; whoever works on it must be told to."""
    settings = Settings(home=tmp_path / "home", online_store="sqlite", publish_tick_seconds=0.05)
    with Store(Service(settings)) as made:
        made.create_stream(
            STREAM,
            team=STREAM,
            schema={"at": "timestamp", "note": "string", "weight": "float64", "ring": "int64"},
            time_column="at",
            epsilon=1.0,
            origin=ORIGIN,
            closing="operator",
        )
        made.ingest(STREAM, rows(), "canaries")
        made.close_windows(STREAM, ORIGIN + DAY)
        yield made


def state(store: Store) -> WindowState:
    with local(store).begin() as uow:
        return uow.windows.get(FIRST).state


def test_a_worker_that_prepared_and_expired_a_window_holds_none_of_its_rows(store: Store):
    with worker(local(store).settings.root) as one:
        one.does(f"work prepare/{FIRST}")
        assert state(store) is WindowState.PREPARED
        key = local(store).keys.sealing_key(FIRST)
        parts = (local(store).raw.part_url(FIRST, part) for part in range(3))
        assert sum(local(store).raw.read_part(part, key).num_rows for part in parts) == ROWS
        assert one.holds() == set()
        local(store).close_windows(STREAM, ORIGIN + 3 * DAY, expire_unfinished=True)
        one.does(f"work expire/{FIRST}")
        assert state(store) is WindowState.EXPIRED
        assert one.holds() == set()


def test_rows_that_a_worker_read_itself_are_found_in_its_memory_after_expiry(store: Store):
    with worker(local(store).settings.root) as one:
        one.does(f"work prepare/{FIRST}")
        one.does("read rows")
        local(store).close_windows(STREAM, ORIGIN + 3 * DAY, expire_unfinished=True)
        one.does(f"work expire/{FIRST}")
        assert state(store) is WindowState.EXPIRED
        assert one.holds() == {
            f"{TEXT} as utf-8",
            f"{WHOLE} as <q",
            f"{FRACTION} as <d",
        }
