"""Two schedules beside each other: one killed with -9 is missed by nobody, and no window is closed twice."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ptklib import CountFeaturizer
from ptkstore.application.operations.liveness import ProcessRole
from ptkstore.cli.service.machine import environment
from ptkstore.domain.jobs import JobKind
from ptkstore.sdk import Store
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from tests.support.local import local

pytestmark = [pytest.mark.real, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
STREAM = "clocked"
WINDOW = timedelta(seconds=2)
PATIENCE_SECONDS = 150.0


@contextmanager
def schedule(settings: Settings, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    env = {**environment(settings), "PYTHONPATH": str(ROOT)}
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "workers.schedule"], env=env, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("vendor", ["sqlite", "postgresql"])
def test_a_schedule_that_dies_is_missed_by_nobody(
    vendor: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = None if vendor == "sqlite" else request.getfixturevalue("fresh_postgres_url")
    settings = Settings(home=tmp_path / "home", database_url=url)
    log = tmp_path / "log"
    with ExitStack() as stack:
        store = stack.enter_context(closing(Store(Service(settings))))
        store.create_stream(
            STREAM,
            team="rides",
            schema={"at": "timestamp", "hour": "int64", "long": "bool"},
            time_column="at",
            epsilon=1.0,
            window="2s",
            origin=datetime.now(UTC).replace(microsecond=0) - WINDOW,
            retention=10_000,
        )
        counts = CountFeaturizer(
            ["hour"], "long", classes=[False, True], domains={"hour": [0, 1]}, epsilon=0.1
        )
        # it wants each window prepared
        store.register_ptk(counts, name="counts", stream=STREAM, target=1.0, train_frequency="2s")

        def closed() -> list[int]:
            with local(store).begin() as uow:
                return [window.id.index for window in uow.windows.of(STREAM)]

        def wait_for(condition: Callable[[], bool], what: str) -> None:
            until = time.monotonic() + PATIENCE_SECONDS
            while not condition():
                assert time.monotonic() < until, (what, closed(), log.read_text()[-2000:])
                time.sleep(0.1)

        def more_windows(what: str) -> None:
            before = len(closed())
            wait_for(lambda: len(closed()) >= before + 2, what)

        begun = datetime.now(UTC)

        def started() -> int:
            with local(store).begin() as uow:
                return uow.operations.last_seen(begun).get(ProcessRole.SCHEDULE, (0, begun))[0]

        first, second = (stack.enter_context(schedule(settings, log)) for _ in range(2))
        wait_for(lambda: started() == 2, "both to live")
        more_windows("both to close windows")
        first.send_signal(signal.SIGKILL)
        more_windows("the second to go on alone")
        third = stack.enter_context(schedule(settings, log))
        wait_for(lambda: started() == 3, "the third to live")
        second.send_signal(signal.SIGKILL)
        more_windows("the third to go on alone")
        third.send_signal(signal.SIGTERM)
        assert third.wait(PATIENCE_SECONDS) == 0
        windows = closed()
        assert windows == list(range(len(windows)))
        with local(store).begin() as uow:
            jobs = [job for job in uow.jobs.find(stream=STREAM) if job.kind is JobKind.PREPARE]
        prepared = sorted(job.window.index for job in jobs)
        assert prepared == windows[-len(prepared) :]
        assert prepared[0] <= 1  # the first may have ended before the PTK came
        assert {job.attempt for job in jobs} == {0}
        blocks = [block.number for block in local(store).budget(STREAM)]
        assert len(blocks) == len(set(blocks))
    assert "not closed" not in log.read_text()
