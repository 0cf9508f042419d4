"""What every table of profiles must do, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.jobs import JobKind
from ptkstore.domain.ptks.profiles import Paid, Point, ProfileRecord, ProfileState, Verdict
from ptkstore.domain.streams.blocks import BlockRange
from ptkstore.errors import LateWriter
from tests.support.builders import NOW, PTK, STREAM, add, job, ptk_spec, stream_named
from tests.support.databases import OnPostgresql, OnSqlite
from tests.support.profile_asks import ASK

FIRST = ProfileRecord(
    ASK.key,
    1,
    STREAM,
    7,
    "profile/a/7",
    ProfileState.ANSWERED,
    1,
    (Point(0.1, Verdict.FOUND, 128), Point(0.5, Verdict.FOUND, 64)),
    (Paid("profile", 7, BlockRange(896, 897), Loss(10**9, 5)),),
)
RENEWED = replace(
    FIRST, number=2, asked_at=40, job_id="profile/a/40", state=ProfileState.OPEN, points=(), paid=()
)


class ProfilesContract:
    def test_a_profile_comes_back_as_it_was_written(self, catalog: SqlCatalog) -> None:
        changed = replace(FIRST, drifted_at=9, code="timeout", tries=2, job_id="drift/a/9")
        with catalog.begin() as uow:
            uow.profiles.add(FIRST)
            uow.commit()
        with catalog.begin() as uow:
            assert uow.profiles.of([ASK.key, "unknown"]) == {ASK.key: (FIRST,), "unknown": ()}
            uow.profiles.save(changed)
            uow.commit()
        with catalog.begin() as uow:
            assert uow.profiles.of([ASK.key])[ASK.key] == (changed,)

    def test_renewals_come_in_their_order_and_a_job_finds_its_own(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            uow.profiles.add(RENEWED)
            uow.profiles.add(FIRST)
            uow.commit()
        with catalog.begin() as uow:
            assert uow.profiles.of([ASK.key])[ASK.key] == (FIRST, RENEWED)
            assert uow.profiles.of_job("profile/a/40") == RENEWED
            assert uow.profiles.of_job("profile/a/41") is None

    def test_a_profile_begins_once(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            uow.profiles.add(FIRST)
            uow.commit()
        with catalog.begin() as uow, pytest.raises(LateWriter):
            uow.profiles.add(replace(FIRST, job_id="profile/b/7"))
        with catalog.begin() as uow:
            assert uow.profiles.of_job("profile/b/7") is None

    def test_the_database_refuses_what_is_no_profile(self, catalog: SqlCatalog) -> None:
        for wrong in (replace(FIRST, number=0), replace(FIRST, tries=-1)):
            with catalog.begin() as uow, pytest.raises((LateWriter, IntegrityError)):
                uow.profiles.add(wrong)
        with catalog.begin() as uow:
            assert uow.profiles.of([ASK.key])[ASK.key] == ()

    def test_a_ptk_is_read_with_what_its_profile_says_today(self, catalog: SqlCatalog) -> None:
        spec = replace(ptk_spec(), profile=ASK)
        with catalog.begin() as uow:
            uow.streams.add(stream_named())
            uow.ptks.add(spec)
            uow.ptks.add(ptk_spec("taxi.other"))
            uow.commit()
        with catalog.begin() as uow:
            assert uow.ptks.get(PTK) == spec  # the ask itself comes back, and nothing is known yet
            uow.profiles.add(FIRST)
            uow.commit()
        known = replace(spec, menu=((0.1, 128), (0.5, 64)))
        with catalog.begin() as uow:
            assert [uow.ptks.get(PTK), uow.ptks.lock(PTK), uow.ptks.informed(spec)] == [known] * 3
            assert uow.ptks.find(stream=STREAM) == (ptk_spec("taxi.other"), known)
            uow.profiles.save(replace(FIRST, drifted_at=8))
            uow.commit()
        with catalog.begin() as uow:
            assert uow.ptks.get(PTK) == spec

    def test_profiles_do_not_keep_other_work_waiting(self, catalog: SqlCatalog) -> None:
        early = NOW - timedelta(hours=1)
        add(
            catalog,
            job("drift/a", JobKind.DRIFT, due_at=early),
            job("profile/a", JobKind.PROFILE, due_at=early),
            job("train/a", JobKind.TRAIN, ptk_id=PTK),
        )
        with catalog.begin() as uow:
            assert uow.jobs.due(NOW, 10) == ("train/a", "drift/a", "profile/a")


class TestSqlite(OnSqlite, ProfilesContract):
    pass


class TestPostgres(OnPostgresql, ProfilesContract):
    pass
