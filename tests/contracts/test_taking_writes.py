"""Whether a catalog takes what is written, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import Engine, text

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.errors import Unavailable
from tests.support.databases import OnPostgresql, OnSqlite

PROBE = text("SELECT value FROM meta WHERE name = 'probe'")


class TakingWritesContract:
    def test_a_row_is_committed_each_time_and_it_is_one(self, catalog: SqlCatalog, outsider: Engine) -> None:
        found = set()
        for _ in range(3):
            assert catalog.takes_writes(1.0)
            with outsider.connect() as connection:
                found.add(connection.execute(PROBE).scalar_one())
        assert len(found) == 3

    def test_who_waits_in_vain_says_so_soon(self, catalog: SqlCatalog, outsider: Engine) -> None:
        assert catalog.takes_writes(1.0)
        with outsider.connect() as connection:
            connection.execute(text("UPDATE meta SET value = 'x' WHERE name = 'probe'"))
            begun = time.monotonic()
            assert catalog.takes_writes(0.05) is False
            assert time.monotonic() - begun < 30
        assert catalog.takes_writes(1.0)

    def test_other_transactions_wait_as_long_as_ever(self, catalog: SqlCatalog) -> None:
        query = "PRAGMA busy_timeout" if isinstance(self, OnSqlite) else "SHOW lock_timeout"

        def patience() -> object:
            with catalog.begin() as uow:
                return uow._connection.exec_driver_sql(query).scalar_one()

        before = patience()
        assert catalog.takes_writes(0.05)
        assert patience() == before


class TestTakingWritesOnSqlite(OnSqlite, TakingWritesContract):
    pass


class TestTakingWritesOnPostgreSQL(OnPostgresql, TakingWritesContract):
    def test_one_that_refuses_is_unavailable(self, catalog: SqlCatalog, outsider: Engine) -> None:
        with outsider.begin() as connection:
            connection.execute(
                text(
                    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                    "RAISE EXCEPTION USING ERRCODE = 'disk_full'; END $$"
                )
            )
            connection.execute(
                text("CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON meta EXECUTE FUNCTION refuse()")
            )
        with pytest.raises(Unavailable, match="takes no writes"):
            catalog.takes_writes(1.0)
