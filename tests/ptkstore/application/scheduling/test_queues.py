"""The queue of an adaptive stream tells who waits since when, with which allowances, and for what."""

from __future__ import annotations

from typing import Any

import pytest

from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.scheduling.choices import Mode, Scheduler
from ptkstore.domain.scheduling.queues import Awaited, BlockShare
from ptkstore.errors import InvalidRequest
from ptkstore.ports.row_processes import RunFailed
from tests.support.world import ORIGIN, STREAM, World

ROWS = [i / 1_000 for i in range(1_000)]
PTK = "taxi.speed"
RETRIES: dict[str, Any] = {"target": 1e-9, "config": {"accept": {"metric": "loss", "epsilon": 0.2}}}


@pytest.fixture
def stream(in_files: World) -> World:
    in_files.stream(
        scheduler=Scheduler.ADAPTIVE, scheduler_mode=Mode.CONSERVE, retention_windows=4, rows_per_window=1_000
    )
    return in_files


def waits_for(world: World) -> dict[str, Awaited]:
    return {one.ptk_id: one.waits_for for one in world.service.queue(STREAM)}


def test_a_stream_that_is_allocated_has_no_queue_and_says_why(in_files: World) -> None:
    in_files.stream()
    in_files.register()
    with pytest.raises(InvalidRequest, match="its scheduler 'allocate' plans each window when it closes"):
        in_files.service.queue(STREAM)


def test_a_ptk_is_followed_from_its_registration_to_its_version(stream: World) -> None:
    since = stream.clock.now()
    stream.register(epsilon=0.1)
    (waits,) = stream.service.queue(STREAM)
    assert (waits.ptk_id, waits.since, waits.looks, waits.verdict) == (PTK, since, 0, None)
    assert (waits.waits_for, waits.allowances) == (Awaited.ALLOWANCE, ())
    stream.ingest(ROWS)
    stream.close(1)
    stream.work("prepare")
    (waits,) = stream.service.queue(STREAM)
    assert (waits.waits_for, waits.allowances) == (Awaited.SCHEDULER, (BlockShare(0, 0, 1.0),))
    stream.work("allocate")
    (waits,) = stream.service.queue(STREAM)
    assert (waits.waits_for, waits.allowances) == (Awaited.VERDICT, (BlockShare(0, 0, 0.9),))
    stream.work("train")
    assert stream.service.queue(STREAM) == ()


def test_it_tells_verdicts_and_what_keeps_a_ptk_from_its_next_look(stream: World) -> None:
    stream.register(epsilon=0.1, **RETRIES)
    stream.ingest(ROWS)
    stream.close(1)
    stream.work("prepare", "allocate", "schedule", "train", "validate")
    (waits,) = stream.service.queue(STREAM)
    assert (waits.looks, waits.verdict, waits.waits_for) == (1, "retry", Awaited.MORE_THAN_IT_MAY_HAVE)


def test_a_training_that_failed_waits_for_a_new_window(stream: World) -> None:
    stream.register(epsilon=0.1)
    stream.trainer.failing = RunFailed("out-of-memory")
    stream.ingest(ROWS)
    stream.close(1)
    stream.work("prepare", "allocate", "schedule", "train")
    assert waits_for(stream) == {PTK: Awaited.NEW_WINDOW}


def test_a_ptk_waits_for_a_test_block_that_others_use(stream: World) -> None:
    tests = {"metric": "loss", "epsilon": 0.6}
    for name in ("a", "b"):
        stream.register(name, epsilon=0.2, config={"accept": tests}, target=1e-9)
    stream.ingest(ROWS)
    stream.close(1)
    stream.work("prepare", "allocate")
    assert waits_for(stream) == {"taxi.a": Awaited.VERDICT, "taxi.b": Awaited.TEST_BLOCK}


def test_reading_a_queue_changes_nothing(stream: World) -> None:
    stream.register(epsilon=0.1)
    stream.ingest(ROWS)
    stream.close(1)
    stream.work("prepare")
    stream.service.queue(STREAM)
    with stream.service.read() as uow:
        assert uow.waits.allowed(STREAM) == ()


def test_a_team_is_told_of_its_own_context_alone(in_files: World) -> None:
    """Looks of one context react to its verdicts, and whoever learns from another one must not see them."""
    contexts = Sharing((("north", ("taxi",)), ("south", ("bikes",))), "two companies")
    in_files.stream(scheduler=Scheduler.ADAPTIVE, sharing=contexts)
    in_files.register(epsilon=0.1)
    told = {team: len(in_files.service.queue(STREAM, team=team)) for team in ("taxi", "bikes", "trains")}
    assert told == {"taxi": 1, "bikes": 0, "trains": 0}


def test_those_who_came_first_are_first(stream: World) -> None:
    for name in ("b", "a"):
        stream.register(name, epsilon=0.1)
        stream.clock.pass_(hours=1)
    assert [one.ptk_id for one in stream.service.queue(STREAM)] == ["taxi.b", "taxi.a"]
    assert stream.clock.now() > ORIGIN
