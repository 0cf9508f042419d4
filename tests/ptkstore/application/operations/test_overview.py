"""The facts of the overview: health, what needs somebody, what happened in the last day."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ptkstore.adapters.sql.ledger.ledger import SqlLedger
from ptkstore.application.identity.sight import Sight
from ptkstore.application.operations.liveness import EVERY, SILENT_AFTER, ProcessRole
from ptkstore.application.operations.read_overview import (
    ITEMS_MOST,
    STREAMS_MOST,
    FailedTraining,
    GivenUpPtk,
    PublishedVersion,
    WaitsFor,
)
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.ledger.block_ledgers import BlockLedger
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.accept_deadlines import AcceptDeadline, GivenUp
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.blocks import BlockState, place_of
from ptkstore.domain.subscriptions import DeadLetter
from ptkstore.ports.row_processes import RunFailed
from tests.support.statements import counted
from tests.support.world import DAY, NOW, ORIGIN, STREAM, World

PTK = "taxi.speed"


def test_a_store_without_faults_needs_nobody(world: World) -> None:
    world.register()
    world.publish(0)
    seen = world.service.overview()
    assert seen.healthy
    processes = dict.fromkeys(("relay", "schedule", "worker"), "silent")
    assert seen.parts == {"catalog": "ok", "ledger": "ok", **processes}
    assert seen.ptks == 1
    assert seen.published is not None
    assert seen.published.items == (PublishedVersion(PTK, 1, NOW),)
    assert [seen.given_up.count, seen.waiting.count, seen.subscriptions] == [0, 0, 0]
    assert seen.failed_trainings is not None
    assert seen.failed_trainings.count == 0
    (stream,) = seen.streams
    assert (stream.name, stream.team, stream.ptks, stream.closed_windows) == (STREAM, "taxi", 1, 1)
    assert stream.exposure is not None
    assert stream.exposure.holds


def test_a_process_that_ended_is_failing(world: World) -> None:
    world.service.report_alive(ProcessRole.WORKER, "a")
    assert world.service.overview().healthy
    world.clock.time += SILENT_AFTER + EVERY
    seen = world.service.overview()
    assert (seen.healthy, seen.failing) == (False, ("worker",))


def test_a_failed_training_is_shown_until_a_version_follows(world: World) -> None:
    world.register()
    world.trainer.failing = RunFailed("bad-output")
    world.publish(0)
    failed = world.service.overview().failed_trainings
    assert failed is not None
    assert failed.items == (FailedTraining(PTK, 0, "bad-output", NOW),)
    world.clock.time += timedelta(hours=1)
    world.publish(1)
    failed = world.service.overview().failed_trainings
    assert failed is not None
    assert failed.items == ()


def test_only_words_about_trainings_that_failed_count(world: World) -> None:
    world.register()
    with world.service.begin() as uow:
        for code, window in (
            ("previous-state-unreadable", 0),
            ("more-than-it-may-have", 1),
            ("passed-over", None),
        ):
            uow.notify_owner(Notice(NOW, "taxi", code, ptk_id=PTK, window_index=window))
        uow.notify_owner(Notice(NOW - 8 * DAY, "taxi", "killed", ptk_id=PTK, window_index=2))
        uow.notify_owner(Notice(NOW, "taxi", "killed", ptk_id="taxi.gone", window_index=2))
        uow.commit()
    seen = world.service.overview()
    assert seen.failed_trainings is not None
    assert seen.failed_trainings.count == 0
    assert seen.notices is not None
    assert seen.notices.count == 4  # of the last day, the one about no training too


def test_blocks_are_nearly_spent_by_what_is_committed_of_them(world: World) -> None:
    world.register(epsilon=0.9)
    world.publish(0)
    (stream,) = world.service.overview().streams
    assert stream.budget is not None
    assert (stream.budget.nearly_spent, stream.budget.active_blocks) == (1, 3)
    fullest = stream.budget.fullest
    assert fullest is not None
    assert (fullest.window, fullest.start, fullest.part) == (0, ORIGIN, "train-0")
    assert (fullest.spent_epsilon, fullest.capacity_epsilon, fullest.share_used) == (0.9, 1.0, 0.9)


def test_a_block_of_the_newest_window_that_is_all_spent_is_the_fullest(world: World) -> None:
    world.register(epsilon=1.0)
    world.publish(0)
    (stream,) = world.service.overview().streams
    assert stream.budget is not None
    assert (stream.budget.nearly_spent, stream.budget.active_blocks) == (0, 2)  # profile and test
    fullest = stream.budget.fullest
    assert fullest is not None
    assert (fullest.window, fullest.part, fullest.state, fullest.share_used) == (0, "train-0", "retired", 1.0)
    world.publish(1)
    (stream,) = world.service.overview().streams
    assert stream.budget is not None
    assert stream.budget.fullest is not None
    assert stream.budget.fullest.window == 1  # not a spent block of an older window


def test_blocks_of_windows_that_expired_are_not_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.register()
    for day in range(5):
        world.publish(day)
    world.work("expire")
    told, policy = world.service.overview(), world.service.stream(STREAM).policy
    read, blocks = list[BlockLedger](), SqlLedger.blocks

    def seen(ledger: SqlLedger, *args: Any) -> tuple[BlockLedger, ...]:
        read.extend(found := blocks(ledger, *args))
        return found

    monkeypatch.setattr(SqlLedger, "blocks", seen)
    assert world.service.overview() == told
    assert {place_of(one.number, policy).window for one in read} == {3, 4}
    (stream,) = told.streams
    assert stream.budget is not None
    assert stream.budget.active_blocks == len({one.number for one in read if one.state is BlockState.ACTIVE})


def test_ptks_wait_for_a_version_or_were_given_up(world: World) -> None:
    world.register()
    world.register("other")
    with world.service.begin() as uow:
        uow.ptks.wait("taxi.other", AcceptDeadline(0, GivenUp.TIMEOUT))
        uow.commit()
    seen = world.service.overview()
    assert seen.given_up.items == (GivenUpPtk("taxi.other", "timeout"),)
    assert [(one.ptk_id, one.waits_for) for one in seen.waiting.items] == [(PTK, WaitsFor.FIRST_VERSION)]
    assert world.service.overview(Sight(states=frozenset())).waiting.count == 0


def test_ptks_wait_in_queues_for_whom_may_read_the_budget(world: World) -> None:
    world.stream("news", scheduler=Scheduler.ADAPTIVE)
    world.register(stream="news")
    (waiting,) = world.service.overview().waiting.items
    assert (waiting.ptk_id, waiting.waits_for, waiting.since) == (PTK, WaitsFor.SCHEDULER, NOW)
    assert world.service.overview(Sight(budgets=frozenset({STREAM}))).waiting.count == 0


def test_who_waits_is_told_to_its_own_context_alone(world: World) -> None:
    contexts = Sharing((("north", ("taxi",)), ("south", ("ads",))), no_collusion="They never meet.")
    world.stream("news", scheduler=Scheduler.ADAPTIVE, sharing=contexts)
    world.register(stream="news")
    told = {
        team: world.service.overview(Sight(context=team)).waiting.count for team in ("taxi", "ads", "sea")
    }
    assert told == {"taxi": 1, "ads": 0, "sea": 0}


def test_subscriptions_in_trouble_are_shown(world: World) -> None:
    world.register()
    _well, _ = world.service.subscribe_to_ptk(PTK, "redis-stream:well", team="taxi")
    ill, _ = world.service.subscribe_to_ptk(PTK, "redis-stream:ill", team="taxi")
    with world.service.begin() as uow:
        uow.subscriptions.add_dead_letter(DeadLetter(ill.id, 1, "timeout", NOW))
        uow.commit()
    seen = world.service.overview()
    assert seen.subscriptions == 2
    assert seen.troubled_subscriptions is not None
    (one,) = seen.troubled_subscriptions.items
    assert (one.id, one.status, one.dead_letters) == (ill.id, "ok", 1)
    hidden = world.service.overview(Sight(reads_subscriptions=False))
    assert (hidden.subscriptions, hidden.troubled_subscriptions) == (None, None)


def test_the_number_of_statements_does_not_grow_with_what_there_is(world: World) -> None:
    world.register(epsilon=0.001)
    world.service.overview()
    with counted(world) as few:
        world.service.overview()
    for number in range(ITEMS_MOST + 10):
        world.register(f"speed{number}", epsilon=0.001)
    for number in range(STREAMS_MOST + 10):
        world.stream(f"stream{number}")
    with counted(world) as many:
        seen = world.service.overview()
    assert (seen.waiting.count, len(seen.waiting.items)) == (ITEMS_MOST + 11, ITEMS_MOST)
    a_stream = 15
    assert len(many) <= len(few) + a_stream * (STREAMS_MOST - 1)
    assert len(few) <= 30
