"""Catalogs of older schemas are brought to this program's, on request only, with all that they hold."""

from __future__ import annotations

import sqlite3
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Column, Connection, String, Table, create_engine, text
from sqlalchemy.exc import DBAPIError

from ptkstore.adapters.keys import FileKeyStore
from ptkstore.adapters.sql import SqlCatalog
from ptkstore.adapters.sql import catalog as catalog_module
from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.catalog import open_engine
from ptkstore.adapters.sql.migrating import SqlCatalogSchema, differences
from ptkstore.adapters.sql.migrations.versions import v0016_ended_waits
from ptkstore.adapters.sql.schema import found_version, lock_setup
from ptkstore.application.ledger.verification import verify_ledger
from ptkstore.domain.streams.policy_texts import policy_in
from ptkstore.errors import CatalogOutdated, Refused, Unavailable
from tests.services.postgres import Postgres
from tests.support.older_catalogs import rows_of, shape_of, write_schema_3

STREAM = "rides"  # of the stored catalog
MOVED = {"notice": {"subject"}, "job": {"position"}}  # see test_moved_facts.py
VENDORS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.real)]


@pytest.fixture(params=VENDORS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A catalog of schema 3."""
    place = (
        f"sqlite:///{tmp_path / 'catalog.db'}"
        if request.param == "sqlite"
        else request.getfixturevalue("fresh_postgres_url")
    )
    write_schema_3(place)
    return str(place)


@pytest.fixture
def fresh(url: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A catalog that this program made."""
    if url.startswith("sqlite"):
        place = f"sqlite:///{tmp_path / 'fresh.db'}"
        SqlCatalog(place).close()
        yield place
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.fresh_database() as place:
        SqlCatalog(place).close()
        yield place


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A catalog of schema 3 on SQLite."""
    path = tmp_path / "catalog.db"
    write_schema_3(f"sqlite:///{path}")
    return path


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    engine = open_engine(url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_an_upgraded_catalog_is_like_one_made_anew(url: str, fresh: str) -> None:
    SqlCatalogSchema(url).upgrade(backed_up=True)
    with connected(url) as upgraded, connected(fresh) as made:
        assert shape_of(upgraded) == shape_of(made)


def test_the_revisions_lead_to_the_tables_of_this_program(url: str) -> None:
    schema = SqlCatalogSchema(url)
    assert schema.state().pending[-1].startswith(f"{t.SCHEMA_VERSION}: ")
    pending, told = len(schema.state().pending), list[tuple[int, int]]()
    schema.upgrade(backed_up=True, tell=lambda done, total: told.append((done, total)))
    steps = pending + url.startswith("sqlite")  # whose copy is a step
    assert told == [(done, steps) for done in range(steps + 1)]
    with connected(url) as connection:
        assert differences(connection) == [], "the tables changed: write a migration"


def test_a_table_that_no_revision_makes_is_seen(url: str) -> None:
    SqlCatalogSchema(url).upgrade(backed_up=True)
    unheard = Table("unheard_of", t.metadata, Column("name", String, primary_key=True))
    try:
        with connected(url) as connection:
            assert differences(connection) == ["add_table unheard_of"]
    finally:
        t.metadata.remove(unheard)


def test_every_row_is_kept_and_the_journal_adds_up(url: str, tmp_path: Path) -> None:
    with connected(url) as connection:
        before = rows_of(connection)
    assert all(before.values()), "a table of the stored catalog is empty"
    assert SqlCatalogSchema(url).upgrade(backed_up=True).before.current == "3"
    with connected(url) as connection:
        after = rows_of(connection)
    for table, rows in before.items():
        known = set(rows[0]) - MOVED.get(table, set())
        rows, kept = ([{name: row[name] for name in known} for row in some] for some in (rows, after[table]))
        if table == "meta":
            needed = str(t.SCHEMA_VERSION)
            rows = [{**row, "value": needed} if row["name"] == "schema_version" else row for row in rows]
            rows = [*rows, {"name": t.CLAIMS, "value": ""}]
        assert sorted(kept, key=repr) == sorted(rows, key=repr), table
    with SqlCatalog(url) as catalog:
        keys = FileKeyStore(tmp_path / "keys")
        keys.create_stream(STREAM)
        check = verify_ledger(STREAM, begin=catalog.begin, keys=keys, journal=catalog.journal_view())
        with catalog.read() as uow:
            stream, (line,) = uow.streams.get(STREAM), uow.ledger.policies(STREAM)
    assert (check.entries, check.faults) == (13, ())
    assert (line.sequence, policy_in(line.policy_text)) == (13, stream.policy)


def test_the_journal_stays_append_only(url: str) -> None:
    SqlCatalogSchema(url).upgrade(backed_up=True)
    for statement in (
        "UPDATE journal SET epsilon_nano = 1",
        "DELETE FROM journal",
        "DELETE FROM policy",
        "DELETE FROM audit",
    ):
        with connected(url) as connection, pytest.raises(DBAPIError, match="append-only"):
            connection.execute(text(statement))


def test_an_older_catalog_is_not_touched_until_somebody_asks(url: str) -> None:
    with connected(url) as connection:
        before = shape_of(connection), rows_of(connection)
    with pytest.raises(CatalogOutdated, match=r"schema 3.*needs \d+.*ptk catalog upgrade"):
        SqlCatalog(url)
    state = SqlCatalogSchema(url).state()
    assert (state.current, state.needed, state.up_to_date) == ("3", str(t.SCHEMA_VERSION), False)
    assert [one.partition(":")[0] for one in state.pending] == [
        str(one) for one in range(4, t.SCHEMA_VERSION + 1)
    ]
    with connected(url) as connection:
        assert (shape_of(connection), rows_of(connection)) == before


def test_of_many_who_upgrade_at_once_one_does_it(url: str) -> None:
    def found(_: int) -> str | None:
        return SqlCatalogSchema(url).upgrade(backed_up=True).before.current

    with ThreadPoolExecutor(4) as pool:
        assert sorted(int(str(one)) for one in pool.map(found, range(4))) == [3] + [t.SCHEMA_VERSION] * 3


@pytest.mark.real
def test_an_upgrade_waits_for_whoever_changes_tables(fresh_postgres_url: str) -> None:
    write_schema_3(fresh_postgres_url)
    asked = text("SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted")
    with connected(fresh_postgres_url) as other, ThreadPoolExecutor(1) as pool:
        lock_setup(other)
        upgrading = pool.submit(SqlCatalogSchema(fresh_postgres_url).upgrade, backed_up=True)
        until = time.monotonic() + 60
        while other.execute(asked).scalar_one() != 1:
            assert not upgrading.done()
            assert time.monotonic() < until
            time.sleep(0.02)
        assert found_version(other) == "3"
        other.rollback()
        assert upgrading.result(60).before.current == "3"


@pytest.mark.real
def test_an_upgrade_does_not_wait_for_ever_for_whoever_holds_a_table(
    fresh_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_schema_3(fresh_postgres_url)
    with connected(fresh_postgres_url) as other:
        other.execute(text("LOCK TABLE job IN ACCESS SHARE MODE"))
        monkeypatch.setattr(catalog_module, "_PATIENCE_SECONDS", 1.0)
        with pytest.raises(Unavailable):
            SqlCatalogSchema(fresh_postgres_url).upgrade(backed_up=True)
        other.rollback()
    monkeypatch.undo()
    assert SqlCatalogSchema(fresh_postgres_url).upgrade(backed_up=True).before.current == "3"


@contextmanager
def upgrading_to(url: str, version: str) -> Iterator[Connection]:
    """The transaction of an upgrade, of which nobody knows yet how it ends."""
    with connected(url) as connection:
        lock_setup(connection)
        connection.execute(text(f"UPDATE meta SET value = '{version}' WHERE name = 'schema_version'"))
        yield connection


@pytest.mark.parametrize("ends", ["committed", "rolled back"])
def test_who_starts_beside_an_upgrade_waits_and_then_goes_by_what_it_left(fresh: str, ends: str) -> None:
    if fresh.startswith("sqlite"):
        pytest.skip("on SQLite a start only looks, and waits for no writer")
    with upgrading_to(fresh, "99") as connection, ThreadPoolExecutor(1) as pool:
        starting = pool.submit(SqlCatalog, fresh)
        try:
            with pytest.raises(TimeoutError):
                starting.result(0.5)
        finally:
            connection.commit() if ends == "committed" else connection.rollback()
        if ends == "committed":
            with pytest.raises(CatalogOutdated, match="schema 99"):
                starting.result(60)
        else:
            starting.result(60).close()


def test_who_starts_beside_an_upgrade_that_does_not_end_hears_why_it_cannot(
    fresh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fresh.startswith("sqlite"):
        pytest.skip("on SQLite a start only looks, and waits for no writer")
    with upgrading_to(fresh, "99"):
        monkeypatch.setattr(catalog_module, "_PATIENCE_SECONDS", 1.0)
        with pytest.raises(Unavailable, match="is being upgraded"):
            SqlCatalog(fresh)
    monkeypatch.undo()
    SqlCatalog(fresh).close()


def test_an_upgrade_that_fails_changes_nothing(url: str) -> None:
    with connected(url) as connection:  # what the revision is about to add is in its way
        connection.execute(text("ALTER TABLE job ADD COLUMN trace VARCHAR"))
        connection.commit()
        before = shape_of(connection), rows_of(connection)
    with pytest.raises(Unavailable):
        SqlCatalogSchema(url).upgrade(backed_up=True)
    with connected(url) as connection:
        assert (shape_of(connection), rows_of(connection)) == before


@pytest.mark.parametrize("version", ["2", "99", "two"])
def test_a_catalog_that_no_revision_starts_from_is_refused(url: str, version: str) -> None:
    with connected(url) as connection:
        connection.execute(text(f"UPDATE meta SET value = '{version}' WHERE name = 'schema_version'"))
        connection.commit()
    for act in (lambda: SqlCatalog(url), lambda: SqlCatalogSchema(url).upgrade(backed_up=True)):
        with pytest.raises(CatalogOutdated, match=f"schema {version}") as refusal:
            act()
        assert "ptk catalog upgrade" not in str(refusal.value)


def test_sqlite_is_copied_first_for_its_owner_alone(file: Path) -> None:
    copy = SqlCatalogSchema(f"sqlite:///{file}").upgrade(backed_up=False).copy
    assert copy is not None
    assert (copy.parent, stat.S_IMODE(copy.stat().st_mode)) == (file.with_name("backups"), 0o600)
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700
    with closing(sqlite3.connect(copy)) as one:
        version = "SELECT value FROM meta WHERE name = 'schema_version'"
        assert one.execute(version).fetchone() == ("3",)
        assert one.execute("SELECT count(*) FROM journal").fetchone() == (12,)
    assert SqlCatalogSchema(f"sqlite:///{file}").upgrade(backed_up=False).copy is None


@pytest.mark.real
def test_postgresql_is_upgraded_only_when_a_backup_was_made(fresh_postgres_url: str) -> None:
    write_schema_3(fresh_postgres_url)
    schema = SqlCatalogSchema(fresh_postgres_url)
    with pytest.raises(Refused, match="--backed-up"):
        schema.upgrade(backed_up=False)
    assert schema.state().current == "3"


@pytest.mark.real
def test_tables_of_others_in_the_same_database_do_not_matter(fresh_postgres_url: str) -> None:
    write_schema_3(fresh_postgres_url)  # Feast's registry lies there too
    engine = create_engine(fresh_postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE feature_views (name text)"))
    engine.dispose()
    SqlCatalogSchema(fresh_postgres_url).upgrade(backed_up=True)
    with connected(fresh_postgres_url) as connection:
        assert differences(connection) == []


def test_a_process_that_slept_through_an_upgrade_does_no_job_any_more(tmp_path: Path) -> None:
    with SqlCatalog(f"sqlite:///{tmp_path / 'catalog.db'}") as catalog:
        assert catalog.journal_view().ledger_id
        with catalog.begin() as uow:
            newer: Any = str(t.SCHEMA_VERSION + 1)
            statement = f"UPDATE meta SET value = '{newer}' WHERE name = 'schema_version'"
            uow._connection.exec_driver_sql(statement)
            uow.commit()
        with pytest.raises(CatalogOutdated, match=f"schema {newer}"):
            _ = catalog.journal_view().ledger_id


def test_waits_of_ptks_that_were_given_up_before_are_kept_and_those_of_others_last(file: Path) -> None:
    url = f"sqlite:///{file}"
    SqlCatalogSchema(url).upgrade(backed_up=True)
    with connected(url) as connection:
        connection.execute(text("DROP TABLE ended_wait"))
        ptk = connection.execute(text("SELECT ptk_id, stream FROM ptk ORDER BY ptk_id LIMIT 1")).one()
        connection.execute(text("UPDATE ptk SET given_up = 'timeout' WHERE ptk_id = :ptk_id"), ptk._mapping)
        for ptk_id, since in ((ptk.ptk_id, 5), ("rides.waits", 6)):
            row = {"ptk_id": ptk_id, "stream": ptk.stream, "since": since}
            connection.execute(text("INSERT INTO wait VALUES (:ptk_id, :stream, :since, 0, 0)"), row)
        with Operations.context(MigrationContext.configure(connection)):
            v0016_ended_waits.upgrade()
        kept = connection.execute(text("SELECT ptk_id, stream, since, until, how FROM ended_wait")).all()
    assert [tuple(row) for row in kept] == [(ptk.ptk_id, ptk.stream, 5, None, "timeout")]
