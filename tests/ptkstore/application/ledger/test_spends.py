"""Spends whose commit nobody answered: whoever spent looks, and opens the rows once, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.jobs import JobState, Outcome
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.errors import OutcomeUnknown, Unavailable
from tests.support.catalog_faults import TICK, Faults
from tests.support.world import DAY, ORIGIN, STREAM, World

PTK = "taxi.speed"
TRAIN = f"train/{PTK}/0"
TENTH = 10**8
N = 4


@pytest.fixture(params=["library", "own"])
def faults(request: pytest.FixtureRequest, catalog_faults: Faults) -> Faults:
    """A reservation of a PTK of either kind on a window that nobody has opened."""
    made = catalog_faults.world
    made.stream()
    made.register()
    made.ingest([i / 200 for i in range(160)])
    made.close(1)
    made.work("prepare", "allocate")
    if request.param == "own":  # but for the sandbox
        with made.service.begin() as uow:
            uow.ptks.replace(replace(uow.ptks.get(PTK), assurance=Assurance.ASSERTED))
            uow.commit()
    return catalog_faults


def at_the_spend(faults: Faults, done: bool, then: Callable[[], object] = lambda: None) -> None:
    """The commit of the spend is not answered; afterwards `then`."""
    faults.world.steps.at["claimed"] = lambda: (faults.unanswered(done), then())


def kinds(world: World) -> list[EntryKind]:
    with world.service.begin() as uow:
        return [entry.kind for entry in uow.ledger.history(TRAIN)]


def expect_one_run(world: World) -> None:
    """One spend, one opening of rows, one version."""
    world.work()
    assert (world.job(TRAIN).state, world.job(TRAIN).outcome) == (JobState.ENDED, Outcome.PUBLISHED)
    assert [v.number for v in world.service.versions(PTK)] == [1]
    assert kinds(world) == [EntryKind.RESERVE, EntryKind.SPEND]
    assert world.train_block(0) == (0, TENTH)
    assert len(world.trainer.requests) == 1
    assert world.notices() == []
    assert world.service.verify_ledger(STREAM).faults == ()


@pytest.mark.parametrize("done", [False, True], ids=["lost", "unheard"])
def test_a_spend_that_nobody_answered_is_looked_at_and_its_run_goes_on(faults: Faults, done: bool) -> None:
    began = faults.world.clock.now()
    at_the_spend(faults, done)
    assert faults.world.service.work_on(TRAIN)
    assert faults.world.clock.now() - began < TICK  # nobody waits for more than the answer
    expect_one_run(faults.world)
    assert faults.world.job(TRAIN).fence == 1


@pytest.mark.long
@pytest.mark.parametrize("done", [False, True], ids=["lost", "unheard"])
@pytest.mark.parametrize("seconds", [5, 50, 300])  # a lease is 60 s
def test_a_spend_that_nobody_answered_is_looked_at_however_late(
    faults: Faults, done: bool, seconds: int
) -> None:
    world = faults.world
    until = world.clock.now() + timedelta(seconds=seconds)

    def meanwhile() -> None:
        faults.back() if world.clock.now() >= until else faults.away()

    waited(faults, meanwhile)
    at_the_spend(faults, done)
    assert world.service.work_on(TRAIN)
    assert until <= world.clock.now() <= until + 2 * TICK
    expect_one_run(world)


def waited(faults: Faults, meanwhile: Callable[[], None]) -> None:
    """The first look fails; before each later one `meanwhile`."""
    together = faults.world.service.charges.together

    def at_first(*given: object) -> object:
        faults.world.service.charges.together = looked  # type: ignore[method-assign,assignment]
        return together(*given)  # type: ignore[arg-type]

    def looked(*given: object) -> object:
        faults.world.service.charges.together = together  # type: ignore[method-assign]
        faults.meanwhile = meanwhile
        raise Unavailable("not yet")

    faults.world.service.charges.together = at_first  # type: ignore[method-assign,assignment]


def test_a_catalog_away_before_the_spend_puts_the_training_off_at_once(faults: Faults) -> None:
    world = faults.world
    began = world.clock.now()
    faults.away_for(5, "claimed")
    with pytest.raises(Unavailable):
        world.service.work_on(TRAIN)
    assert world.clock.now() == began
    assert len(world.trainer.requests) == 0
    faults.back()
    assert kinds(world) == [EntryKind.RESERVE]
    world.clock.pass_(minutes=2)
    expect_one_run(world)


def test_team_code_whose_loss_is_spent_waits_for_its_key(faults: Faults) -> None:
    world = faults.world
    with world.service.begin() as uow:
        own = uow.ptks.get(PTK).assurance is Assurance.ASSERTED
    faults.away_for(10, "spent")
    if own:
        assert world.service.work_on(TRAIN)
        assert world.job(TRAIN).fence == 1
    else:  # another worker may have it
        with pytest.raises(Unavailable):
            world.service.work_on(TRAIN)
        faults.back()
        world.clock.pass_(minutes=2)
    expect_one_run(world)


def test_who_lost_the_job_before_it_could_look_opens_nothing(faults: Faults) -> None:
    world = faults.world

    def take_over() -> None:
        faults.meanwhile = lambda: None
        world.clock.pass_(minutes=2)
        world.service.work_on(TRAIN)

    waited(faults, take_over)
    at_the_spend(faults, done=True)
    assert world.service.work_on(TRAIN)
    assert world.train_block(0) == (0, TENTH)
    assert kinds(world) == [EntryKind.RESERVE, EntryKind.SPEND]
    library = len(world.trainer.requests)  # by whoever took over; team code is not run by somebody else
    assert world.job(TRAIN).outcome is (Outcome.PUBLISHED if library else Outcome.FAILED)
    assert world.job(TRAIN).fence == 2


def test_who_is_told_to_stop_looks_once_and_the_loss_stays_spent(faults: Faults) -> None:
    world = faults.world
    world.service.must_stop = lambda: True
    at_the_spend(faults, done=True)
    waited(faults, lambda: None)
    with pytest.raises((Unavailable, OutcomeUnknown)):
        world.service.work_on(TRAIN)
    assert len(world.trainer.requests) == 0
    assert world.train_block(0) == (0, TENTH)


@pytest.mark.parametrize("done", [False, True], ids=["lost", "unheard"])
def test_a_window_that_expired_before_it_could_be_looked_opens_nothing(faults: Faults, done: bool) -> None:
    world = faults.world

    def leaves() -> None:
        faults.meanwhile = lambda: None
        world.service.close_windows(STREAM, ORIGIN + 3 * DAY, expire_unfinished=True)

    waited(faults, leaves)
    at_the_spend(faults, done)
    assert world.service.work_on(TRAIN)
    assert world.job(TRAIN).outcome is Outcome.EXPIRED
    assert len(world.trainer.requests) == 0
    assert world.train_block(0) == (0, TENTH if done else 0)


@pytest.mark.parametrize("done", [False, True], ids=["lost", "unheard"])
def test_a_split_that_nobody_answered_is_split_once(catalog_faults: Faults, done: bool) -> None:
    world = catalog_faults.world
    world.service.__dict__["settings"] = world.service.settings.model_copy(update={"rows_per_partial": 20})
    world.stream()
    world.register()
    world.ingest([i / 200 for i in range(160)])
    world.close(1)
    world.work("prepare", "allocate")
    at_the_spend(catalog_faults, done)
    assert world.service.work_on(TRAIN)
    assert (world.job(TRAIN).state, world.job(TRAIN).lease_until) == (JobState.OPENED, None)
    assert len(world.trainer.collected) == 0
    expect_one_run(world)
    assert len(world.trainer.collected) == N
