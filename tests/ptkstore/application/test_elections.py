"""Elections while the catalog is away or does not answer: what was paid for is elected, once, and never destroyed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from ptkstore.adapters.sql.catalog import SqlCatalog, SqlUnitOfWork
from ptkstore.domain.jobs import JobState, Outcome
from ptkstore.domain.snapshots import Version
from ptkstore.domain.streams import Assurance
from ptkstore.errors import CatalogBehind, OutcomeUnknown, Unavailable
from ptkstore.ports.training import TrainFailed
from tests.ptkstore.application.world import World
from tests.services import wire
from tests.services.postgres import Postgres
from tests.services.wire import FaultyWire

PTK = "taxi.speed"
TRAIN = f"train/{PTK}/0"
TENTH = 10**8
TICK = timedelta(seconds=2)  # as by default, like the lease of 60
COMMIT = b"COMMIT\0"  # not the READ COMMITTED of a beginning


class Faults:
    """What befalls the catalog of a world once its training has ended; `back` is when it answers again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.meanwhile: Callable[[], object] = lambda: None

    def away(self) -> None:
        raise NotImplementedError

    def back(self) -> None:
        raise NotImplementedError

    def unanswered(self, done: bool) -> None:
        """The next commit, which is done or not."""
        raise NotImplementedError

    def away_for(self, seconds: float) -> None:
        """From the end of the training on, by the clock."""
        clock = self.world.clock

        def leaves() -> None:
            until = clock.now() + timedelta(seconds=seconds)
            self.meanwhile = lambda: self.back() if clock.now() >= until else None
            self.away()

        self.world.steps.at["trained"] = leaves

    def sleep(self, seconds: float) -> None:
        self.world.clock.pass_(seconds=seconds)
        self.meanwhile()


class InFiles(Faults):
    """Of a catalog in SQLite."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(world)
        self._patch = monkeypatch
        self._begin, self._commit = SqlCatalog._begin, SqlUnitOfWork.commit

    def away(self) -> None:
        def begin(*_: object, **__: object) -> None:
            raise Unavailable("the catalog does not answer")

        self._patch.setattr(SqlCatalog, "_begin", begin)

    def back(self) -> None:
        self._patch.setattr(SqlCatalog, "_begin", self._begin)

    def unanswered(self, done: bool) -> None:
        def commit(uow: SqlUnitOfWork) -> None:
            self._patch.setattr(SqlUnitOfWork, "commit", self._commit)
            if done:
                self._commit(uow)
            raise OutcomeUnknown("no answer came")

        self._patch.setattr(SqlUnitOfWork, "commit", commit)


class OnTheWire(Faults):
    """Of a catalog in PostgreSQL."""

    def __init__(self, world: World, faulty: FaultyWire) -> None:
        super().__init__(world)
        self._faulty = faulty

    def away(self) -> None:
        self._faulty.refusing = True
        self._faulty.strike("cut-before")  # of a connection that is open: the others are then opened anew

    def back(self) -> None:
        self._faulty.heal()

    def unanswered(self, done: bool) -> None:
        self._faulty.strike("cut-after" if done else "cut-before", COMMIT)


@pytest.fixture
def on_postgres(tmp_path: Path, postgres: Postgres) -> Iterator[tuple[World, FaultyWire]]:
    with (
        postgres.fresh_database() as url,
        wire.between_us_and(f"{postgres.directory}/.s.PGSQL.5432") as faulty,
    ):
        name = make_url(url).database
        options = "sslmode=disable&gssencmode=disable"
        url = f"postgresql+psycopg://postgres@127.0.0.1:{faulty.port}/{name}?{options}"
        world = World(tmp_path / "home", database_url=url, publish_tick_seconds=2.0)
        yield world, faulty
        faulty.heal()
        world.service.close()


@pytest.fixture
def in_files(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "home", publish_tick_seconds=2.0)
    yield world
    world.service.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.real)])
def faults(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Faults:
    """One PTK with a reservation on a window that nobody has opened."""
    made: Faults
    if request.param == "sqlite":
        made = InFiles(request.getfixturevalue("in_files"), monkeypatch)
    else:
        made = OnTheWire(*request.getfixturevalue("on_postgres"))
    monkeypatch.setattr("time.sleep", made.sleep)
    world = made.world
    world.stream()
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")
    return made


def with_own_code(world: World) -> None:
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
def test_own_code_is_elected_at_the_first_tick_at_which_the_catalog_answers(
    faults: Faults, seconds: int
) -> None:
    world = faults.world
    with_own_code(world)
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

    world.service.told_to_stop = told
    began = world.clock.now()
    with pytest.raises(Unavailable):
        world.service.work_on(TRAIN)
    assert world.clock.now() - began == 3 * TICK
    assert len(world.drafts()) == 1


def test_who_is_told_to_stop_still_elects_what_has_ended(faults: Faults) -> None:
    faults.world.service.told_to_stop = lambda: True
    assert faults.world.service.work_on(TRAIN)
    expect_published(faults.world)


@pytest.mark.parametrize("own", [False, True], ids=["library", "own"])
@pytest.mark.parametrize("done", [False, True], ids=["lost", "unheard"])
def test_an_election_whose_commit_nobody_answered_is_looked_at(faults: Faults, done: bool, own: bool) -> None:
    world = faults.world
    if own:
        with_own_code(world)
    world.steps.at["trained"] = lambda: faults.unanswered(done)
    assert world.service.work_on(TRAIN)
    expect_published(world)


@pytest.mark.parametrize("done", [False, True], ids=["lost", "unheard"])
def test_an_election_that_nobody_answered_is_looked_at_however_late(faults: Faults, done: bool) -> None:
    world = faults.world
    until = world.clock.now() + timedelta(minutes=5)
    with_own_code(world)

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
    world.trainer.failing = TrainFailed("memory-limit")
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
    world.stream()
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")
    home = Path(world.service.settings.root)
    backup: dict[str, bytes] = {}

    def copy() -> None:
        backup.update({path.name: path.read_bytes() for path in home.glob("catalog.db*")})

    def restore() -> None:
        world.service.catalog.close()
        for path in home.glob("catalog.db*"):
            path.unlink()
        for name, content in backup.items():
            (home / name).write_bytes(content)

    world.steps.at["claimed"] = copy
    world.steps.at["trained"] = restore
    with pytest.raises(CatalogBehind):
        world.service.work_on(TRAIN)
    with world.service.begin() as uow:
        assert uow.versions.of(PTK) == ()
    assert len(world.drafts()) == 1
