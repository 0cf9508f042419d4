"""Whose job comes next, on SQLite and on a real PostgreSQL: no team holds up another (differences.md F17)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from ptklib import HistoricalStatistics
from ptkstore.adapters.runtime import SilentSteps
from ptkstore.adapters.sql import SqlCatalog
from ptkstore.application.operations.claim_job import claim_fairest
from ptkstore.domain.jobs import LONGEST_LEASE, Job, JobKind, Outcome, latest_due
from tests.support.builders import LEASE, NOW, add, claim, job, ptk_spec, stream_named
from tests.support.databases import OnPostgresql, OnSqlite
from tests.support.world import StandingClock

SECOND = timedelta(seconds=1)
LIGHT = HistoricalStatistics(
    keys=["hour"], domains={"hour": range(24)}, bounds={"speed": (0, 60)}, epsilon=0.1
).to_spec()
TEAM_CODE = {"family": "TeamCode", "params": {"bundle": "0" * 64}}


def training(ptk_id: str, *, late: int = 0, window: int = 0) -> Job:
    """A training that has waited for so many seconds."""
    return job(
        f"train/{ptk_id}/{window}",
        JobKind.TRAIN,
        window=window,
        ptk_id=ptk_id,
        due_at=NOW - late * SECOND,
    )


def trainings(team: str, n: int, *, late: int = 0) -> list[Job]:
    return [training(f"{team}.p{number}", late=late) for number in range(n)]


def with_team_code(catalog: SqlCatalog, *ptk_ids: str) -> None:
    with catalog.begin() as uow:
        uow.streams.add(stream_named())
        for ptk_id in ptk_ids:
            uow.ptks.add(replace(ptk_spec(ptk_id), estimator=TEAM_CODE))
        uow.commit()


def due(catalog: SqlCatalog, now: datetime = NOW, slots: int | None = None) -> list[str]:
    with catalog.begin() as uow:
        return list(uow.jobs.due(now, 100, slots=slots))


def fairest(catalog: SqlCatalog, slots: int = 2, now: datetime = NOW) -> Job | None:
    with catalog.begin() as uow:
        taken = uow.jobs.claim_fairest(now, LEASE, slots)
        uow.commit()
    return taken


def taken(catalog: SqlCatalog, slots: int = 2) -> str | None:
    found = fairest(catalog, slots)
    return None if found is None else found.id.removeprefix("train/").removesuffix("/0")


def ended(catalog: SqlCatalog, job_id: str) -> None:
    with catalog.begin() as uow:
        uow.jobs.save(uow.jobs.lock(job_id).ended(Outcome.DONE))
        uow.commit()


class SharesContract:
    def test_one_job_of_a_team_comes_before_the_second_of_another_however_long_that_waits(
        self, catalog: SqlCatalog
    ) -> None:
        add(catalog, *trainings("many", 4, late=60), training("one.p0"), training("two.p0", late=1))
        assert due(catalog) == [
            f"train/{name}/0" for name in ("many.p0", "two.p0", "one.p0", "many.p1", "many.p2", "many.p3")
        ]

    def test_a_team_that_holds_slots_comes_after_one_that_holds_none(self, catalog: SqlCatalog) -> None:
        add(catalog, *trainings("many", 5, late=60))
        assert [taken(catalog), taken(catalog)] == ["many.p0", "many.p1"]
        add(catalog, *trainings("one", 3))
        assert [taken(catalog, slots=9) for _ in range(6)] == [
            "one.p0",
            "one.p1",
            *("many.p2", "one.p2"),  # both hold two: the turn of `many` is longer ago
            *("many.p3", "many.p4"),
        ]

    def test_with_one_slot_teams_take_turns(self, catalog: SqlCatalog) -> None:
        add(catalog, *trainings("a", 3, late=9), *trainings("b", 2, late=60), *trainings("c", 1))
        order = []
        while (name := taken(catalog, slots=1)) is not None:
            order.append(name)
            ended(catalog, f"train/{name}/0")
        assert order == ["b.p0", "a.p0", "c.p0", "b.p1", "a.p1", "a.p2"]

    def test_jobs_of_no_ptk_have_the_share_of_their_stream(self, catalog: SqlCatalog) -> None:
        windows = [job(f"prepare/{n}", window=n, due_at=NOW - SECOND * 60) for n in range(3)]
        add(catalog, *windows, job("prepare/bikes", stream="bikes"), training("one.p0"))
        assert due(catalog) == ["prepare/0", "prepare/bikes", "train/one.p0/0", "prepare/1", "prepare/2"]

    def test_a_teams_trainings_come_before_what_nobody_waits_for(self, catalog: SqlCatalog) -> None:
        profile = job("profile/a.p0/0", JobKind.PROFILE, ptk_id="a.p0", due_at=NOW - 60 * SECOND)
        add(catalog, profile, *trainings("a", 2), replace(profile, id="profile/b.p0/0", ptk_id="b.p0"))
        assert due(catalog) == ["train/a.p0/0", "profile/b.p0/0", "train/a.p1/0", "profile/a.p0/0"]

    def test_small_trainings_of_the_library_are_named_alone(self, catalog: SqlCatalog) -> None:
        with_team_code(catalog, "own.p0")
        small = [replace(training(name), n_rows=9) for name in ("a.p0", "a.p1", "b.p0", "own.p0")]
        large, other = replace(training("a.p2"), n_rows=10), job("prepare/0", window=1)
        add(catalog, *small, large, other, replace(job("notify/s", JobKind.NOTIFY, ptk_id="a.p0"), n_rows=0))
        with catalog.begin() as uow:
            assert uow.jobs.due(NOW, 100, small=9) == ("train/a.p0/0", "train/b.p0/0", "train/a.p1/0")

    @pytest.mark.parametrize(("slots", "most"), [(1, 1), (2, 1), (3, 2), (5, 4)])
    def test_team_code_leaves_one_slot_to_the_library(
        self, catalog: SqlCatalog, slots: int, most: int
    ) -> None:
        loops = [f"loops.p{number}" for number in range(7)]
        with_team_code(catalog, *loops)
        add(catalog, *(training(name, late=60) for name in loops))
        assert sum(fairest(catalog, slots) is not None for _ in range(7)) == most
        assert due(catalog, slots=slots) == []  # nor is a worker hinted for nothing
        add(catalog, *trainings("loops", 9)[7:], training("one.p0"))
        assert [taken(catalog, slots) for _ in range(4)] == ["one.p0", "loops.p7", "loops.p8", None]
        ended(catalog, "train/loops.p0/0")
        assert taken(catalog, slots) == f"loops.p{most}"

    def test_many_who_claim_at_once_leave_a_slot_free_of_team_code(self, catalog: SqlCatalog) -> None:
        loops = [f"t{number}.p0" for number in range(12)]
        with_team_code(catalog, *loops)
        add(catalog, *map(training, loops))
        with ThreadPoolExecutor(6) as pool:
            claimed = [one for one in pool.map(lambda _: fairest(catalog, 3), range(24)) if one is not None]
        assert len(claimed) == len({one.id for one in claimed}) == 2

    def test_a_ptk_that_is_given_other_code_is_bound_by_it(self, catalog: SqlCatalog) -> None:
        with_team_code(catalog, "a.p0", "b.p0")
        with catalog.begin() as uow:
            uow.ptks.replace(ptk_spec("b.p0"))
            uow.commit()
        add(catalog, training("a.p0"), training("b.p0"))
        assert [taken(catalog), taken(catalog)] == ["a.p0", "b.p0"]

    def test_workers_leave_deliveries_to_the_relay(self, catalog: SqlCatalog) -> None:
        add(catalog, job("notify/s", JobKind.NOTIFY, window=None, ptk_id="a.p0"))
        assert fairest(catalog) is None
        assert due(catalog) == ["notify/s"]

    def test_many_claims_at_once_take_every_job_once(self, catalog: SqlCatalog) -> None:
        add(catalog, *trainings("a", 6), *trainings("b", 6))
        with ThreadPoolExecutor(6) as pool:
            claimed = [one.id for one in pool.map(lambda _: fairest(catalog, 9), range(12)) if one]
        rest = [one.id for one in iter(lambda: fairest(catalog, 9), None) if one]
        assert sorted(claimed + rest) == sorted(one.id for one in [*trainings("a", 6), *trainings("b", 6)])

    def test_claims_of_several_trainings_at_once_wait_for_nobody_who_waits_for_them(
        self, catalog: SqlCatalog
    ) -> None:
        teams, each = ("a", "b", "c", "d", "e", "f"), 6
        names = [f"{team}.p{number}" for team in teams for number in range(each)]
        with catalog.begin() as uow:
            uow.streams.add(stream_named())
            for name in names:
                uow.ptks.add(replace(ptk_spec(name), estimator=LIGHT))
            uow.commit()
        add(catalog, *map(training, names))
        clock = StandingClock(NOW)

        def take(_: int) -> list[str]:
            jobs = claim_fairest(
                begin=catalog.begin, clock=clock, lease=LEASE, small_rows=9, steps=SilentSteps()
            )
            return [one.id for one in jobs]

        with ThreadPoolExecutor(4) as pool:
            taken = [name for some in pool.map(take, range(12)) for name in some]
        while some := take(0):  # who finds all locked that it looks at takes none
            taken += some
        assert sorted(taken) == sorted(f"train/{name}/0" for name in names)

    # a clock that jumped ahead and came back

    @pytest.mark.parametrize("kind", [JobKind.EXPIRE, JobKind.PREPARE, JobKind.PLACE, JobKind.NOTIFY])
    def test_a_job_that_is_due_later_than_any_can_be_is_looked_at_again(
        self, catalog: SqlCatalog, kind: JobKind
    ) -> None:
        latest, tick = NOW + latest_due(kind), timedelta(microseconds=1)
        window = 0 if kind in (JobKind.EXPIRE, JobKind.PREPARE) else None
        add(catalog, job("a", kind, window=window, ptk_id="a.p0", due_at=latest))
        assert due(catalog) == []
        assert due(catalog, NOW - tick) == ["a"]
        with catalog.begin() as uow:
            again = uow.deliveries.claim(NOW - tick, LEASE, fresh=1, retried=1)
        assert [one.id for one in again] == (["a"] if kind is JobKind.NOTIFY else [])
        assert claim(catalog, "a", NOW) is None
        assert claim(catalog, "a", NOW - tick) is not None

    def test_a_lease_that_ends_later_than_any_can_holds_nobody_up(self, catalog: SqlCatalog) -> None:
        add(catalog, job("run"), job("expire", JobKind.EXPIRE))
        jumped = NOW + timedelta(hours=5)
        assert claim(catalog, "run", jumped, LONGEST_LEASE) is not None
        assert claim(catalog, "expire", NOW) is not None
        assert claim(catalog, "run", NOW) is not None


class TestSharesOnSqlite(OnSqlite, SharesContract):
    pass


class TestSharesOnPostgresql(OnPostgresql, SharesContract):
    pass
