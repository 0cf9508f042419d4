"""What every job table must do, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome
from ptkstore.domain.streams.windows import Window, WindowId, WindowState
from ptkstore.domain.subscriptions import DeadLetter
from ptkstore.errors import LateWriter, LeaseLost, UnknownName
from ptkstore.ports.jobs import UnfinishedJob
from tests.support.builders import LEASE, NOW, PTK, STREAM, add, claim, job, version
from tests.support.databases import OnPostgresql, OnSqlite, until_somebody_waits

LATER = NOW + LEASE


def saved(catalog: SqlCatalog, held: Job, **changes: Any) -> None:
    with catalog.begin() as uow:
        uow.jobs.save(replace(uow.jobs.held(held), **changes))
        uow.commit()


def finished(catalog: SqlCatalog, job_id: str) -> None:
    held = claim(catalog, job_id)
    assert held is not None
    saved(catalog, held, state=JobState.ENDED, outcome=Outcome.DONE)


class JobsContract:
    def test_kinds_are_told_of_jobs_that_exist(self, catalog: SqlCatalog) -> None:
        add(catalog, job("a", JobKind.TRAIN), job("train/b", JobKind.PREPARE))
        with catalog.read() as uow:
            assert uow.jobs.kinds(["a", "train/b", *map(str, range(1_200))]) == {
                "a": JobKind.TRAIN,
                "train/b": JobKind.PREPARE,
            }

    def test_unfinished_jobs_come_with_those_of_a_worker_first_and_the_closing_of_their_window(
        self, catalog: SqlCatalog
    ) -> None:
        ended = replace(job("d"), state=JobState.ENDED, outcome=Outcome.DONE)
        add(catalog, job("a", window=1), job("b", window=0), job("c", stream="other"), ended)
        add(catalog, job("e", JobKind.FLIP, window=None, ptk_id=PTK), job("f", JobKind.EXPIRE))
        with catalog.begin() as uow:
            uow.windows.add(Window(WindowId(STREAM, 1), NOW, LATER, WindowState.CLOSED), at=NOW)
            uow.commit()
        assert claim(catalog, "a") is not None
        kinds = (JobKind.PREPARE, JobKind.FLIP)
        with catalog.read() as uow:
            found = uow.jobs.unfinished_jobs(kinds, None, 10)
            assert found[0] == UnfinishedJob(JobKind.PREPARE, STREAM, 1, None, LATER, NOW)
            assert len(found) == 4
            assert {(one.kind, one.window, one.closed_at) for one in found[1:]} == {
                (JobKind.PREPARE, 0, None),
                (JobKind.FLIP, None, None),
            }
            assert [one.stream for one in uow.jobs.unfinished_jobs(kinds, ["other"], 10)] == ["other"]
            assert uow.jobs.unfinished_jobs(kinds, [], 10) == ()
            assert len(uow.jobs.unfinished_jobs(kinds, None, 2)) == 2

    def test_a_job_comes_back_as_it_was_added_and_is_added_once(self, catalog: SqlCatalog) -> None:
        first = replace(job("train/a", JobKind.TRAIN, ptk_id=PTK), reservation="key", n_rows=7, partition=3)
        add(catalog, first, replace(first, n_rows=8))
        with catalog.begin() as uow:
            assert uow.jobs.get("train/a") == first
            with pytest.raises(UnknownName):
                uow.jobs.get("train/b")

    def test_of_many_workers_one_gets_the_job(self, catalog: SqlCatalog) -> None:
        add(catalog, job("a"))
        with ThreadPoolExecutor(8) as pool:
            claims = list(pool.map(lambda _: claim(catalog, "a"), range(24)))
        (owner,) = [c for c in claims if c is not None]
        assert (owner.fence, owner.attempt, owner.lease_until) == (1, 1, NOW + LEASE)

    @pytest.mark.parametrize("seconds", [0, -1])
    def test_a_job_is_claimed_when_its_time_has_come(self, catalog: SqlCatalog, seconds: int) -> None:
        add(catalog, job("a"))
        early = claim(catalog, "a", NOW + timedelta(seconds=seconds))
        assert (early is not None) is (seconds == 0)

    def test_a_lease_is_kept_until_its_end_and_then_handed_over(self, catalog: SqlCatalog) -> None:
        add(catalog, job("a"))
        assert claim(catalog, "a") is not None
        assert claim(catalog, "a", LATER - timedelta(microseconds=1)) is None
        second = claim(catalog, "a", LATER)
        assert second is not None
        assert (second.fence, second.attempt) == (2, 2)

    def test_an_extended_lease_is_not_handed_over(self, catalog: SqlCatalog) -> None:
        add(catalog, job("a"))
        held = claim(catalog, "a")
        assert held is not None
        with catalog.begin() as uow:
            uow.jobs.extend(held, NOW + timedelta(seconds=30), LEASE)
            uow.commit()
        assert claim(catalog, "a", LATER) is None
        assert claim(catalog, "a", LATER + timedelta(seconds=30)) is not None

    @pytest.mark.parametrize("state", [JobState.READY, JobState.OPENED])
    def test_a_late_heartbeat_does_not_take_back_what_was_given_back(
        self, catalog: SqlCatalog, state: JobState
    ) -> None:
        add(catalog, job("a"))
        held = claim(catalog, "a")
        assert held is not None
        saved(catalog, held, state=state)
        with pytest.raises(LeaseLost), catalog.begin() as uow:
            uow.jobs.extend(held, NOW, LEASE)
            uow.commit()
        assert claim(catalog, "a") is not None

    @pytest.mark.parametrize(
        "write",
        [
            lambda jobs, zombie: jobs.held(zombie),
            lambda jobs, zombie: jobs.extend(zombie, LATER, LEASE),
            lambda jobs, zombie: jobs.save(replace(zombie, state=JobState.ENDED)),
            lambda jobs, zombie: jobs.mark_opened(zombie),
        ],
        ids=["held", "extend", "save", "mark_opened"],
    )
    def test_a_zombie_cannot_write(self, catalog: SqlCatalog, write: Callable[[Any, Job], object]) -> None:
        add(catalog, job("a"))
        zombie = claim(catalog, "a")
        owner = claim(catalog, "a", LATER)
        assert zombie is not None
        with pytest.raises(LeaseLost), catalog.begin() as uow:
            write(uow.jobs, zombie)
            uow.commit()
        with catalog.begin() as uow:
            assert uow.jobs.get("a") == owner

    def test_nobody_holds_a_job_that_has_ended(self, catalog: SqlCatalog) -> None:
        add(catalog, job("a"))
        held = claim(catalog, "a")
        assert held is not None
        saved(catalog, held, state=JobState.ENDED, outcome=Outcome.DONE)
        assert claim(catalog, "a", LATER) is None
        with pytest.raises(LeaseLost), catalog.begin() as uow:
            uow.jobs.held(held)

    def test_saving_drops_the_lease_and_opening_keeps_it(self, catalog: SqlCatalog) -> None:
        add(catalog, job("a"), job("b"))
        a, b = claim(catalog, "a"), claim(catalog, "b")
        assert a is not None
        assert b is not None
        saved(catalog, a, due_at=LATER)
        with catalog.begin() as uow:
            uow.jobs.mark_opened(uow.jobs.held(b))
            uow.commit()
        with catalog.begin() as uow:
            assert (uow.jobs.get("a").lease_until, uow.jobs.get("a").state) == (None, JobState.READY)
            assert (uow.jobs.get("b").lease_until, uow.jobs.get("b").state) == (LATER, JobState.OPENED)
        assert claim(catalog, "a") is None  # not due
        again = claim(catalog, "b", LATER)  # an opened job is handed over like a ready one
        assert again is not None
        assert again.state is JobState.OPENED

    def test_due_jobs_come_in_the_order_of_their_times(self, catalog: SqlCatalog) -> None:
        second = timedelta(seconds=1)
        add(
            catalog,
            job("b", due_at=NOW - second),
            job("a", due_at=NOW - second),
            job("c", due_at=NOW - 2 * second),
            job("later", due_at=NOW + second),
            job("idle", state=JobState.IDLE),
            job("ended", state=JobState.ENDED),
            job("leased", due_at=NOW - 9 * second),
        )
        claim(catalog, "leased")
        with catalog.begin() as uow:
            assert uow.jobs.due(NOW, 10) == ("c", "a", "b")
            assert uow.jobs.due(NOW, 2) == ("c", "a")
            assert uow.jobs.due(LATER, 10) == ("leased", "c", "a", "b", "later")

    def test_a_training_waits_for_earlier_trainings_of_its_ptk(self, catalog: SqlCatalog) -> None:
        add(
            catalog,
            job("train/0", JobKind.TRAIN, window=0, ptk_id=PTK, due_at=LATER),
            job("train/1", JobKind.TRAIN, window=1, ptk_id=PTK),
            job("other", JobKind.TRAIN, window=1, ptk_id="taxi.other"),
        )
        assert claim(catalog, "train/1") is None
        assert claim(catalog, "other") is not None
        with catalog.begin() as uow:
            assert "train/1" not in uow.jobs.due(LATER, 10)
        held = claim(catalog, "train/0", LATER)
        assert held is not None
        saved(catalog, held, state=JobState.ENDED, outcome=Outcome.FAILED)
        assert claim(catalog, "train/1") is not None

    def test_an_average_waits_for_those_of_earlier_windows_of_its_ptk(self, catalog: SqlCatalog) -> None:
        names = {0: "average/a/0", 1: "average/a/1", 2: "average/a/2"}
        add(
            catalog,
            *(job(name, JobKind.AVERAGE, ptk_id="a", window=window) for window, name in names.items()),
            job("average/b/1", JobKind.AVERAGE, ptk_id="b", window=1),
            job("train/a/0", JobKind.TRAIN, ptk_id="a", window=0),
        )
        assert claim(catalog, names[1]) is None
        assert claim(catalog, "average/b/1") is not None
        with catalog.read() as uow:
            assert {*uow.jobs.due(NOW, 10)} == {names[0], "train/a/0"}
        finished(catalog, names[0])
        assert claim(catalog, names[2]) is None
        finished(catalog, names[1])
        assert claim(catalog, names[2]) is not None

    def test_averages_are_told_among_trainings(self, catalog: SqlCatalog) -> None:
        add(
            catalog,
            job("average/a/1", JobKind.AVERAGE, ptk_id="a", window=1),
            job("train/a/0", JobKind.TRAIN, ptk_id="a", window=0),
            job("profile/a/0", JobKind.PROFILE, ptk_id="a", window=0),
        )
        with catalog.read() as uow:
            assert [one.id for one in uow.jobs.trainings("a")] == ["train/a/0", "average/a/1"]

    def test_a_training_waits_for_earlier_looks_on_its_window(self, catalog: SqlCatalog) -> None:
        first = job("train/0", JobKind.TRAIN, window=0, ptk_id=PTK)
        second = replace(job("train/0/2", JobKind.TRAIN, window=0, ptk_id=PTK), look=2)
        left_over = replace(job("partial/0", JobKind.PARTIAL, window=0, ptk_id=PTK), due_at=LATER)
        add(catalog, first, second, left_over)
        assert claim(catalog, "train/0/2") is None
        with catalog.begin() as uow:
            assert "train/0/2" not in uow.jobs.due(NOW, 10)
            uow.jobs.save(uow.jobs.lock("train/0").ended(Outcome.FAILED))
            uow.commit()
        with catalog.begin() as uow:
            assert uow.jobs.due(NOW, 10) == ("train/0/2",)
        assert claim(catalog, "train/0/2") is not None  # partials of another look are not its own

    @pytest.mark.parametrize("kind", [JobKind.PREPARE, JobKind.ALLOCATE])
    def test_a_training_waits_until_earlier_windows_have_their_trainings(
        self, catalog: SqlCatalog, kind: JobKind
    ) -> None:
        add(catalog, job("first", kind, window=0), job("train/1", JobKind.TRAIN, window=1, ptk_id=PTK))
        add(catalog, job("later", kind, window=2), job("elsewhere", kind, window=0, stream="bikes"))
        assert claim(catalog, "train/1") is None
        finished(catalog, "first")
        assert claim(catalog, "train/1") is not None

    def test_trainings_of_many_ptks_are_found_from_a_window_of_each_on(self, catalog: SqlCatalog) -> None:
        many = {f"taxi.p{number:03}": number % 3 for number in range(230)}  # more than one statement takes
        for ptk_id in many:
            trainings = (job(f"{ptk_id}/{w}", JobKind.TRAIN, window=w, ptk_id=ptk_id) for w in range(3))
            add(catalog, *trainings, job(f"{ptk_id}/v", JobKind.VALIDATE, window=2, ptk_id=ptk_id))
        with catalog.begin() as uow:
            found = uow.jobs.trainings_since({ptk_id: many[ptk_id] for ptk_id in list(many)[:-1]})
            assert uow.jobs.trainings_since({}) == ()
        expected = {f"{ptk_id}/{w}" for ptk_id, start in list(many.items())[:-1] for w in range(start, 3)}
        assert {one.id for one in found} == expected
        assert len(found) == len(expected)

    def test_those_of_some_jobs_that_exist_are_found_together(self, catalog: SqlCatalog) -> None:
        add(catalog, job("a"), job("b"), job("c"))
        with catalog.begin() as uow:
            found = uow.jobs.many(["a", "b", "nowhere"])
            assert found == {name: uow.jobs.get(name) for name in ("a", "b")}

    def test_a_training_waits_until_the_last_state_is_in_the_lake(self, catalog: SqlCatalog) -> None:
        place = job("place/a", JobKind.PLACE, window=None, ptk_id=PTK)
        add(catalog, place, job("train/a", JobKind.TRAIN, ptk_id=PTK, state=JobState.ENDED))
        add(catalog, job("train/b", JobKind.TRAIN, window=1, ptk_id=PTK))
        with catalog.begin() as uow:
            uow.versions.add(version(1))
            uow.commit()
        assert claim(catalog, "train/b") is None
        held = claim(catalog, "place/a")
        assert held is not None
        saved(catalog, held, position=1, state=JobState.IDLE)
        assert claim(catalog, "train/b") is not None

    def test_a_split_training_waits_for_its_partials_alone(self, catalog: SqlCatalog) -> None:
        partials = [job(f"partial/{n}", JobKind.PARTIAL, ptk_id=PTK) for n in range(3)]
        add(catalog, job("train/0", JobKind.TRAIN, ptk_id=PTK, state=JobState.OPENED), *partials)
        add(catalog, job("elsewhere", JobKind.PARTIAL, window=1, ptk_id=PTK))
        add(catalog, job("another", JobKind.PARTIAL, ptk_id="taxi.other"))
        with ThreadPoolExecutor(3) as pool:
            held = list(pool.map(lambda one: claim(catalog, one.id), partials))
        for one in held:
            assert one is not None  # all at the same time
            assert claim(catalog, "train/0") is None
            saved(catalog, one, state=JobState.ENDED, outcome=Outcome.DONE)
        assert claim(catalog, "train/0") is not None

    def test_expiry_waits_for_live_leases_on_its_window_only(self, catalog: SqlCatalog) -> None:
        add(catalog, job("run"), job("expire", JobKind.EXPIRE), job("elsewhere", window=1))
        add(catalog, job("next", JobKind.EXPIRE, window=2))
        claim(catalog, "run")
        claim(catalog, "elsewhere")
        assert claim(catalog, "next") is not None
        assert claim(catalog, "expire") is None
        assert claim(catalog, "expire", LATER) is not None

    def test_waking_makes_an_idle_cursor_ready_and_leaves_others_alone(self, catalog: SqlCatalog) -> None:
        add(catalog, job("idle", state=JobState.IDLE), job("ready", due_at=LATER))
        add(catalog, job("ended", state=JobState.ENDED))
        with catalog.begin() as uow:
            for name in ("idle", "ready", "ended", "unknown"):
                uow.jobs.wake(name, NOW + timedelta(seconds=1))
            uow.commit()
        with catalog.begin() as uow:
            state = {j.id: (j.state, j.due_at) for j in uow.jobs.find()}
        assert state == {
            "idle": (JobState.READY, NOW + timedelta(seconds=1)),
            "ready": (JobState.READY, LATER),
            "ended": (JobState.ENDED, NOW),
        }

    def test_a_window_lists_its_jobs_of_one_kind(self, catalog: SqlCatalog) -> None:
        add(
            catalog, job("b"), job("a"), job("x", window=1), job("y", JobKind.TRAIN), job("z", stream="bikes")
        )
        with catalog.begin() as uow:
            found = uow.jobs.of_window(WindowId("taxi", 0), JobKind.PREPARE)
        assert [one.id for one in found] == ["a", "b"]

    def test_partials_are_needless_once_they_and_their_training_have_ended(self, catalog: SqlCatalog) -> None:
        ended, opened = JobState.ENDED, JobState.OPENED

        def split(name: str, state: JobState, *partials: JobState, window: int = 0, **more: Any) -> None:
            of = {"window": window, "ptk_id": PTK, **more}
            add(catalog, job(f"train/{name}", JobKind.TRAIN, state=state, **of))
            for number, one in enumerate(partials):
                partial = job(f"partial/{name}/{number}", JobKind.PARTIAL, state=one, **of)
                add(catalog, replace(partial, reservation=f"train/{name}"))

        split("over", ended, ended, JobState.READY, opened, ended)
        split("running", opened, ended, ended)
        split("later", ended, ended, window=1)
        split("elsewhere", ended, ended, stream="bikes")
        add(catalog, replace(job("evaluate/x", JobKind.EVALUATE, state=ended), reservation="train/over"))
        with catalog.read() as uow:
            found = uow.jobs.needless_partials(WindowId("taxi", 0))
        assert [one.id for one in found] == ["partial/over/0", "partial/over/3"]

    def test_a_run_has_one_version_and_a_number_is_used_once(self, catalog: SqlCatalog) -> None:
        add(catalog, job("train/a", JobKind.TRAIN), job("train/b", JobKind.TRAIN))
        with catalog.begin() as uow:
            uow.versions.add(version(1))
            uow.commit()
        for again in (
            version(2, draft_id="other"),
            version(1, "train/b"),
            version(2, "train/b", draft_id="draft-1"),
        ):
            with pytest.raises(LateWriter), catalog.begin() as uow:
                uow.versions.add(again)
        with catalog.begin() as uow:
            assert uow.versions.of(PTK) == (version(1),)
            assert uow.versions.draft_ids() == {"draft-1"}

    def test_a_version_that_cannot_be_delivered_twice_is_one_dead_letter(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            uow.subscriptions.add_dead_letter(DeadLetter("sub", 1, "timeout", NOW, told=True, asked_at=NOW))
            uow.subscriptions.add_dead_letter(DeadLetter("sub", 1, "status-5xx", LATER))
            uow.commit()
        with catalog.begin() as uow:
            assert uow.subscriptions.dead_letters("sub") == (DeadLetter("sub", 1, "status-5xx", LATER),)


class TestJobsOnSqlite(OnSqlite, JobsContract):
    pass


class TestJobsOnPostgresql(OnPostgresql, JobsContract):
    @pytest.mark.parametrize("wake_first", [True, False])
    def test_a_wake_is_never_lost_against_a_cursor_that_finishes(
        self, catalog: SqlCatalog, outsider: Engine, wake_first: bool
    ) -> None:
        """The news is a position of `flip`; whoever comes second sees what the first has written."""
        flip = job("flip", JobKind.FLIP, window=None, ptk_id=PTK)
        add(catalog, flip, job("notify", JobKind.NOTIFY, window=None, ptk_id=PTK))
        notifying, flipping = claim(catalog, "notify"), claim(catalog, "flip")
        assert notifying is not None
        assert flipping is not None
        looked, woke = threading.Event(), threading.Event()

        def waker() -> None:
            with catalog.begin() as uow:
                uow.jobs.save(replace(uow.jobs.held(flipping), position=1, state=JobState.IDLE))
                if not wake_first:
                    assert looked.wait(30)
                uow.jobs.wake("notify", NOW)
                woke.set()
                if wake_first:
                    until_somebody_waits(outsider)
                uow.commit()

        def finisher() -> None:
            if wake_first:
                assert woke.wait(30)
            with catalog.begin() as uow:
                held = uow.jobs.held(notifying)
                behind = uow.jobs.get("flip").position > held.position
                looked.set()
                if not wake_first:
                    until_somebody_waits(outsider)
                uow.jobs.save(replace(held, state=JobState.READY if behind else JobState.IDLE))
                uow.commit()

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(waker), pool.submit(finisher)]:
                done.result(timeout=60)
        assert claim(catalog, "notify") is not None

    def test_a_job_that_somebody_is_taking_is_left_to_him_at_once(self, catalog: SqlCatalog) -> None:
        add(catalog, job("a"))
        with ThreadPoolExecutor(1) as pool, catalog.begin() as uow:
            first = uow.jobs.claim("a", NOW, LEASE)
            second = pool.submit(claim, catalog, "a")
            try:
                assert second.result(timeout=20) is None
            finally:
                uow.commit()
        assert first is not None

    def test_a_job_added_by_two_at_once_is_there_once_and_harms_neither(
        self, catalog: SqlCatalog, outsider: Engine
    ) -> None:
        def second() -> None:
            with catalog.begin() as uow:
                uow.jobs.add(job("a", window=2))
                uow.jobs.add(job("b"))
                uow.commit()

        with ThreadPoolExecutor(1) as pool:
            with catalog.begin() as uow:
                uow.jobs.add(job("a", window=1))
                done = pool.submit(second)
                until_somebody_waits(outsider)
                uow.commit()
            done.result(timeout=60)
        with catalog.begin() as uow:
            assert [(j.id, j.window_index) for j in uow.jobs.find()] == [("a", 1), ("b", 0)]
