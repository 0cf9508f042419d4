"""A worker as processes: told to stop, it does not sit and wait for a catalog that is away."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptkstore.adapters.processes import RedisServer
from ptkstore.cli.service.machine import environment
from ptkstore.domain.jobs import JobState
from tests.faults.machine import ROOT
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.support.world import World
from workers.app import make_app
from workers.broker import Broker

pytestmark = [pytest.mark.real, pytest.mark.long]

TRAIN = "train/taxi.speed/0"
NOBODY_ELECTS = """
import sys
from pathlib import Path
from ptkstore.application.training import train_ptk
from ptkstore.errors import Unavailable
from workers import worker
tried = Path(sys.argv.pop())
def away(*_):
    with tried.open("a") as file:
        file.write(".")
    raise Unavailable("the catalog does not answer")
train_ptk._Training.keep = away
worker.main()
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A reservation that nobody has opened; its lease and its longest training outlast every test."""
    made = World(tmp_path / "home", lease_seconds=3_600.0, train_timeout_seconds=3_600.0)
    made.stream()
    made.register()
    made.ingest()
    made.close(1)
    made.work("prepare", "allocate")
    with RedisServer(made.service.settings.root):
        yield made
    made.service.close()


def test_a_worker_that_is_told_to_stop_leaves_an_election_to_others(world: World, tmp_path: Path) -> None:
    tried = tmp_path / "tried"
    settings = {"PTK_WORKER_CONCURRENCY": "1", "PTK_PUBLISH_TICK_SECONDS": "1.0"}
    env = {**environment(world.service.settings), "PYTHONPATH": str(ROOT), **settings}
    command = [sys.executable, "-c", NOBODY_ELECTS, str(tried)]
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        Broker(make_app(world.service.broker_url)).hint(TRAIN)
        until(lambda: tried.exists() and len(tried.read_text()) > 2, "an election that is tried again")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
    job = world.job(TRAIN)
    assert (job.state, job.lease_until) == (JobState.OPENED, None)
    assert len(world.drafts()) == 1
