"""A name that was deregistered comes back to its team: on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ptkstore.domain.jobs import JobKind, JobState
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.errors import NameTaken, PtkRejected, PtkStoreError
from tests.support.receiver import WebhookReceiver
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.world import STREAM, World, speed

PTK = "taxi.speed"
TENTH = 10**8


def exchange(world: World, name: str = "speed", epsilon: float = 0.1, top: float = 60.0) -> str:
    wanted = [WantedPtk(name, {"estimator": speed(epsilon, top), "target": 0.1})]
    world.service.exchange_ptks(team="taxi", stream=STREAM, wanted=wanted)
    return f"taxi.{name}"


def blocks(world: World, number: int) -> list[int]:
    """The windows whose rows a version contains."""
    content = world.service.versions(PTK)[number - 1].content
    return [one["number"] // 128 for one in content["blocks"]]


def prune_after(world: World, days: int) -> None:
    """Publish a version of each of these days, then deregister the PTK."""
    for day in range(days):
        world.publish(day)
    world.service.deregister_ptk(PTK)
    world.work("flip")
    assert world.views.shown == {}


@pytest.mark.parametrize("register", [World.register, exchange], ids=["register", "exchange"])
def test_the_same_declaration_continues_its_versions_and_its_state(
    either: World, register: Callable[..., str]
) -> None:
    register(either)
    prune_after(either, 2)
    assert register(either) == PTK
    either.work("place", "flip")
    assert either.views.shown == {PTK: 2}  # what was published is served again
    either.publish(2)
    assert [one.number for one in either.service.versions(PTK)] == [1, 2, 3]
    assert blocks(either, 3) == [0, 1, 2]
    assert either.views.shown == {PTK: 3}
    assert [either.train_block(window) for window in range(3)] == [(0, TENTH)] * 3


@pytest.mark.parametrize("register", [World.register, exchange], ids=["register", "exchange"])
def test_another_declaration_begins_without_the_state_under_the_next_version(
    either: World, register: Callable[..., str]
) -> None:
    either.register()
    prune_after(either, 2)
    more = {"top": 30.0} if register is exchange else {"estimator": speed(0.1, 30.0)}
    assert register(either, **more) == PTK
    either.publish(2)
    assert [one.number for one in either.service.versions(PTK)] == [1, 2, 3]
    assert blocks(either, 3) == [2]
    bounds = either.service.versions(PTK)[2].content["config"]["params"]["bounds"]
    assert bounds == {"speed": [0.0, 30.0]}


def test_another_frequency_may_be_declared(world: World) -> None:
    world.register()
    prune_after(world, 1)
    world.register(train_frequency="2d")
    for day in (1, 2):
        world.publish(day)
    assert [blocks(world, number) for number in (1, 2)] == [[0], [0, 2]]


def test_nothing_is_refunded_and_no_window_is_trained_for_the_time_between(either: World) -> None:
    either.register(epsilon=0.6)
    prune_after(either, 1)
    either.ingest((1.5,))
    either.close(2)
    either.work()  # while it is gone
    either.register(epsilon=0.6)
    assert either.work("prepare", "allocate", "train") == []
    assert either.train_block(0) == (0, 6 * TENTH)
    assert either.train_block(1) == (0, 0)
    assert [one.number for one in either.service.versions(PTK)] == [1]


def test_a_training_that_was_withdrawn_stays_withdrawn(either: World) -> None:
    either.register()
    either.ingest()
    either.close(1)
    either.work("prepare", "allocate")
    either.service.deregister_ptk(PTK)
    either.register()
    assert either.work() == []
    assert either.train_block(0) == (0, 0)
    either.publish(1)
    assert blocks(either, 1) == [1]


def test_who_repeats_the_registration_gets_the_same_answer(either: World) -> None:
    either.register()
    prune_after(either, 1)
    assert [either.register(), either.register(), exchange(either)] == [PTK] * 3
    assert len(either.service.ptks()) == 1


def test_it_comes_back_to_its_own_stream_only(either: World) -> None:
    either.stream("bikes")
    either.register()
    either.service.deregister_ptk(PTK)
    with pytest.raises(NameTaken, match=r"on stream 'taxi'.*register it there"):
        either.register(stream="bikes")
    assert either.service.ptks() == ()


def test_there_must_be_room_for_it(either: World) -> None:
    either.register(epsilon=0.6)
    either.service.deregister_ptk(PTK)
    either.register("other", 0.6)
    with pytest.raises(PtkRejected, match=r"epsilon 0\.4"):
        either.register(epsilon=0.6)
    with pytest.raises(PtkRejected, match=r"epsilon 0\.4"):
        exchange(either, epsilon=0.6)
    assert [spec.ptk_id for spec in either.service.ptks()] == ["taxi.other"]


@pytest.mark.parametrize("stream", [STREAM, "bikes"])
def test_a_name_in_use_is_told_as_taken_on_a_full_stream(either: World, stream: str) -> None:
    either.stream("bikes")
    either.register()
    either.register("full", 1, stream="bikes")
    either.register("rest", 0.9)
    with pytest.raises(NameTaken, match="registered already"):
        either.register(epsilon=0.5, stream=stream)
    assert either.notices() == []


def test_a_name_of_another_stream_is_told_as_taken_on_a_full_stream_after_it_went(either: World) -> None:
    either.stream("bikes")
    either.register()
    either.register("full", 1, stream="bikes")
    either.service.deregister_ptk(PTK)
    with pytest.raises(NameTaken):
        either.register(epsilon=0.5, stream="bikes")
    assert either.notices() == [(PTK, "deregistered")]


def test_subscribers_hear_of_what_comes_next_and_of_nothing_twice(
    world: World, webhook_receiver: WebhookReceiver
) -> None:
    world.register()
    world.publish(0)
    _, secret = world.service.subscribe_to_ptk(PTK, webhook_receiver.endpoint())
    webhook_receiver.trust(secret)
    world.service.deregister_ptk(PTK)
    world.work("flip")
    world.register()
    world.work("flip", "notify")
    assert not webhook_receiver.accepted
    world.publish(1)
    world.work("notify")
    assert [call.message["data"]["version"] for call in webhook_receiver.accepted if call.message] == [2]


def test_a_state_elected_before_it_went_is_placed_and_shown_when_it_is_back(either: World) -> None:
    either.register()
    either.ingest()
    either.close(1)
    either.work("prepare", "allocate", "train")
    either.service.deregister_ptk(PTK)
    either.register()
    either.work("place", "flip")
    assert either.views.shown == {PTK: 1}


@pytest.mark.parametrize("when", ["before", "after"])
def test_views_that_are_taken_away_while_it_comes_back_are_shown_again(world: World, when: str) -> None:
    world.register()
    world.publish(0)
    world.service.deregister_ptk(PTK)
    withdraw = world.views.withdraw

    def slow(name: str) -> None:
        world.views.withdraw = withdraw  # type: ignore[method-assign]
        if when == "before":
            world.register()
        withdraw(name)
        if when == "after":
            world.register()

    world.views.withdraw = slow  # type: ignore[method-assign]
    world.work("flip")
    assert world.views.shown == {PTK: 1}
    assert world.cursor(JobKind.FLIP, PTK).state is JobState.IDLE


def test_joins_in_time_know_the_versions_of_before(world: World) -> None:
    world.register()
    prune_after(world, 3)
    world.views.staged.clear()
    world.register()
    world.work("flip")
    assert world.views.staged == [(PTK, 3)]
    assert world.views.recalled == [(PTK, 1), (PTK, 2)]
    world.publish(3)
    assert world.views.recalled == [(PTK, 1), (PTK, 2)]  # they are there


@pytest.mark.parametrize("other", [{}, {"estimator": speed(0.1, 30.0)}], ids=["same", "different"])
def test_of_two_who_bring_it_back_at_once_the_second_finds_it_there(
    either: World, other: dict[str, Any]
) -> None:
    either.register()
    either.service.deregister_ptk(PTK)
    told: list[PtkStoreError | str] = []
    ready = threading.Barrier(2)

    def bring(more: dict[str, Any]) -> None:
        ready.wait(PATIENCE_SECONDS)
        try:
            told.append(either.register(**more))
        except PtkStoreError as error:
            told.append(error)

    both = [threading.Thread(target=bring, args=(more,)) for more in ({}, other)]
    for one in both:
        one.start()
    for one in both:
        one.join(PATIENCE_SECONDS)
    assert len(either.service.ptks()) == 1
    if other:
        assert sorted(type(one).__name__ for one in told) == ["NameTaken", "str"]
    else:
        assert told == [PTK, PTK]
    either.publish(0)
    assert [one.number for one in either.service.versions(PTK)] == [1]
