"""Every read of a transaction that only reads, on SQLite and on a real PostgreSQL, where none of them may lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, get_type_hints

import pytest
from sqlalchemy.exc import DBAPIError

from ptklib import HistoricalStatistics
from ptkstore.adapters.sql import SqlCatalog
from ptkstore.application.delivery.read_notices import notices_of
from ptkstore.application.identity.create_team import create_team
from ptkstore.application.ptks.registration import check_columns_are_stored
from ptkstore.domain.audit import TrailFilter
from ptkstore.domain.jobs import JobKind
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.blocks import BlockRange
from ptkstore.domain.streams.schemas import ColumnType
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import Conflict, Unavailable, UnknownName
from ptkstore.ports.catalog import Begin, CatalogView, Read
from ptkstore.ports.runtime import Clock
from tests.support.builders import NOW, PTK, STREAM, add, job, ptk_spec, stream_named
from tests.support.databases import OnPostgresql, OnSqlite

READS: dict[str, tuple[Any, ...]] = {
    "streams.get": (STREAM,),
    "streams.all": (),
    "streams.policy_in_row": (STREAM,),
    "streams.progress": (STREAM,),
    "streams.progresses": ([STREAM],),
    "streams.stored_part": (STREAM, "a"),
    "streams.tokens_for": (WindowId(STREAM, 0),),
    "windows.get": (WindowId(STREAM, 0),),
    "windows.of": (STREAM,),
    "windows.kept": ([STREAM],),
    "windows.closed_since": (NOW,),
    "windows.first_kept": (STREAM,),
    "windows.prepared": (STREAM,),
    "windows.states": (STREAM, (0,)),
    "windows.between": (STREAM, 0, 2),
    "ledger.created": (STREAM,),
    "ledger.filters": (STREAM,),
    "ledger.blocks": (STREAM,),
    "ledger.history": ("key",),
    "ledger.histories": (["key"],),
    "ledger.journal": (STREAM,),
    "ledger.chain": (STREAM,),
    "ledger.touching": (STREAM, BlockRange(0, 9), 0, 10),
    "ledger.policies": (STREAM,),
    "ledger.spent_as": (STREAM, [PTK], "EpsilonDelta"),
    "ptks.check_free": (PTK, STREAM),
    "ptks.get": (PTK,),
    "ptks.find": (),
    "ptks.tested_on": (STREAM,),
    "ptks.labelled_stream": (PTK,),
    "ptks.stream_of": (PTK,),
    "ptks.first_window": (PTK,),
    "ptks.ids_on": (STREAM,),
    "ptks.by_age": (STREAM,),
    "ptks.informed": (ptk_spec(),),
    "profiles.of": (["key"],),
    "profiles.of_job": ("profile/a",),
    "versions.get": (PTK, 1),
    "versions.latest": (PTK,),
    "versions.last_rollback": (PTK,),
    "versions.of": (PTK,),
    "versions.of_jobs": (["train/a"],),
    "versions.elected_since": (NOW,),
    "versions.newest_times": (),
    "versions.lineage": (PTK, WindowId(STREAM, 0)),
    "versions.on_windows": (STREAM, 0, 2),
    "versions.all": (),
    "versions.draft_ids": (),
    "evaluations.of": (PTK,),
    "validations.of": (PTK,),
    "validations.of_ptks": ([PTK],),
    "waits.of": (STREAM,),
    "waits.last": (PTK,),
    "waits.ended": (STREAM,),
    "waits.allowed": (STREAM,),
    "thresholds.of": (STREAM,),
    "thresholds.answers": (STREAM,),
    "thresholds.released": (STREAM,),
    "identities.teams": (),
    "identities.token": ("id",),
    "identities.tokens": (),
    "identities.grants": (),
    "audit.after": (0, 10),
    "audit.about": ("stream/taxi", ["stream.create"], 10),
    "audit.last_number": (),
    "audit.newest": (range(1, 9), 5, TrailFilter()),
    "jobs.get": ("prepare/a",),
    "jobs.refused_average": (PTK,),
    "jobs.kinds": (["id"],),
    "jobs.due": (NOW, 10),
    "jobs.busy": (NOW, NOW),
    "jobs.find": (),
    "jobs.prepared": (STREAM, 0, 2),
    "jobs.refused_drafts": (STREAM,),
    "jobs.needless_partials": (WindowId(STREAM, 0),),
    "jobs.unfinished_jobs": ([JobKind.PREPARE], None, 10),
    "jobs.unfinished": (STREAM, [JobKind.PREPARE], 0, 2),
    "jobs.trainings": (PTK,),
    "jobs.trainings_since": ({PTK: 0},),
    "jobs.many": (["train/a"],),
    "jobs.placed": (),
    "jobs.comparisons": (STREAM,),
    "operations.last_seen": (NOW,),
    "operations.numbers": (NOW,),
    "subscriptions.get": ("id",),
    "subscriptions.many": (["id"],),
    "subscriptions.of": (),
    "subscriptions.dead_letters": ("id",),
    "subscriptions.dead_letters_of": (["id"],),
    "subscriptions.newest_dead_letters": (["id"], 5),
    "subscriptions.missed": (["id"],),
    "subscriptions.attempts": ("id", NOW),
    "deliveries.positions": (["id"],),
    "notices": (),
    "notices_about": ("taxi", PTK),
}
"""Every method of `CatalogView` with what it may be asked."""


def test_every_read_that_the_port_declares_is_tried() -> None:
    declared = set[str]()
    for name in (one for one in vars(CatalogView) if not one.startswith("_")):
        member = vars(CatalogView)[name]
        if isinstance(member, property):
            kind = get_type_hints(member.fget)["return"]
            declared |= {f"{name}.{one}" for one in vars(kind) if not one.startswith("_")}
        else:
            declared.add(name)
    assert declared == set(READS)


class ReadTransactionContract:
    @pytest.mark.parametrize("begins", ["read", "read_one_moment"])
    def test_every_read_works_without_the_right_to_write(self, catalog: SqlCatalog, begins: str) -> None:
        with catalog.begin() as uow:
            uow.streams.add(stream_named())
            uow.commit()
        read: Read = getattr(catalog, begins)
        for name, asked in READS.items():
            with read() as reading:
                method: Callable[..., Any] = reading  # type: ignore[assignment]
                for part in name.split("."):
                    method = getattr(method, part)
                with suppress(UnknownName):
                    found = method(*asked)
                    if isinstance(found, Iterator):
                        list(found)

    @pytest.mark.parametrize("begins", ["read", "read_one_moment"])
    def test_the_database_refuses_to_write(self, catalog: SqlCatalog, begins: str) -> None:
        with catalog.begin() as uow:  # the connection has written before
            uow.streams.add(stream_named())
            uow.commit()
        with pytest.raises((DBAPIError, Unavailable)), getattr(catalog, begins)() as reading:
            reading._notices.add(Notice(NOW, "taxi", "failed", ptk_id=PTK))
        with catalog.begin() as uow:
            assert not uow.notices()
            uow.notify_owner(Notice(NOW, "taxi", "failed", ptk_id=PTK))
            uow.commit()

    def test_there_is_nothing_to_commit(self, catalog: SqlCatalog) -> None:
        with catalog.read() as reading:
            assert reading.read_only
            assert not hasattr(reading, "commit")
            assert not hasattr(reading, "notify_owner")
        with catalog.begin() as uow:
            assert not uow.read_only

    def test_a_ptk_of_a_column_that_is_new_is_looked_at_without_a_lock(self, catalog: SqlCatalog) -> None:
        stream = stream_named()
        grown = replace(stream, schema=stream.schema.with_column("tip", ColumnType.FLOAT64, 3.0, since=1))
        with catalog.begin() as uow:
            uow.streams.add(stream)
            uow.commit()
        add(catalog, job("prepare/a"))
        with catalog.read_one_moment() as reading, pytest.raises(Conflict, match="a moment ago"):
            check_columns_are_stored(reading, _of_tips(), grown)


def _of_tips() -> PtkSpec:
    estimator = HistoricalStatistics(
        keys=["hour"], values=["tip"], domains={"hour": [1]}, bounds={"tip": (0.0, 1.0)}, epsilon=0.1
    )
    return replace(ptk_spec(), estimator=estimator.to_spec())


class TestReadTransactionsOnSqlite(OnSqlite, ReadTransactionContract):
    pass


class TestReadTransactionsOnPostgreSQL(OnPostgresql, ReadTransactionContract):
    pass


def for_mypy_alone(begin: Begin, read: Read, clock: Clock) -> None:
    """What mypy refuses: `warn_unused_ignores` fails `make check` once it accepts one of these."""
    notices_of(begin=begin)  # type: ignore[arg-type]
    create_team("taxi", begin=read, clock=clock)  # type: ignore[arg-type]
    with read() as reading:
        reading.commit()  # type: ignore[attr-defined]
        reading.streams.lock(STREAM)  # type: ignore[attr-defined]
        reading.jobs.of_window(WindowId(STREAM, 0), JobKind.PREPARE)  # type: ignore[attr-defined]
    notices_of(begin=read)
