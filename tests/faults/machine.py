"""The service as it runs: real Redis, Celery worker, relay, schedule and HTTP API, each to be killed."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import redis

from ptkstore.adapters.processes import Command, RedisServer, Supervisor
from ptkstore.adapters.processes.supervisor import Waits
from ptkstore.adapters.sandbox.processes.fork_server import RUN_NAME
from ptkstore.cli.service.machine import environment
from ptkstore.domain.identity import Role
from ptkstore.domain.jobs import Job, JobKind, JobState, job_id
from ptkstore.sdk import Store
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity
from tests.faults import scenario
from tests.faults.checker import Evidence, Subscriber, check
from tests.faults.listeners import EventListener
from tests.faults.strikes import FAULTS, Armed
from tests.support.local import local
from tests.support.receiver import WebhookReceiver
from tests.support.waiting import free_port

ROOT = Path(__file__).resolve().parents[2]
TRAINING = "ptkstore.training_process"
COMMANDS = {
    "worker": "tests.faults.crashing_worker",
    "relay": "tests.faults.crashing_relay",
    "schedule": "workers.schedule",
}
API = "api"
PATIENCE_SECONDS = 150.0
LEASE_SECONDS = 3.0
LOOK_EVERY_SECONDS = 0.1
ROWS_PER_PARTIAL = 100  # of the 160 that trainings are planned for which take all: two partials
CHECK_EVERY_SECONDS = 1.0


class Machine:
    """What a test sees of a running service."""

    def __init__(self, settings: Settings, supervisor: Supervisor, receiver: WebhookReceiver) -> None:
        self.settings = settings
        self.supervisor = supervisor
        self.receiver = receiver
        self.faults = Armed(settings.root.with_name("faults"))
        self.store = Store(Service(settings))
        self.subscribers: list[Subscriber] = []
        self.prefix = ""  # of the ids of events in the stream that is followed
        self.listeners: list[EventListener] = []
        self._api: tuple[str, str] | None = None

    def subscribe(self, ptk_id: str, name: str) -> None:
        """A subscriber with a path of its own."""
        subscribed = self.store.subscribe_to_ptk(ptk_id, self.receiver.endpoint(name))
        self.receiver.trust(subscribed.secret)
        self.subscribers.append(scenario.subscriber(name, ptk_id))

    def follow(self, ptk_id: str, name: str) -> str:
        """A subscriber that reads a Redis stream; returns what the ids of its events begin with."""
        return f"msg_{self.store.subscribe_to_ptk(ptk_id, f'redis-stream:{name}').id}_"

    def streamed(self, name: str) -> list[str]:
        """The ids of the events in a stream, in order."""
        with redis.Redis.from_url(RedisServer(self.settings.root).client_url) as client:
            return [entry[b"id"].decode() for _, entry in client.xrange(f"ptk:events:-:{name}")]

    def serve(self) -> None:
        """Run the HTTP API too; it may be killed as `api`."""
        identity = Identity(local(self.store))
        identity.create_team(scenario.TEAM)
        _, token = identity.issue_token(scenario.TEAM, [Role.CONSUMER])
        port = free_port()
        run = (sys.executable, "-m", "ptkstore.serving", "--port", str(port))
        self.supervisor.run(Command(API, run, env=environment(self.settings), tier=2))
        self._api = f"http://127.0.0.1:{port}", token

    def listen(self, ptk_id: str) -> None:
        """A listener to server-sent events, from the first version on, that comes back whenever it is cut off."""
        assert self._api is not None
        self.listeners.append(EventListener(*self._api, ptk_id))

    def unheard(self) -> dict[str, list[int]]:
        """What listeners heard who did not hear of every version once and in order, as it was published."""
        wrong = {}
        for one in self.listeners:
            published = local(self.store).versions(one.ptk_id)
            if one.digests != [version.sha256 for version in published]:
                wrong[one.ptk_id] = one.versions
        return wrong

    def shown(self, ptk_id: str) -> int:
        """The newest version of a PTK that is online."""
        with local(self.store).begin() as uow:
            return uow.jobs.get(job_id(JobKind.FLIP, ptk_id)).position

    def leave(self) -> None:
        """End the API and all that listens to it."""
        for one in self.listeners:
            one.leave()
        if self._api is not None:
            self.supervisor.remove(API)
        for one in self.listeners:
            one.join()

    def close(self, first: int, last: int, *, seed: int = 0) -> None:
        """Rows of these windows come in, and they close."""
        for window in range(first, last + 1):
            self.store.ingest(scenario.STREAM, scenario.rows(window, seed=seed), f"day {window}")
        self.store.close_windows(scenario.STREAM, scenario.end_of(last))

    def pid(self, name: str) -> int:
        """The process of a supervised command, once it runs."""
        self.wait_for(lambda: self._pid(name) is not None, f"{name} to run")
        pid = self._pid(name)
        assert pid is not None
        return pid

    def kill(self, name: str) -> None:
        """kill -9 a supervised command; the supervisor starts it again."""
        os.kill(self.pid(name), signal.SIGKILL)

    def kill_a_pool_process(self) -> bool:
        """kill -9 one of the processes in which the worker runs jobs; False if there is none just now."""
        worker = self._pid("worker")
        children = [] if worker is None else _children(worker)
        pool = [child for child in children if TRAINING not in _command(child)]
        if pool:
            with suppress(psutil.NoSuchProcess):
                pool[0].kill()
        return bool(pool)

    def kill_trainings(self) -> None:
        """kill -9 every process that trains or prepares just now, and not the server that forked it."""
        worker = self._pid("worker")
        for child in [] if worker is None else _children(worker):
            if _name(child) == RUN_NAME:
                with suppress(psutil.NoSuchProcess):
                    child.kill()

    def unfinished(self) -> list[Job]:
        """Jobs that are neither over nor idle."""
        with local(self.store).begin() as uow:
            jobs = [job for stream in uow.streams.all() for job in uow.jobs.find(stream=stream.name)]
        return [job for job in jobs if job.state not in (JobState.ENDED, JobState.IDLE)]

    def settle(self) -> None:
        """Wait until all work is done, while the checker looks on."""
        next_check = time.monotonic()

        def done() -> bool:
            nonlocal next_check
            if time.monotonic() >= next_check:
                faults = check(self.evidence, settled=False)
                assert faults == [], faults
                next_check = time.monotonic() + CHECK_EVERY_SECONDS
            return not self.unfinished()

        self.wait_for(done, "the chain to end")
        faults = check(self.evidence, settled=True)
        assert faults == [], faults  # not a test's own file: pytest adds nothing

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        """Come back when the condition holds; a test that waits while no job goes on fails here.

        On a machine that is busy with other things each process that was killed takes long to come back.
        """
        before: object = None
        until = time.monotonic()
        while not condition():
            state = (what, self.unfinished(), self.faults.waiting())
            if state != before:
                before, until = state, time.monotonic() + PATIENCE_SECONDS
            assert time.monotonic() < until, (state, self.last_words())
            time.sleep(LOOK_EVERY_SECONDS)

    def last_words(self) -> dict[str, str]:
        """The ends of the logs, for a failed test's report."""
        logs = sorted((self.settings.root / "log").glob("*.log"))
        return {path.name: path.read_text(errors="replace")[-1500:] for path in logs}

    @property
    def evidence(self) -> Evidence:
        """For the checker."""
        return Evidence(
            Path(self.settings.lake), self.receiver.log, self.settings.catalog_url, tuple(self.subscribers)
        )

    def _pid(self, name: str) -> int | None:
        return next(one.pid for one in self.supervisor.status() if one.name == name)


