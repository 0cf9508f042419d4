"""Closing and expiring: by the clock, in order, nothing lost in silence, nothing readable afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ptkstore.application.operations.read_numbers import read_numbers
from ptkstore.application.windows import close_windows
from ptkstore.domain.jobs import MAX_ATTEMPTS, JobState, Outcome
from ptkstore.domain.streams.blocks import BlockState
from ptkstore.domain.streams.policies import Closing
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.errors import (
    InvalidRequest,
    NoProcess,
    PtkStoreError,
    Refused,
    Unavailable,
    UnknownName,
    WindowGone,
)
from ptkstore.ports.row_processes import PrepareRequest
from tests.support.world import DAY, NOW, ORIGIN, STREAM, World, trips

TENTH = 10**8
FIRST = WindowId(STREAM, 0)
HOUR = timedelta(hours=1)


def test_windows_close_in_order_when_their_end_has_passed(world: World) -> None:
    close = world.service.close_windows
    assert close(STREAM, ORIGIN + DAY - timedelta(microseconds=1)) == ()
    assert close(STREAM, ORIGIN + DAY) == (FIRST,)
    assert close(STREAM, ORIGIN + DAY) == ()
    assert close(STREAM, ORIGIN) == ()  # event time never goes back
    assert close(STREAM, ORIGIN + 2 * DAY) == (WindowId(STREAM, 1),)
    with world.service.begin() as uow:
        assert uow.streams.progress(STREAM).reached == ORIGIN + 2 * DAY


def test_closing_tells_after_each_transaction_how_many_windows_are_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(close_windows, "STEP", 2)
    told: list[tuple[int, int]] = []
    world.service.close_windows(
        STREAM, ORIGIN + 5 * DAY, expire_unfinished=True, tell=lambda done, total: told.append((done, total))
    )
    assert told == [(2, 5), (4, 5), (5, 5)]


def test_a_window_without_rows_closes_with_blocks_trains_and_publishes(world: World) -> None:
    ptk_id = world.register()
    world.close(1)
    assert [b.number for b in world.service.budget(STREAM)] == [0, 1, 2]
    assert world.work() == ["prepare/taxi/0", "allocate/taxi/0", "train/taxi.speed/0", "place/taxi.speed"]
    (version,) = world.service.versions(ptk_id)
    assert version.content["blocks"] == [
        {"stream": STREAM, "number": 2, "epsilon_nano": TENTH, "delta_atto": 0}
    ]


@pytest.mark.parametrize("rows", [0, 1, 40])
def test_what_the_catalog_tells_of_a_closed_window_does_not_depend_on_its_rows(
    world: World, rows: int
) -> None:
    world.register()
    world.ingest([i / 50 for i in range(rows)])
    world.close(1)
    world.work()
    version = world.service.versions("taxi.speed")[0].content
    assert version["planned"] == {"rows_per_window": 100, "n": 80, "rate": 0.8}
    assert world.steps.seen == [
        *("claimed", "parts-written", "prepared"),
        *("claimed", "reserved"),
        *("claimed", "spent", "opened", "trained", "elected"),
        *("claimed", "placed", "draft-destroyed", "place-committed"),
    ]


def test_the_future_cannot_close(world: World) -> None:
    with pytest.raises(InvalidRequest, match="future"):
        world.service.close_windows(STREAM, NOW + timedelta(microseconds=1))
    with pytest.raises(InvalidRequest, match="closed by its operator"):
        world.service.close_windows(STREAM)
    with pytest.raises(UnknownName):
        world.service.close_windows("bikes", NOW)
    with world.service.begin() as uow:
        assert uow.windows.of(STREAM) == ()


def test_an_operator_who_would_lose_windows_is_told_how_far_to_go(world: World) -> None:
    world.ingest((0.5, 1.5, 2.5))
    with pytest.raises(Refused, match="would expire before its trainings ended") as refusal:
        world.service.close_windows(STREAM, ORIGIN + 5 * DAY)
    with world.service.begin() as uow:
        assert uow.windows.of(STREAM) == ()
    limit = datetime.fromisoformat(str(refusal.value).split()[-1])
    with pytest.raises(Refused):
        world.service.close_windows(STREAM, limit)
    assert len(world.service.close_windows(STREAM, limit - timedelta(microseconds=1))) == 2


@pytest.mark.parametrize("worked", [(), ("prepare",), ("prepare", "allocate")])
def test_a_window_in_training_does_not_expire_under_its_operator_unless_insisted(
    world: World, worked: tuple[str, ...]
) -> None:
    world.register()
    world.ingest()
    world.close(1)
    world.close(2)
    if worked:
        world.work(*worked)
    with pytest.raises(Refused, match="window 0"):
        world.close(3)
    world.service.close_windows(STREAM, ORIGIN + 3 * DAY, expire_unfinished=True)
    world.work("expire")
    assert world.state(0) is WindowState.EXPIRED


def test_a_window_whose_trainings_have_ended_expires_without_a_word(world: World) -> None:
    world.register()
    world.close(1)
    world.close(2)
    world.work()
    world.close(3)
    world.work("expire")
    assert (world.state(0), world.state(1)) == (WindowState.EXPIRED, WindowState.PREPARED)


def test_a_step_of_too_many_windows_is_refused_for_an_operator_and_taken_in_parts_by_the_clock(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(close_windows, "MAX_WINDOWS", 4)
    with pytest.raises(InvalidRequest, match="more than 4 windows"):
        world.close(5)
    world.stream("clocked", closing=Closing.CLOCK)
    closed = [len(world.service.close_windows("clocked")) for _ in range(9)]
    assert closed == [4, 4, 4, 4, 4, 4, 4, 2, 0]


def test_the_clock_closes_after_the_allowed_lateness(world: World) -> None:
    world.stream("clocked", closing=Closing.CLOCK, lateness=6 * HOUR)
    world.clock.time = ORIGIN + DAY + 6 * HOUR - timedelta(microseconds=1)
    assert world.service.close_windows("clocked") == ()
    world.clock.pass_(microseconds=1)
    assert world.service.close_windows("clocked") == (WindowId("clocked", 0),)
    world.clock.time = ORIGIN  # a clock that goes back opens nothing again
    assert world.service.close_windows("clocked") == ()


# expiry


def expire_first(world: World) -> None:
    """Close the first window and let its retention pass."""
    world.service.close_windows(STREAM, ORIGIN + 3 * DAY, expire_unfinished=True)


def test_expiry_releases_what_was_never_opened_and_tells_the_owner(world: World) -> None:
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")
    assert world.train_block(0) == (TENTH, 0)
    expire_first(world)
    world.work("expire")
    assert world.train_block(0) == (0, 0)
    assert world.job("train/taxi.speed/0").outcome is Outcome.EXPIRED
    assert world.notices() == [("taxi.speed window 0", "expired")]
    assert world.service.verify_ledger(STREAM).faults == ()
    assert "train/taxi.speed/0" not in world.work()


@pytest.mark.parametrize("worked", [(), ("prepare",)])
def test_owners_are_told_of_a_window_that_expired_before_its_trainings_were_planned(
    world: World, worked: tuple[str, ...]
) -> None:
    world.register()
    world.close(1)
    if worked:
        world.work(*worked)
    expire_first(world)
    world.work("expire")
    assert world.notices() == [("taxi.speed window 0", "expired")]
    assert world.train_block(0) == (0, 0)


def test_expiry_keeps_what_was_spent_and_what_was_published(world: World) -> None:
    ptk_id = world.register()
    world.ingest()
    world.close(1)
    world.work()
    expire_first(world)
    world.work("expire")
    assert world.train_block(0) == (0, TENTH)
    assert [v.number for v in world.service.versions(ptk_id)] == [1]
    assert world.service.lake.read_version(ptk_id, 1)
    assert ("taxi.speed window 0", "expired") not in world.notices()


def test_an_expired_window_is_gone_from_disk_and_its_key_for_ever(world: World) -> None:
    world.register()
    world.ingest((0.5, 1.5))
    world.close(1)
    world.work()
    assert files_of(world, 0)
    expire_first(world)
    world.work("expire")
    assert files_of(world, 0) == []
    assert files_of(world, 1)  # its neighbour is still there
    with pytest.raises(WindowGone):
        world.service.keys.sealing_key(FIRST)
    with pytest.raises(WindowGone):
        world.service.keys.opening_key(FIRST, world.service.catalog.journal_view())
    states = {b.number: b.state for b in world.service.budget(STREAM)}
    assert {states[n] for n in (0, 1, 2)} == {BlockState.ERASED}
    assert states[130] is BlockState.ACTIVE


def test_a_draft_that_was_not_elected_dies_with_its_window(world: World) -> None:
    world.register()
    world.ingest()
    world.close(1)

    def lose_the_lease() -> None:
        world.clock.pass_(minutes=5)
        with world.service.begin() as uow:
            uow.jobs.claim("train/taxi.speed/0", world.clock.now(), 5 * HOUR)
            uow.commit()

    world.steps.at["trained"] = lose_the_lease
    drafts: list[Any] = []
    deleted = world.service.staging.delete
    world.service.staging.delete = drafts.append  # type: ignore[method-assign]  # as if killed there
    world.work("prepare", "allocate")
    world.service.work_on("train/taxi.speed/0")
    world.service.staging.delete = deleted  # type: ignore[method-assign]
    assert len(world.drafts()) == 1
    world.clock.pass_(hours=6)
    expire_first(world)
    world.work("expire")
    assert world.drafts() == []
    with pytest.raises(WindowGone):
        world.service.keys.draft_key(drafts[0])


@pytest.mark.parametrize("rows", [0, 1, 40])
def test_windows_that_no_ptk_wants_expire_together_whatever_rows_they_hold(world: World, rows: int) -> None:
    name = "quiet"
    world.stream(name, closing=Closing.CLOCK, window=HOUR, retention_windows=3)
    world.clock.time = ORIGIN + 2.5 * HOUR
    world.service.ingest(name, trips([2.2 / 24] * rows))  # into window 2
    for hours in (3, 20):
        world.clock.time = ORIGIN + hours * HOUR
        world.service.close_windows(name)
    with world.service.begin() as uow:
        jobs = uow.jobs.find(stream=name)
    assert [(job.id, len(job.expiring_windows)) for job in jobs] == [(f"expire/{name}/0", 17)]
    world.steps.seen.clear()
    world.work("expire")
    assert world.steps.seen == ["claimed", "expiring", "key-destroyed", "files-deleted", "expired"]
    assert [world.state(index, name) for index in range(18)] == [
        *[WindowState.EXPIRED] * 17,
        WindowState.CLOSED,
    ]
    assert world.service.raw.files(name) == ()
    for index in (0, 2, 16):
        with pytest.raises(WindowGone):
            world.service.keys.sealing_key(WindowId(name, index))
    assert world.service.exposure(name).holds
    assert world.notices() == []


def test_a_ptk_that_comes_after_the_clock_has_closed_a_window_begins_with_the_next(world: World) -> None:
    name = "quiet"
    world.stream(name, closing=Closing.CLOCK, retention_windows=1)
    for days in (1, 2, 3):
        world.clock.time = ORIGIN + days * DAY
        world.service.close_windows(name)
        if days == 1:
            world.register(stream=name)
        world.work("prepare", "allocate", "train", "place", "expire")
    assert [one.state for one in world.service.trainings("taxi.speed")] == ["ended"] * 2
    assert [one.window for one in world.service.trainings("taxi.speed")] == [1, 2]
    assert world.state(0, name) is WindowState.EXPIRED
    assert ("taxi.speed window 0", "expired") not in world.notices()


def test_the_key_of_a_draft_that_was_never_written_dies_with_its_window(world: World) -> None:
    world.register()
    world.ingest((0.5, 1.5))
    world.close(2)
    drafts: list[str] = []

    def die() -> None:
        drafts.append(world.trainer.requests[-1].draft_id)
        raise KeyboardInterrupt

    world.trainer.meanwhile = die
    with pytest.raises(KeyboardInterrupt):
        world.work()
    other = f"{STREAM}.1.{'0' * 32}"
    world.service.keys.draft_key(other)
    assert world.drafts() == []
    assert world.service.keys.draft_ids() == tuple(sorted([*drafts, other]))
    world.clock.pass_(minutes=5)
    expire_first(world)
    world.work("expire")
    assert world.service.keys.draft_ids() == (other,)
    with pytest.raises(WindowGone):
        world.service.keys.draft_key(drafts[0])


@pytest.mark.parametrize("step", ["expiring", "key-destroyed", "files-deleted"])
def test_an_expiry_that_broke_off_anywhere_is_finished_by_the_next(world: World, step: str) -> None:
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")
    expire_first(world)

    def break_off() -> None:
        raise KeyboardInterrupt

    world.steps.at[step] = break_off
    with pytest.raises(KeyboardInterrupt):
        world.work("expire")
    assert world.state(0) is WindowState.EXPIRING
    world.clock.pass_(minutes=2)
    world.work("expire")
    assert world.state(0) is WindowState.EXPIRED
    assert world.train_block(0) == (0, 0)
    assert world.notices() == [("taxi.speed window 0", "expired")]
    assert files_of(world, 0) == []


def test_expiry_wins_over_a_training_that_is_about_to_open_the_rows(world: World) -> None:
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")

    def expire_meanwhile() -> None:
        world.clock.pass_(minutes=5)  # the training's lease has run out
        expire_first(world)
        world.service.work_on("expire/taxi/0")

    world.steps.at["claimed"] = expire_meanwhile
    world.service.work_on("train/taxi.speed/0")
    assert world.trainer.requests == []
    assert world.train_block(0) == (0, 0)
    assert world.job("train/taxi.speed/0").outcome is Outcome.EXPIRED


def spoil_first(world: World) -> None:
    """A file of window 0 is not what was written under its name."""
    path = next((world.service.settings.root / "raw" / STREAM / "0" / "batches").iterdir())
    path.write_bytes(path.read_bytes()[:-100] + b"\0" * 96 + path.read_bytes()[-4:])


def batches_of_first(world: World) -> list[Path]:
    return sorted((world.service.settings.root / "raw" / STREAM / "0" / "batches").iterdir())


def lose_first_batch(world: World) -> None:
    """The one file of window 0 is gone without a trace."""
    (path,) = batches_of_first(world)
    path.unlink()


def lose_first_rows(world: World) -> None:
    """All of window 0 is gone from the raw zone."""
    shutil.rmtree(world.service.settings.root / "raw" / STREAM / "0")


def lose_first_key(world: World) -> None:
    """The key of window 0 is lost, as in a key store that was restored from before."""
    (path,) = world.service.settings.keys.rglob("0.key")
    path.unlink()


def too_large(world: World) -> None:
    """The process of window 0 asks for more memory than it may have."""

    def prepare(request: PrepareRequest, keep_alive: Callable[[], None]) -> None:
        raise Unavailable("window taxi/0 could not be prepared now: memory-limit")

    world.service.__dict__["preparer"].prepare = prepare


def failures(world: World, most: int) -> int:
    """How often the preparation of window 0 fails until it ends, or until it has so often."""
    for tried in range(most):
        if world.job("prepare/taxi/0").state is JobState.ENDED:
            return tried
        world.clock.pass_(minutes=1)
        with suppress(PtkStoreError):
            world.service.work_on("prepare/taxi/0")
    return most


@pytest.mark.parametrize(
    "befall", [spoil_first, lose_first_batch, lose_first_rows, lose_first_key, too_large]
)
def test_a_window_that_cannot_be_prepared_ends_and_its_owners_are_told_once(
    world: World, befall: Callable[[World], None]
) -> None:
    world.register()
    world.ingest()
    world.close(1)
    befall(world)
    assert failures(world, 3 * MAX_ATTEMPTS) == MAX_ATTEMPTS
    ended = world.job("prepare/taxi/0")
    assert (ended.state, ended.outcome) == (JobState.ENDED, Outcome.FAILED)
    told = [("taxi window 0", "not-prepared"), ("taxi.speed window 0", "not-prepared")]
    assert world.notices() == told
    assert (
        read_numbers(begin=world.service.read, clock=world.service.clock).work.ended["prepare", "failed"] == 1
    )
    assert world.train_block(0) == (0, 0)
    expire_first(world)
    assert world.service.work_on("expire/taxi/0")
    assert [one for one in world.notices() if one[0].endswith("window 0")] == told
    assert world.state(0) is WindowState.EXPIRED


def given_up(world: World, befall: Callable[[World], None]) -> None:
    """Window 0, which holds the rows of two batches and cannot be prepared."""
    world.register()
    world.ingest()
    world.ingest((0.6, 0.7))
    world.close(1)
    befall(world)
    assert failures(world, 3 * MAX_ATTEMPTS) == MAX_ATTEMPTS


def test_a_window_that_was_given_up_is_prepared_again_and_charged_once(world: World) -> None:
    prepare = world.preparer.prepare
    given_up(world, too_large)
    world.service.__dict__["preparer"].prepare = prepare  # its machine has more memory now
    world.service.prepare_again(STREAM, 0)
    world.work()
    assert world.state(0) is WindowState.PREPARED
    assert world.train_block(0) == (0, TENTH)
    assert len(world.service.versions("taxi.speed")) == 1
    ended = read_numbers(begin=world.service.read, clock=world.service.clock).work.ended
    assert (ended["prepare", "failed"], ended["prepare", "done"]) == (1, 1)
    assert world.service.verify_ledger(STREAM).faults == ()
    with pytest.raises(Refused, match="is prepared"):
        world.service.prepare_again(STREAM, 0)


def test_a_window_that_is_prepared_again_may_be_given_up_again(world: World) -> None:
    given_up(world, too_large)
    world.service.prepare_again(STREAM, 0)
    with pytest.raises(Refused, match="still try"):
        world.service.prepare_again(STREAM, 0)
    assert failures(world, 3 * MAX_ATTEMPTS) == MAX_ATTEMPTS
    assert world.notices() == 2 * [
        ("taxi window 0", "not-prepared"),
        ("taxi.speed window 0", "not-prepared"),
    ]
    assert (
        read_numbers(begin=world.service.read, clock=world.service.clock).work.ended["prepare", "failed"] == 2
    )


def test_a_window_goes_on_without_a_lost_batch_if_the_operator_says_so(world: World) -> None:
    def lose_one(world: World) -> None:
        batches_of_first(world)[0].unlink()

    given_up(world, lose_one)
    world.service.prepare_again(STREAM, 0)
    assert failures(world, 3 * MAX_ATTEMPTS) == MAX_ATTEMPTS
    world.service.prepare_again(STREAM, 0, without_lost=True)
    world.work()
    assert world.state(0) is WindowState.PREPARED
    assert len(world.service.versions("taxi.speed")) == 1


@pytest.mark.parametrize("expired", [False, True])
def test_an_expired_window_stays_expired_however_it_ended(world: World, expired: bool) -> None:
    given_up(world, too_large)
    expire_first(world)
    if expired:
        world.work("expire")
    with pytest.raises(Refused, match="left its retention"):
        world.service.prepare_again(STREAM, 0, without_lost=True)
    world.work("expire")
    assert world.state(0) is WindowState.EXPIRED
    assert not world.service.work_on("prepare/taxi/0")
    assert world.train_block(0) == (0, 0)
    assert world.service.keys.noted_batches(WindowId(STREAM, 0)) == ()


def test_only_closed_windows_that_were_given_up_are_prepared_again(world: World) -> None:
    world.register()
    world.ingest()
    with pytest.raises(UnknownName):
        world.service.prepare_again(STREAM, 0)
    world.close(1)
    with pytest.raises(Refused, match="still try"):
        world.service.prepare_again(STREAM, 0)


def test_a_batch_that_was_written_and_never_committed_is_not_missed(world: World) -> None:
    world.register()
    world.ingest()
    world.service.keys.note_batch(WindowId(STREAM, 0), "0" * 32)
    world.close(1)
    assert world.work("prepare") == ["prepare/taxi/0"]
    assert world.state(0) is WindowState.PREPARED


def test_a_machine_that_starts_no_process_only_delays_a_window(world: World) -> None:
    world.register()
    world.ingest()
    world.close(1)
    prepare = world.preparer.prepare

    def refused(request: PrepareRequest, keep_alive: Callable[[], None]) -> None:
        raise NoProcess("the machine starts no process now")

    world.service.__dict__["preparer"].prepare = refused
    assert failures(world, 3 * MAX_ATTEMPTS) == 3 * MAX_ATTEMPTS
    assert world.job("prepare/taxi/0").failures == 0
    world.service.__dict__["preparer"].prepare = prepare
    world.clock.pass_(minutes=1)
    assert world.service.work_on("prepare/taxi/0")
    assert world.notices() == []


def test_a_raw_zone_that_is_away_does_not_count_against_a_window(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.register()
    world.ingest()
    world.close(1)

    def away() -> None:
        raise Unavailable("the raw zone does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(world.service.raw, "check_writable", away)
        assert failures(world, 3 * MAX_ATTEMPTS) == 3 * MAX_ATTEMPTS
    world.clock.pass_(minutes=1)
    assert world.service.work_on("prepare/taxi/0")
    assert world.state(0) is WindowState.PREPARED
    assert world.notices() == []


def test_a_window_that_expires_before_it_is_given_up_is_told_as_not_prepared(world: World) -> None:
    world.register()
    world.ingest()
    world.close(1)
    too_large(world)
    assert failures(world, 2) == 2
    assert world.notices() == []
    expire_first(world)
    assert world.service.work_on("expire/taxi/0")
    told = [("taxi window 0", "not-prepared"), ("taxi.speed window 0", "not-prepared")]
    assert [one for one in world.notices() if one[0].endswith("window 0")] == told


def test_a_window_that_expires_while_it_is_prepared_stays_expired(world: World) -> None:
    world.register()
    world.ingest()
    world.close(1)

    def expire_meanwhile() -> None:
        world.clock.pass_(minutes=5)
        expire_first(world)
        world.service.work_on("expire/taxi/0")

    world.steps.at["claimed"] = expire_meanwhile
    assert world.service.work_on("prepare/taxi/0")
    assert world.job("prepare/taxi/0").outcome is Outcome.EXPIRED
    assert world.state(0) is WindowState.EXPIRED


def test_expiry_between_spend_and_key_leaves_the_loss_spent_and_opens_nothing(world: World) -> None:
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")

    def expire_meanwhile() -> None:
        world.clock.pass_(minutes=5)
        expire_first(world)
        world.service.work_on("expire/taxi/0")

    world.steps.at["spent"] = expire_meanwhile
    world.service.work_on("train/taxi.speed/0")
    assert world.trainer.requests == []
    assert world.train_block(0) == (0, TENTH)
    job = world.job("train/taxi.speed/0")
    assert (job.state, job.outcome) == (JobState.ENDED, Outcome.EXPIRED)


def files_of(world: World, window: int) -> list[str]:
    """Everything below the raw zone that belongs to a window, drafts left out."""
    root = Path(world.service.settings.raw)
    return [name for name in world.service.raw.files(STREAM) if f"/{window}/" in f"/{name}"] + [
        str(p) for p in root.rglob(f"*{STREAM}/{window}/*") if p.is_file()
    ]


def test_after_the_retention_no_queued_training_opens_the_rows_whatever_comes_first(world: World) -> None:
    for name in ("a", "b"):
        world.register(name)
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")
    expire_first(world)
    for job_id in ("train/taxi.a/0", "train/taxi.b/0"):  # hinted before the expiry
        world.service.work_on(job_id)
    assert world.trainer.requests == []
    assert world.train_block(0) == (0, 0)
    world.work("train", "expire")
    assert {world.job(f"train/taxi.{name}/0").outcome for name in "ab"} == {Outcome.EXPIRED}
    assert world.state(0) is WindowState.EXPIRED


def test_owners_hear_of_an_expiry_only_for_windows_their_ptk_was_due_in(world: World) -> None:
    world.register("daily")
    world.register("weekly", train_frequency="7d")
    world.publish(0)
    world.register("late")
    world.service.close_windows(STREAM, ORIGIN + 2 * DAY)  # window 1 closes, and is never prepared
    world.service.close_windows(STREAM, ORIGIN + 4 * DAY, expire_unfinished=True)
    world.work("expire")
    expired = {subject for subject, code in world.notices() if code == "expired"}
    assert expired == {"taxi.daily window 1", "taxi.late window 1"}
