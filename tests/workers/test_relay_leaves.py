"""The relay as a process: told to stop, it lets calls end, gives the rest back and leaves without a fault."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ptkstore.adapters.processes import RedisServer
from ptkstore.adapters.webhooks.courier import PER_HOST
from ptkstore.cli.machine import environment
from ptkstore.domain.jobs import Job, JobKind, JobState
from tests.faults.machine import ROOT
from tests.ptkstore.adapters.webhooks.test_messenger import EMPTY_200, raw
from tests.ptkstore.application.world import World
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.real

PTK = "taxi.speed"
WAITING = 8  # messages beyond those that a host is sent at once
PATIENT = "from workers import relay; relay.DRAIN_SECONDS = 200.0; relay.main()"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home", lease_seconds=3_600.0)  # nothing comes back because a lease ends
    made.stream()
    made.register()
    made.publish(0)
    with RedisServer(made.service.settings.root):
        yield made
        made.service.close()


@contextmanager
def relay(world: World, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A relay process; killed at the end of the block if it is not gone by then."""
    env = {**environment(world.service.settings), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, *command], env=env, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_relay_that_is_told_to_stop_loses_no_time_for_the_next(world: World) -> None:
    let_go = threading.Event()

    def answers(connection: socket.socket) -> None:
        let_go.wait(PATIENCE_SECONDS)
        connection.sendall(EMPTY_200)

    with raw(answers) as server:
        count = PER_HOST + WAITING
        names = [world.service.subscribe_to_ptk(PTK, f"{server.url}/{n}")[0].id for n in range(count)]
        world.publish(1)

        def jobs() -> list[Job]:
            return [world.cursor(JobKind.NOTIFY, name) for name in names]

        with relay(world, "-c", PATIENT) as first:
            until(lambda: len(server.requests) == PER_HOST, "the first calls")
            first.send_signal(signal.SIGTERM)
            until(
                lambda: sum(job.lease_until is None for job in jobs()) == WAITING, "the rest to be given back"
            )
            let_go.set()
            assert first.wait(PATIENCE_SECONDS) == 0
        assert {(job.lease_until, job.attempt) for job in jobs()} == {(None, 0)}
        assert Counter((job.position, job.state) for job in jobs()) == {
            (2, JobState.IDLE): PER_HOST,
            (1, JobState.READY): WAITING,
        }
        assert len(server.requests) == PER_HOST
        with relay(world, "-m", "workers.relay") as second:
            until(lambda: all(job.position == 2 for job in jobs()), "the next relay")
            second.send_signal(signal.SIGTERM)
            assert second.wait(PATIENCE_SECONDS) == 0
        called = Counter(request.split(b" ", 2)[1] for request in server.requests)
        assert set(called.values()) == {1}
        assert len(called) == count
