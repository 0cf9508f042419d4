"""Operators' numbers and signs of life, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import event

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.adapters.sql import tables as t
from ptkstore.domain.jobs import JobKind, JobState, Outcome
from ptkstore.domain.subscriptions import Subscription
from ptkstore.ports.operations import JobNumbers, Outbox
from tests.support.builders import LEASE, NOW, PTK, STREAM, add, claim, job, ptk_spec, stream_named, version
from tests.support.databases import OnPostgresql, OnSqlite

MINUTE = timedelta(minutes=1)


class OperationsContract:
    def test_who_was_seen_lately_is_alive(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            assert uow.operations.last_seen(NOW) == {}
            for instance, at in (("a", NOW), ("b", NOW - 2 * MINUTE), ("a", NOW + MINUTE)):
                uow.operations.saw("relay", instance, at)
            uow.operations.saw("schedule", "a", NOW - 5 * MINUTE)
            uow.commit()
        with catalog.begin() as uow:
            assert uow.operations.last_seen(NOW) == {
                "relay": (1, NOW + MINUTE),
                "schedule": (0, NOW - 5 * MINUTE),
            }

    def test_processes_of_long_ago_are_forgotten(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            for day in range(5):
                uow.operations.saw("relay", f"instance-{day}", NOW + timedelta(days=2 * day))
            uow.commit()
        with catalog.begin() as uow:
            assert uow._connection.execute(t.processes.select()).all() == [
                ("relay", "instance-4", NOW + timedelta(days=8))
            ]

    def test_jobs_wait_run_and_end(self, catalog: SqlCatalog) -> None:
        add(
            catalog,
            job("prepare/a", due_at=NOW - 3 * MINUTE),
            job("prepare/b", window=1, due_at=NOW - MINUTE),
            job("prepare/later", window=2, due_at=NOW + MINUTE),
            job("expire/a", JobKind.EXPIRE, window=9, due_at=NOW - MINUTE),
            job("place/a", JobKind.PLACE, window=None, ptk_id="other.ptk", state=JobState.IDLE),
        )
        assert claim(catalog, "expire/a")
        with catalog.begin() as uow:
            uow.jobs.save(uow.jobs.lock("prepare/b").ended(Outcome.FAILED))
            uow.commit()
        with catalog.begin() as uow:
            read = uow.operations.numbers(NOW + LEASE / 2)
        assert read.jobs["prepare"] == JobNumbers(1, NOW - 3 * MINUTE, 0)
        assert read.jobs["expire"] == JobNumbers(0, None, 1)
        assert read.jobs["place"] == JobNumbers()
        assert set(read.jobs) == {kind.value for kind in JobKind}
        assert read.ended == {("prepare", "failed"): 1}

    def test_an_outbox_is_as_old_as_the_oldest_version_that_somebody_is_to_hear_of(
        self, catalog: SqlCatalog
    ) -> None:
        with catalog.begin() as uow:
            uow.streams.add(stream_named())
            uow.ptks.add(ptk_spec())
            for number in (1, 2, 3):
                uow.jobs.add(job(f"train/{number}", JobKind.TRAIN, ptk_id=PTK, window=number))
                uow.versions.add(version(number, f"train/{number}"))
            for kind, position in ((JobKind.PLACE, 3), (JobKind.FLIP, 3)):
                uow.jobs.add(job(f"{kind}/{PTK}", kind, ptk_id=PTK, window=None, position=position))
            for name, position in (("up", 3), ("behind", 1), ("gone", 0)):
                uow.subscriptions.add(Subscription(name, PTK, f"https://{name}.example", "taxi"))
                one = job(f"notify/{name}", JobKind.NOTIFY, ptk_id=PTK, window=None, position=position)
                uow.jobs.add(one)
                notify = t.jobs.update().where(t.jobs.c.id == f"notify/{name}")
                uow._connection.execute(notify.values(subscription_id=name))
            of = t.subscriptions.update().where
            uow._connection.execute(of(t.subscriptions.c.id == "behind").values(failures=2))
            uow._connection.execute(of(t.subscriptions.c.id == "gone").values(disabled_at=NOW, failures=9))
            for number in (1, 2):
                letter = t.dead_letters.insert().values(subscription_id="gone", number=number)
                uow._connection.execute(letter.values(code="timeout", at=NOW))
            second = t.versions.update().where(t.versions.c.number == 2)
            uow._connection.execute(second.values(elected_at=NOW - 7 * MINUTE))
            uow.commit()
        with catalog.begin() as uow:
            read = uow.operations.numbers(NOW)
        assert read.outbox == {PTK: Outbox(2, NOW - 7 * MINUTE, dead_letters=2, failing=1, disabled=1)}
        assert read.versions == {(PTK, "lake"): 3, (PTK, "online"): 3}

    def test_numbers_take_as_many_queries_whatever_there_is(self, catalog: SqlCatalog) -> None:
        asked: list[str] = []

        def count(*words: object) -> None:
            asked.append(str(words[2]))

        event.listen(catalog._engine, "before_cursor_execute", count)

        def queries() -> int:
            asked.clear()
            with catalog.begin() as uow:
                uow.operations.numbers(NOW)
            return len(asked)

        few = queries()
        with catalog.begin() as uow:
            uow.streams.add(stream_named(STREAM))
            uow.ptks.add(ptk_spec())
            for number in range(50):
                uow.subscriptions.add(Subscription(f"sub-{number}", PTK, "https://a.example", "taxi"))
            uow.commit()
        assert queries() == few


class TestOnSqlite(OnSqlite, OperationsContract):
    pass


class TestOnPostgresql(OnPostgresql, OperationsContract):
    pass