@contextmanager
def machine(directory: Path, *, database_url: str | None = None) -> Iterator[Machine]:
    """A running service; every process of it ends with the block."""
    given: dict[str, Any] = {} if database_url is None else {"database_url": database_url}
    settings = Settings(
        home=directory / "home",
        **given,
        online_store="redis",
        webhook_networks=("127.0.0.0/8",),
        lease_seconds=LEASE_SECONDS,
        publish_tick_seconds=0.2,
        worker_concurrency=3,
        train_timeout_seconds=60,
        rows_per_partial=ROWS_PER_PARTIAL,
    )
    env = {**environment(settings), "PYTHONPATH": str(ROOT), FAULTS: str(directory / "faults")}
    with (
        Supervisor(settings.root, waits=Waits(first=0.1, longest=1.0, grace=5.0)) as supervisor,
        RedisServer(settings.root, supervisor=supervisor),
        WebhookReceiver(directory / "received.jsonl") as receiver,
    ):
        made = Machine(settings, supervisor, receiver)
        for name, module in COMMANDS.items():
            supervisor.run(Command(name, (sys.executable, "-m", module), env=env, tier=2))
        try:
            yield made
        finally:
            made.leave()
            for name in COMMANDS:
                supervisor.remove(name)
            made.store.close()


def _children(pid: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []
