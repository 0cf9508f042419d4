"""Upgrades of a catalog's schema, in one transaction that nobody else shares."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection, Engine, update
from sqlalchemy.exc import DBAPIError

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.catalog import open_engine
from ptkstore.adapters.sql.schema import can_be_upgraded, check_schema, found_version, lock_setup
from ptkstore.errors import InvalidRequest, InvariantBroken, Refused, Unavailable
from ptkstore.ports.operations import SchemaState, Upgraded
from ptkstore.ports.runtime import TellSteps, tell_nobody

BACKUPS = "backups"
_REVISIONS = Path(__file__).with_name("migrations")


class SqlCatalogSchema:
    """`CatalogSchema` by Alembic's revisions.

    The number in `meta` is the only record of a catalog's schema. A SQLite catalog is copied to `backups/` beside it
    before anything changes; on PostgreSQL the operator says that there is a copy.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def state(self) -> SchemaState:
        """Tell the schema of the catalog, the one this program needs, and the steps between them."""
        with _alone(self._url) as (_, connection):
            return _state(connection)

    def upgrade(self, *, backed_up: bool, tell: TellSteps = tell_nobody) -> Upgraded:
        """Bring the catalog to this program's schema; all of it, or nothing."""
        with _alone(self._url) as (engine, connection):
            before = _state(connection)
            if before.up_to_date:
                return Upgraded(before, None)
            if not can_be_upgraded(before.current):
                check_schema(connection)
            copy, pending = None, _pending(before.current)
            if _is_sqlite(engine):
                tell(0, 1 + len(pending))
                copy = _copied(engine, str(before.current))
            elif not backed_up:
                raise Refused("back the catalog up first (pg_dump), then say so by --backed-up")
            first = int(_is_sqlite(engine))  # the copy
            _apply(connection, pending, lambda done: tell(first + done, first + len(pending)))
            connection.commit()
            return Upgraded(before, copy)

    def copy_to(self, path: Path) -> None:
        """Write a copy of a SQLite catalog while others go on working."""
        engine = open_engine(self._url)
        try:
            if not _is_sqlite(engine):
                raise Refused("the catalog is on a server: copy it with pg_dump")
            _write_copy(engine, path)
        finally:
            engine.dispose()


def _is_sqlite(engine: Engine) -> bool:
    return engine.dialect.name == "sqlite"


def differences(connection: Connection) -> list[str]:
    """Tell how the tables of this program differ from those of the database; tables of others are left out."""
    context = MigrationContext.configure(
        connection,
        opts={
            "compare_type": True,
            "include_name": lambda name, kind, _: kind != "table" or name in t.metadata.tables,
        },
    )
    texts: list[str] = []
    for one in compare_metadata(context, t.metadata):
        texts += [_change_text(change) for change in (one if isinstance(one, list) else [one])]
    return texts


def _change_text(change: Sequence[Any]) -> str:
    """A difference in words: what would have to be done, and to what."""
    kind, *what = change
    names = [one if isinstance(one, str) else getattr(one, "name", None) for one in what]
    return " ".join([kind, *(name for name in names if name)])


@contextmanager
def _alone(url: str) -> Iterator[tuple[Engine, Connection]]:
    """A transaction in which nobody else changes the schema; rolled back unless committed."""
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            lock_setup(connection)
            yield engine, connection
    except DBAPIError as error:
        raise Unavailable("the catalog did not finish a statement") from error.orig
    finally:
        engine.dispose()


def _state(connection: Connection) -> SchemaState:
    current = found_version(connection)
    return SchemaState(
        current, str(t.SCHEMA_VERSION), tuple(f"{s.revision}: {s.doc}" for s in _pending(current))
    )


def _pending(current: str | None) -> Sequence[Script]:
    if not can_be_upgraded(current):
        return ()
    scripts = ScriptDirectory(str(_REVISIONS))
    return tuple(reversed(list(scripts.iterate_revisions("head", current))))


def _apply(connection: Connection, revisions: Sequence[Script], done: Callable[[int], None]) -> None:
    with Operations.context(MigrationContext.configure(connection)):
        for number, revision in enumerate(revisions):
            done(number)
            revision.module.upgrade()
    done(len(revisions))
    version = update(t.meta).where(t.meta.c.name == "schema_version")
    connection.execute(version.values(value=str(t.SCHEMA_VERSION)))
    if left := differences(connection):
        raise InvariantBroken(f"the upgrade did not lead to the schema of this program: {', '.join(left)}")


def _copied(engine: Engine, schema: str) -> Path | None:
    """A copy of a SQLite catalog as it was last committed; the caller has its write lock."""
    if not engine.url.database or engine.url.database == ":memory:":
        return None
    folder = Path(engine.url.database).with_name(BACKUPS)
    path = folder / f"catalog-schema{schema}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}.db"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"{folder} cannot be made: {error.strerror}") from error
    _write_copy(engine, path)
    return path


def _write_copy(engine: Engine, path: Path) -> None:
    """Write what was last committed, durably and for this user alone; never over anything."""
    try:
        path.touch(mode=0o600, exist_ok=False)
        raw = engine.raw_connection()
        try:
            raw.cursor().execute("VACUUM INTO ?", (str(path),))  # an empty file is taken for none
        finally:
            raw.close()
        for place in (path, path.parent):
            handle = os.open(place, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    except FileExistsError:
        raise InvalidRequest(f"{path} exists; a copy is written to a new file") from None
    except (OSError, sqlite3.Error) as error:
        raise Unavailable(f"the catalog could not be copied to {path}: {type(error).__name__}") from error
