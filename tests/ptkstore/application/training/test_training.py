"""Trainings: the loss first, one output per reservation, states continued, failures that keep their cost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ptkstore.adapters.runtime import SystemClock
from ptkstore.adapters.sandbox.parent import ChildRuns
from ptkstore.adapters.sql.ptks.ptks import SqlPtks
from ptkstore.domain.accounting.accountants import Accountant, Charge
from ptkstore.domain.jobs import MAX_ATTEMPTS, JobKind, JobState, Outcome
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.streams.windows import WindowState
from ptkstore.domain.versions.versions import Version
from ptkstore.errors import CatalogBehind, CorruptObject, Unavailable, UnknownName, WindowGone
from ptkstore.ports.row_processes import RunFailed
from tests.support.builders import request
from tests.support.catalog_copies import catalog_of, put_back
from tests.support.world import STREAM, World, speed

TENTH = 10**8
TRAIN = "train/taxi.speed/0"


@pytest.fixture
def ready(world: World) -> World:
    """One PTK with a reservation on a window that nobody has opened."""
    world.register()
    world.ingest([i / 50 for i in range(40)])
    world.close(1)
    world.work("prepare", "allocate")
    return world


@pytest.fixture
def process(tmp_path: Path) -> Iterator[World]:
    """A world whose rows are opened in processes, as they are in earnest."""
    world = World(tmp_path / "home")
    world.in_processes()
    world.stream()
    yield world
    world.service.close()


def test_the_loss_is_spent_before_the_key_is_asked_for(ready: World) -> None:
    asked: list[tuple[int, int]] = []
    opening_key = ready.service.keys.opening_key

    def watched(*args: object) -> bytes:
        asked.append(ready.train_block(0))
        return opening_key(*args)  # type: ignore[arg-type]

    ready.service.keys.opening_key = watched  # type: ignore[method-assign,assignment]
    ready.work("train")
    assert asked == [(0, TENTH)]


@pytest.mark.long
def test_a_training_in_a_process_of_its_own_is_elected_placed_and_verified(process: World) -> None:
    assert isinstance(process.service.trainer, ChildRuns)
    ptk_id = process.register()
    process.ingest([i / 50 for i in range(40)])
    process.close(1)
    process.work()
    (version,) = process.service.versions(ptk_id)
    manifest, files = process.service.lake.read_version(ptk_id, 1)
    assert manifest == version.content
    assert [f["name"] for f in version.content["files"]] == list(files)
    assert version.content["guarantee"] | {"event": ...} == {
        "epsilon": pytest.approx(0.1),
        "delta": 0.0,
        "event": ...,
        "privacy_unit": "record",
        "relation": "add_remove",
        "accountant": "renyi",
        "assurance": "library",
    }
    assert process.drafts() == []
    assert process.train_block(0) == (0, TENTH)


def test_a_training_that_fails_in_its_process_keeps_the_spend_and_says_a_fixed_code(process: World) -> None:
    ptk_id = process.register()
    process.ingest()
    process.close(1)
    process.work("prepare", "allocate")
    for part in Path(process.service.settings.raw).rglob("parts/2.parquet"):
        part.write_bytes(part.read_bytes()[:-100] + bytes(100))
    process.work()
    assert process.train_block(0) == (0, TENTH)
    assert process.job(TRAIN).outcome is Outcome.FAILED
    assert process.notices() == [("taxi.speed window 0", "rows-corrupt")]
    assert process.service.versions(ptk_id) == ()


def test_a_failed_training_keeps_the_spend_publishes_nothing_and_is_not_tried_again(ready: World) -> None:
    ready.trainer.failing = RunFailed("memory-limit")
    assert ready.work() == [TRAIN]
    assert ready.train_block(0) == (0, TENTH)
    assert (ready.job(TRAIN).state, ready.job(TRAIN).outcome) == (JobState.ENDED, Outcome.FAILED)
    assert ready.notices() == [("taxi.speed window 0", "memory-limit")]
    assert ready.service.versions("taxi.speed") == ()
    ready.clock.pass_(days=1)
    assert ready.work() == []
    ready.publish(1)  # the next window is trained as if nothing had been
    assert [v.number for v in ready.service.versions("taxi.speed")] == [1]


@pytest.mark.parametrize("step", ["claimed", "spent", "opened", "trained"])
def test_a_worker_that_dies_at_any_step_costs_one_spend_and_leaves_one_version(
    ready: World, step: str
) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    ready.steps.at[step] = die
    with pytest.raises(KeyboardInterrupt):
        ready.work()
    assert ready.work() == []  # the lease still stands
    ready.clock.pass_(minutes=2)
    ready.work()
    assert ready.train_block(0) == (0, TENTH)
    assert [v.number for v in ready.service.versions("taxi.speed")] == [1]
    assert ready.service.verify_ledger(STREAM).faults == ()


def test_a_worker_whose_lease_was_lost_elects_nothing(ready: World) -> None:
    def take_over() -> None:
        ready.clock.pass_(minutes=2)
        assert ready.service.work_on(TRAIN)

    ready.steps.at["trained"] = take_over
    assert ready.service.work_on(TRAIN)
    with ready.service.begin() as uow:
        (version,) = uow.versions.of("taxi.speed")
    assert ready.drafts() == [version.draft_id]
    assert ready.train_block(0) == (0, TENTH)


def test_a_lease_lost_during_the_training_stops_it(ready: World) -> None:
    ready.trainer.meanwhile = lambda: (ready.clock.pass_(minutes=2), ready.service.work_on(TRAIN))
    assert ready.service.work_on(TRAIN)
    with ready.service.begin() as uow:
        assert len(uow.versions.of("taxi.speed")) == 1
    assert len(ready.trainer.requests) == 2


def test_a_training_that_takes_its_worker_down_again_and_again_is_given_up(ready: World) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    for _ in range(MAX_ATTEMPTS):
        ready.trainer.meanwhile = die
        with pytest.raises(KeyboardInterrupt):
            ready.service.work_on(TRAIN)
        ready.clock.pass_(minutes=2)
    assert ready.work() == [TRAIN]
    assert len(ready.trainer.requests) == MAX_ATTEMPTS
    assert ready.job(TRAIN).outcome is Outcome.FAILED
    assert ready.train_block(0) == (0, TENTH)


def test_a_restored_catalog_that_takes_the_same_steps_again_opens_nothing(ready: World) -> None:
    home = Path(ready.service.settings.root)
    earlier = catalog_of(home)
    ready.work()
    ready.service.close()
    del ready.service.__dict__["catalog"]
    put_back(home, earlier)
    trained = len(ready.trainer.requests)
    with pytest.raises(CatalogBehind):
        ready.service.work_on(TRAIN)
    assert len(ready.trainer.requests) == trained


# states continue


def test_a_state_is_continued_from_the_last_version(world: World) -> None:
    ptk_id = world.register()
    for day in range(3):
        world.publish(day)
    previous = [one.previous_state for one in world.trainer.requests]
    assert previous[0] is None
    assert [sorted(p) for p in previous[1:] if p] == [["state.json", "statistics.parquet"]] * 2
    third = world.service.versions(ptk_id)[2].content
    assert [block["number"] for block in third["blocks"]] == [2, 130, 258]
    assert third["oldest_contributing_window"]["index"] == 0
    assert third["newest_contributing_window"]["index"] == 2
    assert third["guarantee"]["epsilon"] == pytest.approx(0.1)  # of the last training; blocks are disjoint


@pytest.mark.parametrize(
    ("estimator", "continues"), [(speed(0.2), True), (speed(0.1, top=80.0), False)], ids=["loss", "bounds"]
)
def test_a_changed_model_starts_anew_and_a_changed_loss_alone_goes_on(
    world: World, estimator: object, continues: bool
) -> None:
    ptk_id = world.register()
    world.publish(0)
    world.service.update_ptk(ptk_id, estimator=estimator)  # type: ignore[arg-type]
    world.publish(1)
    assert (world.trainer.requests[1].previous_state is not None) is continues
    second = world.service.versions(ptk_id)[1].content
    assert second["oldest_contributing_window"]["index"] == (0 if continues else 1)
    assert len(second["blocks"]) == (2 if continues else 1)


def test_a_ptk_trained_every_second_window_leaves_the_others_alone(world: World) -> None:
    ptk_id = world.register(train_frequency="2d")
    for day in range(4):
        world.publish(day)
    versions = world.service.versions(ptk_id)
    assert [v.window_index for v in versions] == [0, 2]
    assert [world.train_block(w) for w in range(4)] == [(0, TENTH), (0, 0), (0, TENTH), (0, 0)]


def test_a_lake_that_does_not_answer_costs_no_loss(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.register()
    world.publish(0)
    world.ingest((1.5,))
    world.close(2)
    world.work("prepare", "allocate")

    def silent(*_: object) -> None:
        raise Unavailable("the lake does not answer")

    monkeypatch.setattr(world.service.lake, "read_version", silent)
    with pytest.raises(Unavailable):
        world.work("train")
    assert world.train_block(1) == (TENTH, 0)
    monkeypatch.undo()
    world.clock.pass_(minutes=1)
    world.work("train")
    assert world.train_block(1) == (0, TENTH)


# planning


def test_each_ptk_is_charged_on_its_train_partition_only(world: World) -> None:
    world.register("a", 0.4)
    world.register("b", 0.6)
    world.close(1)
    world.work()
    blocks = {b.number: b.spent.epsilon_nano for b in world.service.budget(STREAM)}
    assert blocks == {0: 0, 1: 0, 2: 10 * TENTH}


def test_a_ptk_that_does_not_fit_a_block_is_refused_told_and_disturbs_nobody(world: World) -> None:
    world.register("a", 0.4)
    world.register("b", 0.6)
    world.close(1)
    world.work("prepare")
    with world.service.begin() as uow:  # somebody else was first on this block
        wish = request("elsewhere", 0.5, (2, 3))
        wish = replace(wish, charge=Charge.pure(Accountant.RENYI, wish.loss))
        uow.ledger.append(wish, EntryKind.RESERVE, {})
        uow.commit()
    world.work()
    assert world.job("train/taxi.b/0").outcome is Outcome.REFUSED
    assert world.notices() == [("taxi.b window 0", "budget-denied")]
    assert [len(world.service.versions(p)) for p in ("taxi.a", "taxi.b")] == [1, 0]
    assert world.train_block(0) == (5 * TENTH, 4 * TENTH)


def test_a_window_is_allocated_once_however_often_the_job_comes(world: World) -> None:
    world.register()
    world.close(1)
    world.work("prepare")

    def again() -> None:
        assert not world.service.work_on("allocate/taxi/0")

    world.steps.at["reserved"] = again
    world.work("allocate")
    assert world.train_block(0) == (TENTH, 0)


# placing


@pytest.mark.parametrize("step", ["claimed", "placed", "draft-destroyed"])
def test_a_placing_that_breaks_off_is_finished_with_the_same_bytes(ready: World, step: str) -> None:
    ready.work("train")

    def die() -> None:
        raise KeyboardInterrupt

    ready.steps.at[step] = die
    with pytest.raises(KeyboardInterrupt):
        ready.work("place")
    ready.clock.pass_(minutes=2)
    ready.work("place")
    with ready.service.begin() as uow:
        version = uow.versions.get("taxi.speed", 1)
    assert ready.service.lake.holds(version)
    assert ready.drafts() == []
    with pytest.raises(WindowGone):
        ready.service.keys.draft_key(version.draft_id)


def test_a_version_is_published_only_once_it_is_in_the_lake(ready: World) -> None:
    ready.work("train")
    assert ready.service.versions("taxi.speed") == ()
    with pytest.raises(UnknownName):
        ready.service.lake.read_version("taxi.speed", 1)
    ready.work("place")
    assert [v.number for v in ready.service.versions("taxi.speed")] == [1]


def test_a_draft_changed_in_staging_is_not_placed(ready: World) -> None:
    ready.work("train")
    for file in Path(ready.service.settings.raw).rglob("statistics-*.parquet"):
        file.write_bytes(file.read_bytes()[:-1] + b"\x00")
    with pytest.raises(CorruptObject):
        ready.work("place")
    assert ready.service.versions("taxi.speed") == ()
    with pytest.raises(UnknownName):
        ready.service.lake.read_version("taxi.speed", 1)


def test_work_that_cannot_be_done_now_is_put_off_longer_each_time(
    ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> Callable[[], None]:
        raise Unavailable("the lake does not answer")

    ready.work("train")
    monkeypatch.setattr(ready.service.lake, "holds", silent)
    waits = []
    for _ in range(4):
        with pytest.raises(Unavailable):
            ready.service.work_on("place/taxi.speed")
        job = ready.cursor(JobKind.PLACE, "taxi.speed")
        assert (job.state, job.lease_until) == (JobState.READY, None)
        waits.append(job.due_at - ready.clock.now())
        ready.clock.time = job.due_at
    assert waits == [timedelta(seconds=s) for s in (0.5, 1, 2, 4)]


def test_a_manifest_edited_in_the_lake_is_not_built_upon(world: World, tmp_path: Path) -> None:
    world.register()
    world.publish(0)
    (manifest,) = (tmp_path / "home" / "lake").rglob("manifest.json")
    manifest.chmod(0o644)
    manifest.write_text(manifest.read_text().replace('"n_releases":1', '"n_releases":9'))
    with pytest.raises(CorruptObject, match="not the elected one"):
        world.service.ptk_version("taxi.speed", 1)
    world.ingest((1.5,))
    world.close(2)
    world.work("prepare", "allocate")
    world.service.work_on("train/taxi.speed/1")
    assert world.trainer.requests[1].previous_state is None
    assert world.notices() == [("taxi.speed version 2", "previous-state-unreadable")]


def test_a_catalog_that_is_away_at_the_election_costs_no_loss_but_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda span: world.clock.pass_(seconds=span))
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")
    lock, away = SqlPtks.lock, [3]

    def unavailable(ptks: SqlPtks, ptk_id: str) -> object:
        if away[0] and world.steps.seen[-1] == "trained":
            away[0] -= 1
            raise Unavailable("the catalog does not answer")
        return lock(ptks, ptk_id)

    monkeypatch.setattr(SqlPtks, "lock", unavailable)
    assert world.service.work_on("train/taxi.speed/0")
    (version,) = _versions(world)
    assert away == [0]
    assert version.elected_at == world.clock.now()
    assert world.steps.seen.count("trained") == 1  # nobody trained again


@pytest.mark.parametrize("seconds", [0.0, 0.4, 0.999])
def test_what_read_rows_shows_only_at_the_next_tick(
    world: World, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    def sleep(span: float) -> None:
        world.clock.pass_(seconds=span)

    monkeypatch.setattr("time.sleep", sleep)
    shown: dict[str, datetime] = {}
    world.register()
    world.ingest()
    world.close(1)
    for step in ("parts-written", "trained", "elected"):
        world.steps.at[step] = lambda step=step: shown.__setitem__(step, world.clock.now())
    world.clock.pass_(seconds=seconds)
    world.work("prepare", "allocate")
    world.clock.pass_(seconds=0.3)
    world.trainer.meanwhile = lambda: world.clock.pass_(seconds=0.2)  # the run takes its time
    world.work("train")
    assert set(shown) == {"parts-written", "trained", "elected"}
    assert {moment.microsecond for moment in shown.values()} == {0}
    (version,) = _versions(world)
    assert version.elected_at == shown["elected"]


def test_a_preparation_that_fails_shows_that_at_the_next_tick_and_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(span: float) -> None:
        world.clock.pass_(seconds=span)

    def fail() -> None:
        world.clock.pass_(seconds=0.3)
        raise Unavailable("the process was killed")

    monkeypatch.setattr("time.sleep", sleep)
    world.register()
    world.ingest()
    world.close(1)
    world.preparer.meanwhile = fail
    with pytest.raises(Unavailable):
        world.service.work_on("prepare/taxi/0")
    assert world.clock.now().microsecond == 0
    assert "parts-written" not in world.steps.seen
    world.clock.pass_(seconds=1)
    assert world.service.work_on("prepare/taxi/0")
    assert world.state(0) is WindowState.PREPARED


def test_a_preparation_whose_lease_was_lost_changes_nothing(world: World) -> None:
    world.register()
    world.ingest()
    world.close(1)

    def somebody_else_takes_it() -> None:
        world.clock.pass_(minutes=2)
        assert world.service.work_on("prepare/taxi/0")

    world.preparer.meanwhile = somebody_else_takes_it
    assert world.service.work_on("prepare/taxi/0")
    assert world.steps.seen.count("prepared") == 1


def _versions(world: World) -> tuple[Version, ...]:
    with world.service.begin() as uow:
        return uow.versions.of("taxi.speed")


@pytest.mark.long
def test_a_lease_is_extended_in_thirds_only(world: World) -> None:
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")
    seen: list[datetime | None] = []

    def look() -> None:
        for _ in range(20):
            world.clock.pass_(seconds=1)
            seen.append(world.job("train/taxi.speed/0").lease_until)

    world.trainer.meanwhile = look
    world.work("train")
    assert len(set(seen)) == 1  # nothing in the catalog moved while the run lasted 20 s of a lease of 60


@pytest.mark.long
def test_trainings_beside_each_other_spend_once_each(world: World) -> None:
    names = [f"p{n}" for n in range(6)]
    for name in names:
        world.register(name=name, epsilon=0.1)
    world.ingest()
    world.close(1)
    meet = threading.Barrier(6)
    threads: set[int] = set()

    def together(step: str, job_id: str) -> None:
        if step == "spent":
            threads.add(threading.get_ident())
            meet.wait(30)  # with fewer than six at once this breaks, and the trainings with it

    world.steps.reached = together  # type: ignore[method-assign]
    world.service.clock = SystemClock()  # one that moves, since states leave on its ticks
    world.service.work_until_idle(at_once=2)
    assert len(threads) == 6
    assert [len(world.service.versions(f"taxi.{name}")) for name in names] == [1] * 6
    assert world.train_block(0) == (0, 6 * 10**8)
    assert world.service.verify_ledger(STREAM).faults == ()
