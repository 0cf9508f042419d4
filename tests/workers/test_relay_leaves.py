"""The relay as a process: told to stop, it lets calls end, gives the rest back and leaves without a fault."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Self

import pytest

from ptkstore.adapters.processes import RedisServer
from ptkstore.adapters.webhooks.courier import PER_HOST
from ptkstore.application.operations.liveness import ProcessRole, read_liveness
from ptkstore.cli.service.machine import environment
from ptkstore.domain.jobs import Job, JobKind, JobState
from ptkstore.wiring import Service
from tests.faults.machine import ROOT
from tests.support.full_disk import FULL_DISK
from tests.support.raw_endpoints import EMPTY_200, raw
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.support.world import World
from workers.app import make_app
from workers.broker import Broker

pytestmark = [pytest.mark.real, pytest.mark.long]

PTK = "taxi.speed"
WAITING = 8  # messages beyond those that a host is sent at once
PATIENT = "from workers import relay; relay.DRAIN_SECONDS = 200.0; relay.main()"
WITHOUT_LIMITS = """
from workers import relay
limited = relay.make_app
def make_app(url):
    app = limited(url)
    app.conf.broker_transport_options = {"socket_timeout": None, "socket_connect_timeout": None}
    return app
relay.make_app = make_app
relay.main()
"""


def relays_alive(service: Service) -> int:
    return read_liveness(begin=service.read, clock=service.clock)[ProcessRole.RELAY].alive


@pytest.fixture
def bare_world(tmp_path: Path) -> Iterator[World]:
    """A store that has published once, without its Redis."""
    made = World(tmp_path / "home", lease_seconds=3_600.0)  # nothing comes back because a lease ends
    made.stream()
    made.register()
    made.publish(0)
    yield made
    made.service.close()


@pytest.fixture
def world(bare_world: World) -> Iterator[World]:
    with RedisServer(bare_world.service.settings.root):
        yield bare_world


@contextmanager
def relay(
    world: World, *command: str, log: str = os.devnull, **settings: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A relay process; killed at the end of the block if it is not gone by then."""
    env = {**environment(world.service.settings), "PYTHONPATH": str(ROOT), **settings}
    with open(log, "wb") as output:
        process = subprocess.Popen([sys.executable, *command], env=env, stdout=output, stderr=output)
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


class SilentBroker:
    """Takes connections and commands and answers none; as a context manager it is there until the block ends."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.asked = threading.Event()
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listener, *self._connections):
            one.close()

    def _serve(self) -> None:
        with suppress(OSError):  # the block has ended
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                if connection.recv(65_536):
                    self.asked.set()


def test_a_relay_leaves_a_broker_behind_that_never_answers(world: World) -> None:
    with (
        SilentBroker() as broker,
        relay(world, "-c", WITHOUT_LIMITS, PTK_REDIS_URL=broker.url) as process,
    ):
        assert broker.asked.wait(PATIENCE_SECONDS)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0


def test_a_relay_hints_what_is_due_until_it_is_told_to_stop(world: World) -> None:
    world.ingest((1.5,))
    world.close(2)
    assert world.service.due(1, deliveries=False)
    broker = Broker(make_app(world.service.broker_url))
    with relay(world, "-m", "workers.relay") as process:
        until(broker.waiting, "a hint")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize("log", [os.devnull, FULL_DISK])
def test_a_relay_whose_broker_is_away_delivers_lives_and_hints_once_it_is_back(
    bare_world: World, log: str
) -> None:
    world = bare_world
    service, home = world.service, world.service.settings.root
    with raw(lambda connection: connection.sendall(EMPTY_200)) as server:
        name = service.subscribe_to_ptk(PTK, f"{server.url}/heard")[0].id
        with relay(world, "-m", "workers.relay", log=log) as process:
            for outage in (1, 2):
                world.publish(2 * outage)
                published = service.versions(PTK)[-1].number
                until(lambda n=published: world.cursor(JobKind.NOTIFY, name).position == n, "the webhook")
                until(lambda: relays_alive(service) == 1, "a sign of life")
                world.ingest((2 * outage + 1.5,))
                world.close(2 * outage + 2)
                assert service.due(1, deliveries=False)
                with RedisServer(home) as redis:
                    until(Broker(make_app(redis.celery_url)).waiting, "a hint")
                rmtree(home / "redis")  # the next hint is a new one
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0


UNFORESEEN = """
import sys
from workers import relay
def breaks(*_):
    raise TypeError
relay.Relay.pass_once = breaks
sys.exit(relay.main())
"""


def test_what_nobody_foresaw_ends_the_relay_for_its_supervisor_to_begin_anew(world: World) -> None:
    with relay(world, "-c", UNFORESEEN) as process:
        assert process.wait(PATIENCE_SECONDS) == 1
