"""Every process while its log, or the whole disk, takes nothing: it goes on, or ends and is started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from ptkstore.adapters.processes import RedisServer
from ptkstore.cli.service.machine import environment
from ptkstore.domain.jobs import JobState
from ptkstore.domain.streams.policies import Closing
from ptkstore.sdk import Store
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from tests.faults import scenario
from tests.faults.machine import ROOT
from tests.support import full_disk
from tests.support.waiting import PATIENCE_SECONDS, free_port, lives, until
from tests.support.world import STREAM, World
from workers.app import make_app
from workers.broker import Broker

pytestmark = pytest.mark.real

TRAIN = "train/taxi.speed/0"
FAILS_AT_FIRST = """
from ptkstore.wiring import Service
from workers import schedule
streams, looks = Service.streams_by_clock, []
def failing(service):
    looks.append(service)
    if len(looks) < 3:
        raise OSError(28, "No space left on device")
    return streams(service)
Service.streams_by_clock = failing
schedule.main()
"""


@contextmanager
def mute(env: Mapping[str, str], *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that can write to none of its outputs."""
    with open(full_disk.FULL_DISK, "wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command], env={**env, "PYTHONPATH": str(ROOT)}, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def leaves(process: subprocess.Popen[bytes]) -> None:
    """It lives, and ends in order when it is told to."""
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE_SECONDS)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home")
    yield made
    made.service.close()


@pytest.mark.long
def test_a_worker_that_cannot_write_its_log_does_its_jobs(world: World) -> None:
    world.stream()
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")
    env = {**environment(world.service.settings), "PTK_WORKER_CONCURRENCY": "1"}
    with RedisServer(world.service.settings.root), mute(env, "-m", "workers.worker") as process:
        broker = Broker(make_app(world.service.broker_url))
        broker.hint("train/taxi.nobody/0")  # fails, and is logged as that
        broker.hint(TRAIN)
        until(lambda: world.job(TRAIN).state is JobState.ENDED, "the training")
        leaves(process)


@pytest.mark.long
def test_a_schedule_that_cannot_write_its_log_closes_windows(world: World) -> None:
    world.stream(closing=Closing.CLOCK)

    def closed() -> int:
        with world.service.begin() as uow:
            return uow.streams.progress(STREAM).closed_before

    with mute(environment(world.service.settings), "-c", FAILS_AT_FIRST) as process:
        until(closed, "a window to close")
        leaves(process)


@pytest.mark.long
def test_an_api_that_cannot_write_its_log_answers(world: World) -> None:
    port = free_port()
    command = ("-m", "ptkstore.serving", "--port", str(port))
    with (
        mute(environment(world.service.settings), *command) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client,
    ):
        until(lambda: answers(client), "the API")
        for _ in range(3):  # the log of a request fails behind its answer
            assert client.get("/v1/streams").status_code == 401
        leaves(process)


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


def kept_by(machine: subprocess.Popen[bytes]) -> set[int]:
    """The processes that it keeps running now."""
    children = psutil.Process(machine.pid).children()
    return {one.pid for one in children if lives(one.pid) and not is_guard(one)}


def is_guard(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any(word.endswith("guard.py") for word in process.cmdline())
    return True


@pytest.mark.long
def test_a_machine_whose_disk_was_full_does_all_work_once_there_is_room(tmp_path: Path) -> None:
    """Full for seconds, while every process is killed once: nobody has to come and start anything."""
    port = free_port()
    with full_disk.mounted(tmp_path / "disk", mib=64) as disk:
        settings = Settings(home=disk / "home", publish_tick_seconds=1.0, worker_concurrency=1)
        service = Service(settings)
        store = Store(service)
        scenario.create_stream(store)
        scenario.register(store, [scenario.SPEED])
        command = ("-m", "ptkstore.cli.main", "up", "--api-port", str(port))
        with (
            mute({**os.environ, **environment(settings)}, *command) as machine,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client,
        ):

            def publish(window: int) -> None:
                store.ingest(scenario.STREAM, scenario.rows(window))
                store.close_windows(scenario.STREAM, until=scenario.end_of(window))
                until(lambda: len(service.versions(scenario.SPEED)) == window + 1, f"version {window + 1}")
                until(lambda: client.get("/readyz").json()["ready"], "the service to be ready")

            publish(0)
            full_disk.fill(disk)
            before = kept_by(machine)
            assert len(before) == 6  # two of Redis, worker, relay, schedule, API
            for pid in before:
                os.kill(pid, signal.SIGKILL)
            until(lambda: len(kept_by(machine) - before) == 6, "processes to be started again")
            time.sleep(2.0)  # of a full disk, for all of them to meet
            full_disk.free(disk)
            publish(1)
            leaves(machine)
        service.close()
