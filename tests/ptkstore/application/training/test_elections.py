"""Elections while the catalog is away or does not answer: what was paid for is elected, once, and never destroyed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.jobs import JobState, Outcome
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.versions import Version
from ptkstore.errors import CatalogBehind, Unavailable
from ptkstore.ports.row_processes import RunFailed
from tests.support.catalog_copies import catalog_of, put_back
from tests.support.catalog_faults import TICK, Faults
from tests.support.world import STREAM, World

PTK = "taxi.speed"
TRAIN = f"train/{PTK}/0"
TENTH = 10**8


@pytest.fixture
def faults(catalog_faults: Faults) -> Faults:
    """One PTK with a reservation on a window that nobody has opened."""
    reserved(catalog_faults.world)
    return catalog_faults


def reserved(world: World) -> None:
    world.stream()
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")


def with_team_code(world: World) -> None:
    """What is asked of team code before a second run, without a sandbox: it gets none."""
    with world.service.begin() as uow:
        uow.ptks.replace(replace(uow.ptks.get(PTK), assurance=Assurance.ASSERTED))
        uow.commit()


def expect_published(world: World) -> Version:
    """Once, for one spend and one opening of rows, with the bytes that were elected."""
    with world.service.begin() as uow:
        (version,) = uow.versions.of(PTK)
    assert world.drafts() == [version.draft_id]
    world.clock.pass_(minutes=2)
    world.work()
    assert [v.number for v in world.service.versions(PTK)] == [1]
    assert (world.job(TRAIN).state, world.job(TRAIN).outcome) == (JobState.ENDED, Outcome.PUBLISHED)
    assert world.train_block(0) == (0, TENTH)
    assert len(world.trainer.requests) == 1
    assert world.drafts() == []
    assert world.notices() == []
    return version


@pytest.mark.parametrize("seconds", [5, 10, 50, 300])  # a lease is 60 s
def test_team_code_is_elected_at_the_first_tick_at_which_the_catalog_answers(
    faults: Faults, seconds: int
) -> None:
    world = faults.world
    with_team_code(world)
    faults.away_for(seconds)
    began = world.clock.now()
    assert world.service.work_on(TRAIN)
    waited = expect_published(world).elected_at - began
    assert timedelta(seconds=seconds) <= waited <= timedelta(seconds=seconds) + TICK
    assert waited % TICK == timedelta(0)


def test_nobody_waits_longer_for_the_catalog_than_for_the_longest_training(faults: Faults) -> None:
    world = faults.world
    faults.away_for(1e6)
    began = world.clock.now()
    with pytest.raises(Unavailable):
        world.service.work_on(TRAIN)
    most = timedelta(seconds=world.service.settings.train_timeout_seconds)
    assert most <= world.clock.now() - began <= most + 2 * TICK
    assert len(world.drafts()) == 1  # nobody knows yet that it is of no use
    faults.back()
    world.clock.pass_(minutes=2)
    world.work()
    assert [v.number for v in world.service.versions(PTK)] == [1]
    assert world.train_block(0) == (0, TENTH)


def test_who_is_told_to_stop_waits_no_longer_for_the_catalog(faults: Faults) -> None:
    world = faults.world
    faults.away_for(1e6)
    waits: list[int] = []

    def told() -> bool:
        waits.append(1)
        return len(waits) > 3

    world.service.must_stop = told
    began = world.clock.now()
    with pytest.raises(Unavailable):
        world.service.work_on(TRAIN)
    assert world.clock.now() - began == 3 * TICK
    assert len(world.drafts()) == 1


def test_who_is_told_to_stop_still_elects_what_has_ended(faults: Faults) -> None:
    faults.world.service.must_stop = lambda: True
    assert faults.world.service.work_on(TRAIN)
    expect_published(faults.world)


@pytest.mark.parametrize("own", [False, True], ids=["library", "own"])
@pytest.mark.parametrize("done", [False, True], ids=["lost", "unheard"])
def test_an_election_whose_commit_nobody_answered_is_looked_at(faults: Faults, done: bool, own: bool) -> None:
    world = faults.world
    if own:
        with_team_code(world)
    world.steps.at["trained"] = lambda: faults.unanswered(done)
    assert world.service.work_on(TRAIN)
    expect_published(world)


@pytest.mark.parametrize("done", [False, True], ids=["lost", "unheard"])
def test_an_election_that_nobody_answered_is_looked_at_however_late(faults: Faults, done: bool) -> None:
    world = faults.world
    until = world.clock.now() + timedelta(minutes=5)
    with_team_code(world)

    def meanwhile() -> None:
        faults.back() if world.clock.now() >= until else faults.away()

    def trained() -> None:
        faults.unanswered(done)
        faults.meanwhile = meanwhile

    world.steps.at["trained"] = trained
    assert world.service.work_on(TRAIN)
    assert world.clock.now() >= until
    expect_published(world)


def test_a_draft_stays_that_was_elected_unheard_before_its_ptk_went(faults: Faults) -> None:
    world = faults.world

    def deregister() -> None:
        faults.meanwhile = lambda: None
        world.service.deregister_ptk(PTK)

    def trained() -> None:
        faults.unanswered(done=True)
        faults.meanwhile = deregister

    world.steps.at["trained"] = trained
    assert world.service.work_on(TRAIN)
    with world.service.begin() as uow:
        (version,) = uow.versions.of(PTK)
    assert world.drafts() == [version.draft_id]
    world.work("place")
    assert world.service.lake.holds(version)


@pytest.mark.parametrize("unanswered", [False, True], ids=["away", "unanswered"])
def test_who_lost_the_job_while_the_catalog_was_away_elects_nothing(faults: Faults, unanswered: bool) -> None:
    world = faults.world

    def take_over() -> None:
        faults.meanwhile = lambda: None
        faults.back()
        world.clock.pass_(minutes=2)
        assert world.service.work_on(TRAIN)

    def trained() -> None:
        faults.meanwhile = take_over
        faults.unanswered(done=False) if unanswered else faults.away()

    world.steps.at["trained"] = trained
    assert world.service.work_on(TRAIN)
    with world.service.begin() as uow:
        (version,) = uow.versions.of(PTK)
    assert len(world.trainer.requests) == 2
    assert version.draft_id == world.trainer.requests[1].draft_id
    assert world.drafts() == [version.draft_id]
    assert world.train_block(0) == (0, TENTH)


def test_a_library_run_that_failed_is_not_run_again_because_the_catalog_was_away(faults: Faults) -> None:
    world = faults.world
    world.trainer.failing = RunFailed("memory-limit")
    wait = world.service.trainer.train

    def train(*given: object) -> object:
        ended = wait(*given)  # type: ignore[arg-type]
        until = world.clock.now() + timedelta(seconds=10)
        faults.away()
        faults.meanwhile = lambda: faults.back() if world.clock.now() >= until else None
        return ended

    world.service.trainer.train = train  # type: ignore[method-assign,assignment]
    assert world.service.work_on(TRAIN)
    assert world.job(TRAIN).outcome is Outcome.FAILED
    world.clock.pass_(minutes=2)
    assert world.work() == []
    assert len(world.trainer.requests) == 1
    assert world.notices() == [("taxi.speed window 0", "memory-limit")]


def test_a_catalog_restored_meanwhile_elects_nothing_that_it_does_not_know_to_be_spent(
    in_files: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = in_files
    monkeypatch.setattr("time.sleep", lambda seconds: world.clock.pass_(seconds=seconds))
    reserved(world)
    home = Path(world.service.settings.root)
    copies: list[bytes] = []

    def restore() -> None:
        world.service.catalog.close()
        put_back(home, copies[-1])

    world.steps.at["claimed"] = lambda: copies.append(catalog_of(home))
    world.steps.at["trained"] = restore
    with pytest.raises(CatalogBehind):
        world.service.work_on(TRAIN)
    with world.service.begin() as uow:
        assert uow.versions.of(PTK) == ()
    assert len(world.drafts()) == 1


def test_elected_drafts_are_found_by_the_windows_of_their_runs(catalog_faults: Faults) -> None:
    world = catalog_faults.world
    world.stream()
    world.register()
    for day in range(2):
        world.publish(day)
    with world.service.read() as uow:
        drafts = uow.versions.draft_ids()
        by_window = [uow.versions.draft_ids([WindowId(STREAM, index)]) for index in range(12)]
        assert [sorted(one.split(".")[1] for one in found) for found in by_window] == [
            ["0"],
            ["1"],
            *[[]] * 10,
        ]
        assert uow.versions.draft_ids([WindowId(STREAM, 0), WindowId(STREAM, 1)]) == drafts
        assert uow.versions.draft_ids([WindowId("tax", 0), WindowId("ta_i", 0)]) == frozenset()
        assert uow.versions.draft_ids([]) == frozenset()
