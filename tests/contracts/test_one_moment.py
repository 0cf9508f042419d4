"""Transactions whose reads all see one moment, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.domain.notices import Notice
from tests.support.builders import NOW, PTK
from tests.support.databases import OnPostgresql, OnSqlite


class OneMomentContract:
    def test_what_is_committed_after_the_first_read_is_seen_by_the_next_transaction(
        self, catalog: SqlCatalog
    ) -> None:
        with catalog.read_one_moment() as reading:
            assert list(reading.notices("taxi")) == []
            with catalog.begin() as uow:
                uow.notify_owner(Notice(NOW, "taxi", "failed", ptk_id=PTK))
                uow.commit()
            assert list(reading.notices("taxi")) == []
        with catalog.read_one_moment() as reading:
            assert len(reading.notices("taxi")) == 1


class TestOneMomentOnSqlite(OnSqlite, OneMomentContract):
    pass


class TestOneMomentOnPostgreSQL(OnPostgresql, OneMomentContract):
    def test_the_connection_reads_what_is_committed_again_when_it_comes_back(
        self, catalog: SqlCatalog
    ) -> None:
        def session(uow: object) -> tuple[object, object, object]:
            connection = uow._connection  # type: ignore[attr-defined]  # the live one, which transactions use
            return (
                connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one(),
                connection.exec_driver_sql("SHOW transaction_isolation").scalar_one(),
                connection.exec_driver_sql("SHOW transaction_read_only").scalar_one(),
            )

        with catalog.read_one_moment() as uow:
            process, *kind = session(uow)
        assert kind == ["repeatable read", "on"]
        with catalog.begin() as uow:
            assert session(uow) == (process, "read committed", "off")
        with catalog.read() as uow:
            assert session(uow) == (process, "read committed", "on")
