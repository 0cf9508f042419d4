"""A window on which nothing can be spent loses its rows before its retention ends, where the policy says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, text

from ptkstore.domain.jobs import JobKind, JobState, Outcome, paid_run, scheduler_of
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.blocks import BlockState
from ptkstore.domain.streams.policies import PrivacyUnit
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.errors import InvalidRequest, WindowGone
from ptkstore.ports.row_processes import RunFailed
from tests.support.catalog_copies import catalog_of, put_back
from tests.support.several_windows import queue_training
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.support.world import CHAIN, DAY, ORIGIN, STREAM, World, speed

PTK = "taxi.speed"
DROP = "expire/taxi/0/retired"
TRAIN_ALONE: dict[str, Any] = {"profile_share": 0, "test_share": 0}
ROWS = [i / 400 for i in range(400)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home")
    yield made
    made.service.close()


def closed(world: World, windows: int = 1, **policy: Any) -> World:
    """Windows in which one training uses all of a train block up."""
    world.stream(**{"epsilon": 0.1, "drop_retired": True, "retention_windows": 8, **TRAIN_ALONE, **policy})
    world.register(epsilon=0.1, config={"evaluate": {"epsilon": 0.1}} if policy.get("test_share") else {})
    for day in range(windows):
        world.ingest([day + one for one in ROWS])
    world.close(windows)
    return world


def is_gone(world: World, window: int = 0) -> bool:
    """Whether rows and key of the window are destroyed."""
    one = WindowId(STREAM, window)
    try:
        world.service.keys.sealing_key(one)
        has_key = True
    except WindowGone:
        has_key = False
    has_files = one in world.service.raw.windows(STREAM)
    assert has_key == has_files
    return not has_key


def states(world: World, window: int = 0) -> set[BlockState]:
    return {one.state for one in world.service.budget(STREAM) if one.number // 128 == window}


def test_a_window_goes_once_its_last_block_is_used_up_and_its_run_has_ended(world: World) -> None:
    closed(world).work("prepare", "allocate", "train")
    assert DROP in world.service.due()
    assert not is_gone(world)
    world.work("expire")
    assert (world.state(0), is_gone(world), states(world)) == (WindowState.EXPIRED, True, {BlockState.ERASED})
    world.work("place", "flip")  # what was elected outlives its window
    assert world.views.shown == {PTK: 1}
    assert world.service.lake.read_version(PTK, 1)
    assert world.service.verify_ledger(STREAM).faults == ()
    assert world.train_block(0) == (0, 10**8)
    exposure = world.service.exposure(STREAM)
    assert exposure.holds
    assert [one.window.id.index for one in exposure.kept] == []


def test_a_run_that_failed_lets_its_window_go_as_well(world: World) -> None:
    closed(world)
    world.trainer.failing = RunFailed("killed")
    world.work("prepare", "allocate", "train", "expire")
    assert world.job(f"train/{PTK}/0").outcome is Outcome.FAILED
    assert is_gone(world)


@pytest.mark.parametrize(
    "policy", [{"drop_retired": False}, {"epsilon": 0.3}, {"profile_share": Decimal("0.1")}], ids=str
)
def test_a_window_stays_while_the_policy_or_a_block_wants_it(world: World, policy: dict[str, Any]) -> None:
    closed(world, **policy).work(*CHAIN, "expire")
    assert (world.state(0), is_gone(world)) == (WindowState.PREPARED, False)


def test_a_window_stays_until_its_version_is_evaluated(world: World) -> None:
    closed(world, test_share=Decimal("0.2")).work("prepare", "allocate", "train", "expire")
    assert not is_gone(world)
    world.work("place", "evaluate")
    assert len(world.service.evaluations(PTK)) == 1
    world.work("expire")
    assert is_gone(world)


def test_a_run_that_is_queued_meanwhile_is_not_disturbed(world: World) -> None:
    closed(world, windows=2, epsilon=0.2)
    world.work("prepare", "allocate", "train", "place")
    world.service.deregister_ptk(PTK)
    world.register("other", epsilon=0.1)
    queue_training(world, 0, n_rows=80, ptk_id="taxi.other")
    world.work("train")
    assert DROP in world.service.due()
    with world.service.begin() as uow:  # whoever queued it saw the window before
        waiting = uow.jobs.get("train/taxi.other/0")
        uow.jobs.add(replace(waiting, id="train/taxi.other/0/9", state=JobState.READY, outcome=None, look=9))
        uow.commit()
    world.work("expire")
    assert (world.job(DROP).outcome, is_gone(world)) == (Outcome.WITHDRAWN, False)
    with world.service.begin() as uow:
        uow.jobs.save(uow.jobs.lock("train/taxi.other/0/9").ended(Outcome.WITHDRAWN))
        uow.commit()
    world.close(3)  # another window closes, and all are looked at
    world.work("expire")
    assert is_gone(world)


@pytest.mark.parametrize("step", ["expiring", "key-destroyed", "files-deleted", "expired"])
def test_a_worker_that_dies_at_any_step_of_a_drop_leaves_it_to_another(world: World, step: str) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    closed(world).work("prepare", "allocate", "train", "place")
    world.steps.at[step] = die
    with pytest.raises(KeyboardInterrupt):
        world.service.work_on(DROP)
    world.clock.pass_(hours=2)
    world.work("expire")
    assert (world.state(0), is_gone(world)) == (WindowState.EXPIRED, True)
    assert world.job(DROP).outcome is Outcome.DONE


@pytest.fixture
def split(tmp_path: Path) -> Iterator[World]:
    """A training that waits for its partials, and has used up all that there is of its window."""
    made = World(tmp_path / "home", rows_per_partial=20)
    closed(made).work("prepare", "allocate", "train")
    assert len(partials(made)) > 1
    yield made
    made.service.close()


def partials(world: World) -> list[str]:
    with world.service.begin() as uow:
        return [one.id for one in uow.jobs.of_window(WindowId(STREAM, 0), JobKind.PARTIAL)]


def test_a_training_that_ends_through_its_partial_lets_its_window_go(split: World) -> None:
    split.trainer.failing = RunFailed("killed")
    split.work("partial")
    assert split.job(f"train/{PTK}/0").outcome is Outcome.FAILED
    split.work("expire")
    assert is_gone(split)


def test_a_window_stays_until_the_last_partial_of_a_training_that_is_over_has_ended(split: World) -> None:
    last = partials(split)[-1]
    with split.service.begin() as uow:  # somebody works at it meanwhile
        assert uow.jobs.claim(last, split.clock.now(), timedelta(minutes=5)) is not None
        uow.commit()
    split.trainer.failing = RunFailed("killed")
    split.work("partial", "expire")
    assert split.job(f"train/{PTK}/0").outcome is Outcome.FAILED
    assert not is_gone(split)
    split.clock.pass_(minutes=6)
    split.work("partial", "expire")
    assert is_gone(split)


def trained_and_queued(world: World, oldest: int, newest: int) -> None:
    """These windows are used up, and one more training of them is queued that has reserved nothing."""
    world.work("prepare", "allocate", "train", "place")
    with world.service.begin() as uow:
        window = WindowId(STREAM, newest)
        uow.jobs.add(paid_run(JobKind.TRAIN, PTK, window, world.clock.now(), oldest=oldest, look=9))
        uow.commit()
    world.work("expire")


def test_a_run_that_is_withdrawn_lets_its_window_go(world: World) -> None:
    closed(world)
    trained_and_queued(world, 0, 0)
    assert not is_gone(world)
    world.service.deregister_ptk(PTK)
    world.work("expire")
    assert is_gone(world)


def test_a_run_that_ends_with_one_of_its_windows_lets_the_others_go(world: World) -> None:
    closed(world, windows=2)
    trained_and_queued(world, 0, 1)
    assert [is_gone(world, window) for window in (0, 1)] == [False, False]
    world.service.close_windows(STREAM, ORIGIN + 9 * DAY, expire_unfinished=True)
    assert world.state(1) is WindowState.PREPARED
    world.work("expire")
    assert [is_gone(world, window) for window in (0, 1)] == [True, True]


def test_a_training_that_ends_before_its_window_is_allocated_lets_it_go_afterwards(world: World) -> None:
    closed(world, scheduler=Scheduler.ADAPTIVE).work("prepare", "schedule")
    with world.service.begin() as uow:
        uow.jobs.wake(scheduler_of(STREAM), world.clock.now())
        uow.commit()
    world.work("schedule", "train", "expire")
    assert world.job(f"train/{PTK}/0").outcome is Outcome.PUBLISHED
    assert not is_gone(world)
    world.work("allocate", "expire")
    assert is_gone(world)


def waits(outsider: Engine) -> bool:
    """Whether a connection of this database waits for a lock of another."""
    query = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    with outsider.begin() as connection:
        return bool(connection.execute(query).scalar_one())


@pytest.mark.real
def test_of_two_runs_that_end_at_once_the_last_one_lets_their_window_go(
    tmp_path: Path, fresh_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one commits its end once the other one has ended as well, or waits for it."""
    world, outsider = (
        World(tmp_path / "home", database_url=fresh_postgres_url),
        create_engine(fresh_postgres_url),
    )
    closed(world, epsilon=0.2)
    world.register("other", epsilon=0.1)
    world.work("prepare", "allocate")
    trained, ending = threading.Barrier(2), list[int]()

    def reached(step: str, _: str) -> None:
        if step == "trained":
            trained.wait(PATIENCE_SECONDS)
            paid.add(threading.get_ident())

    def commits(_: object) -> None:
        me = threading.get_ident()
        if me in paid and me not in ending:
            ending.append(me)
            until(lambda: len(ending) == 2 or waits(outsider))

    paid: set[int] = set()
    monkeypatch.setattr(world.steps, "reached", reached)
    event.listen(world.service.catalog._engine, "commit", commits)
    with ThreadPoolExecutor(2) as both:
        runs = [both.submit(world.service.work_on, f"train/{one}/0") for one in (PTK, "taxi.other")]
        assert [run.result(PATIENCE_SECONDS) for run in runs] == [True, True]
    assert len(ending) == 2
    world.work("expire")
    assert is_gone(world)
    world.service.close()
    outsider.dispose()


