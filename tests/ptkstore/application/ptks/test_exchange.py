"""PTKs of a stream that are brought in one step, by more than one at the same time: on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from ptkstore.application.planning.labelled_streams import MOST_ONE_BY_ONE
from ptkstore.application.ptks import exchange_ptks
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.errors import InvalidRequest, NameTaken, PtkRejected
from ptkstore.ports.catalog import UnitOfWork
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.support.world import STREAM, StandingClock, World, speed

ASKED: Mapping[str, Any] = {"team": "taxi", "stream": STREAM}


def wanted(name: str, epsilon: float = 0.1) -> WantedPtk:
    return WantedPtk(name, {"estimator": speed(epsilon), "target": 0.1})


def names(world: World) -> list[str]:
    return [spec.ptk_id for spec in world.service.ptks()]


def meanwhile(world: World, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Have something done between two reads of who looks next: after the PTKs, before their names."""
    acts = [act]

    def check_names(_ptk_id: str, _columns: Mapping[str, tuple[str, ...]]) -> None:
        while acts:
            acts.pop()()

    monkeypatch.setattr(world.service.features, "check_names", check_names)


def test_who_brings_the_same_at_the_same_time_finds_it_done(
    either: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = partial(either.service.exchange_ptks, **ASKED, wanted=[wanted("a")])
    meanwhile(either, monkeypatch, exchange)
    exchange()
    assert names(either) == ["taxi.a"]
    assert either.notices() == []


def test_what_comes_while_it_is_asked_for_takes_no_name(
    either: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(either, monkeypatch, partial(either.service.exchange_ptks, **ASKED, wanted=[wanted("a")]))
    asked = either.service.admit_ptks(**ASKED, wanted=[wanted("a")])
    assert asked.refusals == {}
    assert names(either) == ["taxi.a"]


def test_a_name_of_another_stream_is_refused(either: World) -> None:
    either.stream("bikes")
    either.register("a", stream="bikes")
    for says in ("registered already", "deregistered on stream 'bikes'"):
        with pytest.raises(NameTaken, match=says):
            either.service.exchange_ptks(**ASKED, wanted=[wanted("a")])
        if says == "registered already":
            either.service.deregister_ptk("taxi.a")


# who is refused


class Writers:
    """Begins transactions, and counts them."""

    def __init__(self, world: World) -> None:
        self._world, self.begun = world, 0

    def begin(self) -> AbstractContextManager[UnitOfWork]:
        self.begun += 1
        return self._world.service.begin()


def exchange(world: World, begin: Callable[[], Any], *ptks: WantedPtk, clock: Any = None) -> None:
    service = world.service
    exchange_ptks.exchange_ptks(
        **ASKED,
        wanted=ptks,
        read=service.read_one_moment,
        by=replace(service.registering, begin=begin, clock=clock or service.clock),
    )


def test_a_refusal_that_nobody_is_told_of_begins_no_writing_transaction(world: World) -> None:
    writers = Writers(world)
    with pytest.raises(InvalidRequest):
        exchange(world, writers.begin, wanted("a", epsilon=-1.0))
    assert writers.begun == 0
    for _ in range(3):
        with pytest.raises(PtkRejected):
            exchange(world, writers.begin, wanted("a", epsilon=9.0))
        assert writers.begun == 1  # the first, which leaves word
    assert world.notices() == [("taxi taxi.a", "ptk-rejected")]


@pytest.mark.real
def test_of_two_who_are_refused_at_the_same_time_one_leaves_word(
    tmp_path: Path, fresh_postgres_url: str
) -> None:
    world = World(tmp_path / "home", database_url=fresh_postgres_url)
    world.stream()
    outsider = create_engine(fresh_postgres_url)
    ended: list[bool] = []

    def waits_or_has_ended() -> bool:
        query = text(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        with outsider.begin() as connection:
            return bool(ended) or bool(connection.execute(query).scalar_one())

    def second() -> None:
        with pytest.raises(PtkRejected):
            exchange(world, world.service.begin, wanted("a", epsilon=9.0))
        ended.append(True)

    other = threading.Thread(target=second)

    class Stopping(StandingClock):
        """Asked for the time once nobody is known to have left word: the other comes then."""

        def now(self) -> Any:
            other.start()
            until(waits_or_has_ended)
            return super().now()

    with pytest.raises(PtkRejected):
        exchange(world, world.service.begin, wanted("a", epsilon=9.0), clock=Stopping())
    other.join(PATIENCE_SECONDS)
    assert ended == [True]
    assert world.notices() == [("taxi taxi.a", "ptk-rejected")]
    outsider.dispose()
    world.service.close()


# one by one, or at once


def at_once(world: World, ptks: Sequence[WantedPtk], *leaving: str) -> bool:
    asked = world.service.admit_ptks(**ASKED, wanted=ptks, leaving=leaving)
    assert asked.refusals == {}
    return asked.at_once


def test_new_ptks_come_one_by_one_however_many(world: World) -> None:
    many = [wanted(f"p{n}", 0.001) for n in range(MOST_ONE_BY_ONE + 1)]
    assert not at_once(world, many)
    world.register("old", 0.001)
    assert not at_once(world, many, "taxi.old")
    assert at_once(world, [*many, wanted("old", 0.002)])  # nobody looks for an order of so many


def test_new_ptks_that_need_the_room_of_what_goes_come_at_once(world: World) -> None:
    world.register("old", 0.99)
    assert at_once(world, [wanted(f"p{n}", 0.001) for n in range(30)], "taxi.old")
