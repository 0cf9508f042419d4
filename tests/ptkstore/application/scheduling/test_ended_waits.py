"""Waits are kept after they ended: who waited from when to when, and how each wait ended."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from ptkstore.application.scheduling.read_queue import read_waits
from ptkstore.application.scheduling.waiting_ptks import give_up_waiting
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.ptks.accept_deadlines import GivenUp
from ptkstore.domain.scheduling.choices import Mode, Scheduler
from ptkstore.domain.scheduling.queues import WaitSpan
from ptkstore.domain.scheduling.waits import MOST_ENDED, EndedWait
from tests.support.world import STREAM, World, speed

ROWS = [i / 1_000 for i in range(1_000)]
PTK = "taxi.speed"
ACCEPT = {"metric": "loss", "epsilon": 0.2}
CHAIN = ("prepare", "allocate", "schedule", "train", "validate", "place", "flip")


def adaptive(world: World, **policy: Any) -> World:
    defaults: dict[str, Any] = {"retention_windows": 4, "rows_per_window": 1_000}
    world.stream(scheduler=Scheduler.ADAPTIVE, scheduler_mode=Mode.CONSERVE, **{**defaults, **policy})
    return world


@pytest.fixture
def stream(in_files: World) -> World:
    return adaptive(in_files)


def day(world: World, number: int) -> datetime:
    """One more window, from rows to versions; return when."""
    world.clock.pass_(hours=1)
    world.ingest([number + one for one in ROWS])
    world.close(number + 1)
    world.work(*CHAIN)
    return world.clock.now()


def told(world: World, limit: int = 60, **asked: Any) -> list[WaitSpan]:
    return list(world.service.waits(STREAM, limit=limit, **asked))


def test_each_version_ends_a_wait_that_is_told_of_from_then_on(stream: World) -> None:
    began = stream.clock.now()
    stream.register(epsilon=0.1)
    first, second = day(stream, 0), day(stream, 1)
    spans = told(stream)
    assert [(one.since, one.end, one.registered) for one in spans] == [
        (began, "version", True),
        (second, "version", True),
    ]
    assert spans[0].until is not None
    assert first <= spans[0].until < second
    assert told(stream, limit=1) == spans[1:]


def test_a_change_of_the_definition_ends_a_wait_and_begins_another(stream: World) -> None:
    began = stream.clock.now()
    stream.register(epsilon=0.1)
    stream.clock.pass_(hours=1)
    changed = stream.clock.now()
    stream.service.update_ptk(PTK, estimator=speed(0.2))
    assert [(one.since, one.until, one.end) for one in told(stream)] == [
        (began, changed, "changed"),
        (changed, None, None),
    ]


def test_the_wait_of_a_ptk_that_is_deregistered_is_told_of_still(stream: World) -> None:
    began = stream.clock.now()
    stream.register(epsilon=0.1)
    stream.clock.pass_(hours=1)
    gone = stream.clock.now()
    stream.service.deregister_ptk(PTK)
    assert told(stream) == [WaitSpan(PTK, began, gone, "deregistered", (), registered=False)]
    stream.clock.pass_(hours=1)
    stream.register(epsilon=0.1)
    assert [(one.end, one.registered) for one in told(stream)] == [("deregistered", True), (None, True)]


def test_a_ptk_that_is_given_up_ends_its_wait_at_that_time_and_resumes_with_another(stream: World) -> None:
    began = stream.clock.now()
    stream.register(epsilon=0.01, target=1e-9, config={"accept": {**ACCEPT, "timeout": "1d"}})
    verdict = day(stream, 0)
    given_up = day(stream, 1)
    (span,) = told(stream)
    assert (span.since, span.end) == (began, "timeout")
    assert span.until is not None
    assert verdict <= span.until <= given_up
    assert [decision for _, decision in span.verdicts] == ["retry"]
    stream.clock.pass_(hours=1)
    stream.service.resume_ptk(PTK)
    before, now = told(stream)
    assert before == span
    assert (now.since, now.end, now.verdicts) == (stream.clock.now(), None, ())


def test_a_wait_that_had_ended_with_a_version_is_not_given_up(stream: World) -> None:
    stream.register(epsilon=0.1)
    day(stream, 0)
    with stream.service.begin() as uow:
        give_up_waiting(uow, PTK, GivenUp.TIMEOUT, stream.clock.now())
        uow.commit()
    assert [one.end for one in told(stream)] == ["version"]


def test_a_wait_whose_end_nobody_kept_has_no_verdicts_of_the_next_one(stream: World) -> None:
    """As an upgrade takes it over: without its end."""
    began = stream.clock.now()
    stream.register(epsilon=0.01, target=1e-9, config={"accept": ACCEPT})
    day(stream, 0)
    before = EndedWait(PTK, STREAM, began - timedelta(days=1), None, "reject")
    with stream.service.begin() as uow:
        uow.waits.keep(before)
        uow.commit()
    found = [(one.since, one.until, len(one.verdicts)) for one in told(stream)]
    assert found == [(before.since, None, 0), (began, None, 1)]


def test_no_more_waits_of_a_ptk_are_kept_than_a_bound(stream: World) -> None:
    stream.register(epsilon=0.1)
    for number in range(MOST_ENDED + 3):
        stream.clock.pass_(hours=1)
        stream.service.update_ptk(PTK, estimator=speed(0.1, top=61.0 + number))
    spans = told(stream)
    assert len(spans) == MOST_ENDED + 1
    assert [one.end for one in spans] == ["changed"] * MOST_ENDED + [None]
    assert spans[-1].since == stream.clock.now()


def test_waits_that_last_take_no_place_of_those_that_ended(stream: World) -> None:
    stream.register(epsilon=0.1)
    day(stream, 0)
    stream.service.update_ptk(PTK, estimator=speed(0.2))
    stream.register("late", epsilon=0.1)
    version, *lasting = told(stream)
    assert [one.end for one in (version, *lasting)] == ["version", None, None]
    assert stream.service.ended_waits(STREAM) == (version,)
    (found,) = read_waits(STREAM, ended=True, limit=1, begin=stream.service.read)
    assert found == version


def test_a_version_ends_a_wait_before_the_next_one_begins(stream: World) -> None:
    stream.register(epsilon=0.1)
    assert stream.service.ended_waits(STREAM) == ()
    day(stream, 0)
    assert list(stream.service.ended_waits(STREAM)) == told(stream)
    day(stream, 1)
    assert len(stream.service.ended_waits(STREAM)) == 2
    assert read_waits(STREAM, ended=True, limit=1, begin=stream.service.read) == (told(stream)[1],)


def test_ended_waits_of_another_context_are_told_to_nobody_else(in_files: World) -> None:
    contexts = Sharing((("north", ("taxi",)), ("south", ("bikes",))), "two companies")
    world = adaptive(in_files, sharing=contexts)
    world.register(epsilon=0.1)
    world.clock.pass_(hours=1)
    world.service.update_ptk(PTK, estimator=speed(0.2))
    assert len(told(world)) == len(told(world, team="taxi")) == 2
    assert told(world, team="bikes") == told(world, team="trains") == []
    assert [one.end for one in told(world, team="taxi", limit=1)] == [None]
    assert len(world.service.ended_waits(STREAM, team="taxi")) == len(world.service.ended_waits(STREAM)) == 1
    assert world.service.ended_waits(STREAM, team="bikes") == ()
    assert world.service.ended_waits(STREAM, team="trains") == ()


def test_ended_waits_of_another_context_take_no_place(in_files: World) -> None:
    contexts = Sharing((("north", ("taxi",)), ("south", ("bikes",))), "two companies")
    world = adaptive(in_files, sharing=contexts)
    world.service.deregister_ptk(left(world, "taxi"))
    mine = world.service.ended_waits(STREAM, team="taxi")
    world.service.deregister_ptk(left(world, "bikes"))
    assert len(world.service.ended_waits(STREAM)) == 2
    assert read_waits(STREAM, team="taxi", ended=True, limit=1, begin=world.service.read) == mine


def left(world: World, team: str) -> str:
    """A PTK of a team that has waited for an hour."""
    ptk_id = world.service.register_ptk(
        team=team, name="speed", stream=STREAM, estimator=speed(0.1), train_frequency="1d", target=0.1
    )
    world.clock.pass_(hours=1)
    return ptk_id
