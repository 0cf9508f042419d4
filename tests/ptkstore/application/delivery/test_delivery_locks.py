"""Outcomes of deliveries against whoever stops or enables an endpoint: on a real PostgreSQL no two wait for each other.

Each side stops after its first lock, until the other has its first lock or waits for one. Two that take their locks in
different orders then hold what the other wants, every time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, text

from ptkstore.application.delivery.deliveries import outgoing, settle
from ptkstore.domain.jobs import Job
from ptkstore.domain.subscriptions import DeadLetter
from ptkstore.ports.messages import Delivered, NotDelivered, Tried
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.support.world import World

pytestmark = pytest.mark.real

PTK = "taxi.speed"
LEASE = timedelta(minutes=1)
ACTS: dict[str, Callable[[World, str], object]] = {
    "enable": lambda world, name: world.service.enable_subscription(name),
    "disable": lambda world, name: world.service.disable_subscription(name),
    "redeliver": lambda world, name: world.service.redeliver(name),
    "unsubscribe": lambda world, name: world.service.unsubscribe(name),
}


@pytest.fixture
def world(tmp_path: Path, fresh_postgres_url: str) -> Iterator[World]:
    made = World(tmp_path / "home", database_url=fresh_postgres_url)
    made.stream()
    made.register()
    made.publish(0)
    yield made
    made.service.close()


@pytest.fixture
def outsider(fresh_postgres_url: str) -> Iterator[Engine]:
    engine = create_engine(fresh_postgres_url)
    yield engine
    engine.dispose()


class Turns:
    """Stops each thread that takes part after its first lock of jobs."""

    def __init__(self, engine: Engine) -> None:
        self.locked: set[str] = set()
        self.go = threading.Event()
        event.listen(engine, "after_cursor_execute", self._executed)

    def _executed(self, _c: object, _cursor: object, statement: str, *_: Any) -> None:
        me = threading.current_thread().name.partition("_")[0]
        if me in ("first", "second") and me not in self.locked and "FOR UPDATE" in statement:
            self.locked.add(me)
            assert self.go.wait(PATIENCE_SECONDS)


def waits(outsider: Engine) -> bool:
    """Whether a connection of this database waits for a lock of another."""
    query = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    with outsider.begin() as connection:
        return bool(connection.execute(query).scalar_one())


def redelivery(world: World) -> tuple[str, Job]:
    """A subscription, and its claimed job that sends a dead letter again."""
    name = world.service.subscribe_to_ptk(PTK, "http://127.0.0.1:1/")[0].id
    with world.service.begin() as uow:
        uow.subscriptions.add_dead_letter(DeadLetter(name, 1, "timeout", world.clock.now()))
        uow.commit()
    assert world.service.redeliver(name) == 1
    with world.service.begin() as uow:
        (job,) = uow.deliveries.claim(world.clock.now(), LEASE, fresh=9, retried=9)
        uow.commit()
    return name, job


@pytest.mark.long
@pytest.mark.parametrize("settles_first", [True, False])
@pytest.mark.parametrize("tried", [Delivered(), NotDelivered("gone")], ids=["delivered", "gone"])
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS.keys())
def test_a_redelivery_that_ends_and_whoever_changes_its_subscription_take_turns(
    world: World, outsider: Engine, act: Callable[[World, str], object], tried: Tried, settles_first: bool
) -> None:
    name, job = redelivery(world)
    service = world.service
    with service.begin() as uow:
        (one,) = outgoing([job], uow, service.lake)

    def ends() -> None:
        settle([(one, tried)], begin=service.begin, clock=world.clock)

    def changes() -> None:
        act(world, name)

    first, second = (ends, changes) if settles_first else (changes, ends)
    turns = Turns(service.catalog._engine)
    with ThreadPoolExecutor(1, "first") as one_thread, ThreadPoolExecutor(1, "second") as another:
        begun = one_thread.submit(first)
        until(lambda: "first" in turns.locked or begun.done())
        follows = another.submit(second)
        until(lambda: "second" in turns.locked or waits(outsider) or follows.done())
        turns.go.set()
        begun.result(PATIENCE_SECONDS)
        follows.result(PATIENCE_SECONDS)
    assert turns.locked == {"first", "second"}
