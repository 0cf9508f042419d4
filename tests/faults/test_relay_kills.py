"""The relay killed with -9 in the middle of deliveries: nothing is lost, and what comes twice has the id it had."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ptkstore.adapters.processes import RedisServer
from ptkstore.cli.service.machine import environment
from ptkstore.domain.jobs import JobKind
from tests.faults.machine import ROOT
from tests.support.plugins.measurements import Measured
from tests.support.receiver import WebhookReceiver
from tests.support.world import World

pytestmark = [pytest.mark.real, pytest.mark.long]

PTK = "taxi.speed"
SUBSCRIBERS, KILLS_A_VERSION = 60, 4
LEASE_SECONDS = 2.0
PATIENCE_SECONDS = 240.0


@contextmanager
def relay(world: World) -> Iterator[subprocess.Popen[bytes]]:
    """A relay process; killed at the end of the block."""
    env = {**environment(world.service.settings), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-m", "workers.relay"], env=env, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until(condition: object, until: float) -> None:
    assert callable(condition)
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home", lease_seconds=LEASE_SECONDS, publish_tick_seconds=0.5)
    made.stream()
    made.register()
    with RedisServer(made.service.settings.root):
        yield made
        made.service.close()


def survives(world: World, receiver: WebhookReceiver, kills: int) -> int:
    """Deliver with so many kills; how many messages came twice."""
    names = []
    for number in range(SUBSCRIBERS):
        made, secret = world.service.subscribe_to_ptk(PTK, receiver.endpoint(f"{number}"))
        receiver.trust(secret)
        names.append(made.id)
    draw = random.Random(20_261_121)
    published = 0
    until = time.monotonic() + PATIENCE_SECONDS
    for kill in range(kills):
        if kill % KILLS_A_VERSION == 0:
            world.publish(published)
            published += 1
        before = len(receiver.calls)
        with relay(world):
            enough = before + draw.randrange(1, SUBSCRIBERS // 2)

            def arrived(enough: int = enough, number: int = published) -> bool:
                return len(receiver.calls) >= enough or done(world, names, number)

            wait_until(arrived, until)
        receiver.answer_next(draw.randrange(3), 503)
        receiver.cut_next(draw.randrange(3))
    with relay(world):
        wait_until(lambda: done(world, names, published), until + PATIENCE_SECONDS)
    heard: dict[str, list[str]] = defaultdict(list)
    for call in receiver.accepted:
        heard[call.path].append(call.webhook_id)
    doubled = 0
    for number, name in enumerate(names):
        ids = heard[f"/{number}"]
        assert list(dict.fromkeys(ids)) == [f"msg_{name}_{v:08d}" for v in range(1, published + 1)]
        assert ids == sorted(ids)  # an older version never comes after a newer one
        doubled += len(ids) - published
        attempts = world.service.attempts(name)  # written with the outcome: neither lost nor twice
        assert [one.sequence for one in attempts] == list(range(len(attempts), 0, -1))
        assert [one.number for one in attempts if one.code is None] == list(range(published, 0, -1))
    return doubled


def done(world: World, names: list[str], published: int) -> bool:
    with world.service.read() as uow:
        jobs = [uow.jobs.get(f"{JobKind.NOTIFY}/{name}") for name in names]
    return all(job.position == published for job in jobs)


def test_a_relay_killed_while_it_delivers_loses_nothing(
    world: World, webhook_receiver: WebhookReceiver
) -> None:
    survives(world, webhook_receiver, kills=5)


@pytest.mark.soak
def test_a_hundred_kills_of_the_relay_lose_nothing(
    world: World, webhook_receiver: WebhookReceiver, measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "PATIENCE_SECONDS", 7_000.0)
    doubled = survives(world, webhook_receiver, kills=100)
    measured(
        id="relay-kill-9/doubled",
        measure="webhooks that came twice in 100 kill -9 of the relay, each with up to 60 under way",
        unit="messages",
        ours=doubled,
        goal=SUBSCRIBERS * 100,  # what was under way, and nothing that was written down before
        direction="min",
    )