def test_the_end_of_the_retention_finds_nothing_left_to_do(world: World) -> None:
    closed(world, windows=2).work(*CHAIN, "expire")
    assert [is_gone(world, window) for window in (0, 1)] == [True, True]
    world.service.close_windows(STREAM, ORIGIN + 12 * DAY, expire_unfinished=True)
    world.work(*CHAIN, "expire")
    assert world.service.exposure(STREAM).holds
    assert {world.state(window) for window in (0, 1)} == {WindowState.EXPIRED}


def test_windows_that_a_recovery_retired_stay(world: World) -> None:
    """Their spends are not known, and the catalog that knows them may come back."""
    closed(world, windows=2, epsilon=5).work("prepare", "allocate")
    with world.service.begin() as uow:
        progress = uow.streams.progress(STREAM)
        numbers = [one.number for one in uow.ledger.blocks(STREAM)]
        uow.ledger.retire(STREAM, numbers)
        uow.streams.advance(STREAM, replace(progress, retired_before=2))
        uow.commit()
    world.work("train")
    world.close(3)
    world.work("expire")
    assert [is_gone(world, window) for window in (0, 1)] == [False, False]


def test_a_recovery_lets_those_windows_go_whose_last_run_it_ends(world: World) -> None:
    """A run over two windows has used both up and opened one of them, and the catalog forgets that it did."""

    def die() -> None:
        raise KeyboardInterrupt

    home = world.service.settings.root
    world.stream(epsilon=0.1, drop_retired=True, retention_windows=8, **TRAIN_ALONE)
    for day in range(2):
        world.ingest([day + one for one in ROWS])
    world.close(2)
    world.work("prepare", "allocate")
    world.register(epsilon=0.1)
    run = queue_training(world, 0, 1, n_rows=80)
    world.steps.at["spent"] = die
    with pytest.raises(KeyboardInterrupt):
        world.service.work_on(run)
    earlier = catalog_of(home)
    world.ingest([2.5])
    world.close(3)
    world.work("prepare", "allocate")  # one more line of the journal, which the copy does not have
    world.service.keys.opening_key(WindowId(STREAM, 0), world.service.catalog.journal_view())
    world.service.close()
    put_back(home, earlier)
    restored = World(home)
    drop = "expire/taxi/1/retired"
    assert drop not in restored.service.due()
    (found,) = restored.service.recover_ledger()
    assert (found.windows_in_doubt, found.runs_ended) == (1, 1)
    assert restored.job(run).outcome is Outcome.FAILED
    assert drop in restored.service.due()
    restored.work("expire")
    assert [is_gone(restored, window) for window in (0, 1)] == [False, True]  # of window 0 not all is known
    assert restored.service.verify_ledger(STREAM).faults == ()
    restored.service.close()


def test_a_user_is_forgotten_in_the_windows_that_are_left(world: World) -> None:
    units: dict[str, Any] = {"privacy_unit": PrivacyUnit.USER_IN_WINDOW, "unit_column": "hour"}
    params = {**speed(0.1)["params"], "unit": "hour"}
    world.stream(epsilon=0.1, drop_retired=True, retention_windows=8, **TRAIN_ALONE, **units)
    estimator = {"family": "HistoricalStatistics", "params": params}
    world.register(estimator=estimator)
    for day in range(2):
        world.ingest([day + one for one in ROWS])
    world.close(1)
    world.work("prepare", "allocate", "train", "expire")
    assert is_gone(world)
    world.service.forget(STREAM, 3)
    assert not is_gone(world, 1)


def test_blocks_for_life_belong_to_no_window(world: World) -> None:
    with pytest.raises(InvalidRequest, match="drop_retired does not go with the privacy unit 'user'"):
        world.stream(drop_retired=True, privacy_unit=PrivacyUnit.USER, unit_column="hour")
