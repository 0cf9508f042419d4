"""Runs whose loss is spent wait for a store that takes nothing, however often they are put off meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.jobs import MAX_ATTEMPTS, JobState, Outcome
from ptkstore.domain.versions.versions import Draft
from ptkstore.errors import CorruptObject, NoProcess, OutcomeUnknown, PtkStoreError, Unavailable
from ptkstore.ports.row_processes import STAGING_FAILED, RunFailed, TrainRequest
from tests.support.catalog_faults import Faults
from tests.support.world import World

TRAIN = "train/taxi.speed/0"
PARTIAL = "partial/taxi.speed/0/0"
TENTH = 10**8
OFTEN = 3 * MAX_ATTEMPTS
LONGEST = timedelta(minutes=1)


@pytest.fixture
def reserved(catalog_faults: Faults) -> World:
    """A reservation on a window that nobody has opened, in SQLite and in PostgreSQL."""
    world = catalog_faults.world
    world.stream()
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")
    return world


def put_off(world: World, job: str, error: type[PtkStoreError] = Unavailable) -> timedelta:
    """Work on an opened job that is put off, and wait until it is due again; returns for how long that was."""
    with pytest.raises(error):
        world.service.work_on(job)
    held = world.job(job)
    assert (held.state, held.lease_until) == (JobState.OPENED, None)
    wait = held.due_at - world.clock.now()
    world.clock.time = held.due_at
    return wait


def full(world: World, monkeypatch: pytest.MonkeyPatch, error: type[PtkStoreError] = Unavailable) -> None:
    def refuse(*_: object) -> None:
        raise error("the file system refuses to write (ENOSPC)")

    monkeypatch.setattr(type(world.service.raw), "check_writable", refuse)


def spend_and_get_no_key(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> bytes:
        raise Unavailable("the key store does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(type(world.service.keys), "opening_key", silent)
        put_off(world, TRAIN)
    assert world.train_block(0) == (0, TENTH)


def die() -> None:
    raise KeyboardInterrupt


def crash(world: World, job: str) -> None:
    world.trainer.meanwhile = die
    with pytest.raises(KeyboardInterrupt):
        world.service.work_on(job)
    world.clock.pass_(minutes=2)


def expect_published(world: World) -> None:
    world.work()
    world.clock.pass_(minutes=2)
    world.work()
    assert world.job(TRAIN).outcome is Outcome.PUBLISHED
    assert [one.number for one in world.service.versions("taxi.speed")] == [1]
    assert world.train_block(0) == (0, TENTH)
    assert world.notices() == []
    assert world.service.keys.draft_ids() == ()


@pytest.mark.parametrize("error", [Unavailable, OutcomeUnknown])
def test_a_paid_training_outlasts_a_raw_zone_that_is_full(
    reserved: World, monkeypatch: pytest.MonkeyPatch, error: type[PtkStoreError]
) -> None:
    spend_and_get_no_key(reserved, monkeypatch)
    with monkeypatch.context() as patch:
        full(reserved, patch, error)
        waits = [put_off(reserved, TRAIN, error) for _ in range(OFTEN)]
    assert waits == sorted(waits)
    assert waits[0] < waits[1] < LONGEST == waits[-1]
    expect_published(reserved)
    assert len(reserved.trainer.requests) == 1


@pytest.mark.long
def test_a_paid_partial_outlasts_a_raw_zone_that_is_full(
    split: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    split.trainer.failing = RunFailed(STAGING_FAILED)
    put_off(split, PARTIAL)
    with monkeypatch.context() as patch:
        full(split, patch)
        waits = [put_off(split, PARTIAL) for _ in range(OFTEN)]
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST
    expect_published(split)


def test_waiting_gives_back_no_attempt_that_took_a_worker_down(
    reserved: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(MAX_ATTEMPTS):
        crash(reserved, TRAIN)
        with monkeypatch.context() as patch:
            full(reserved, patch)
            put_off(reserved, TRAIN)
            put_off(reserved, TRAIN)
    reserved.work()
    assert len(reserved.trainer.requests) == MAX_ATTEMPTS
    assert reserved.job(TRAIN).outcome is Outcome.FAILED
    assert reserved.notices() == [("taxi.speed window 0", "failed")]


def test_a_paid_partial_whose_worker_dies_each_time_ends_though_it_waits_meanwhile(
    split: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(MAX_ATTEMPTS):
        crash(split, PARTIAL)
        with monkeypatch.context() as patch:
            full(split, patch)
            put_off(split, PARTIAL)
    split.work()
    assert split.job(TRAIN).outcome is Outcome.FAILED
    assert split.notices() == [("taxi.speed window 0", "failed")]


def test_what_is_broken_is_not_waited_for(reserved: World, monkeypatch: pytest.MonkeyPatch) -> None:
    spend_and_get_no_key(reserved, monkeypatch)
    full(reserved, monkeypatch, CorruptObject)
    waits = [put_off(reserved, TRAIN, CorruptObject) for _ in range(MAX_ATTEMPTS)]
    assert waits[-1] == LONGEST
    monkeypatch.undo()
    reserved.work()
    assert reserved.job(TRAIN).outcome is Outcome.FAILED


def test_an_own_run_whose_loss_is_spent_waits_but_opens_nothing_again(
    reserved: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reserved.service.begin() as uow:
        uow.ptks.replace(replace(uow.ptks.get("taxi.speed"), assurance=Assurance.ASSERTED))
        uow.commit()
    spend_and_get_no_key(reserved, monkeypatch)
    with monkeypatch.context() as patch:
        full(reserved, patch)
        put_off(reserved, TRAIN)
    reserved.work()
    assert reserved.job(TRAIN).outcome is Outcome.FAILED
    assert len(reserved.trainer.requests) == 0
    assert reserved.train_block(0) == (0, TENTH)


@pytest.mark.parametrize("starts", [True, False], ids=["soon", "never"])
def test_an_own_run_for_which_no_process_starts_goes_on_under_its_spend(
    reserved: World, monkeypatch: pytest.MonkeyPatch, starts: bool
) -> None:
    with reserved.service.begin() as uow:
        uow.ptks.replace(replace(uow.ptks.get("taxi.speed"), assurance=Assurance.ASSERTED))
        uow.commit()
    train, refused = reserved.trainer.train, []

    def crowded(request: TrainRequest, keep_alive: Callable[[], None]) -> Draft | RunFailed:
        if not starts or len(refused) < OFTEN:
            refused.append(reserved.train_block(0))
            raise NoProcess("the machine starts no process now")
        return train(request, keep_alive)

    monkeypatch.setattr(reserved.trainer, "train", crowded)
    if starts:
        reserved.work("train")
        assert len(refused) == OFTEN
    else:
        put_off(reserved, TRAIN, NoProcess)
        assert len(refused) > MAX_ATTEMPTS
        reserved.work()
    assert set(refused) == {(0, TENTH)}  # spent once, before any of it
    assert reserved.job(TRAIN).outcome is (Outcome.PUBLISHED if starts else Outcome.FAILED)
    assert len(reserved.trainer.requests) == (1 if starts else 0)
    assert reserved.train_block(0) == (0, TENTH)
