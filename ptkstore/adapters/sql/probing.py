"""Whether the catalog takes what is written: by a row that is committed, since a rollback hides a full disk."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from ptkstore.errors import Unavailable

_PROBE = text(
    "INSERT INTO meta (name, value) VALUES ('probe', :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_LOCK_TIMEOUT = text("SELECT set_config('lock_timeout', :value, true)")
_LOCK_NOT_AVAILABLE = "55P03"


def takes_writes(engine: Engine, at_most_seconds: float, patience_seconds: float) -> bool:
    """Commit a row that nobody reads; False if others held the catalog for `at_most_seconds`.

    The value is another one each time, as SQLite writes no page that stays as it is. Connections of a pool wait for
    `patience_seconds` at other times. Raises `Unavailable` if the database takes no writes.
    """
    milliseconds = round(1000 * at_most_seconds)
    try:
        with engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                with _busy_timeout(connection, milliseconds, round(1000 * patience_seconds)):
                    _commit(connection)
            else:
                connection.execute(_LOCK_TIMEOUT, {"value": f"{milliseconds}ms"})
                _commit(connection)
    except DBAPIError as error:
        if _is_held(error):
            return False
        raise Unavailable("the catalog takes no writes") from error.orig
    return True


def _commit(connection: Connection) -> None:
    connection.execute(_PROBE, {"value": secrets.token_hex(8)})
    connection.commit()


@contextmanager
def _busy_timeout(connection: Connection, milliseconds: int, usual: int) -> Iterator[None]:
    direct: Any = connection.connection.dbapi_connection
    direct.execute(f"PRAGMA busy_timeout = {milliseconds}").close()
    try:
        yield
    finally:
        direct.execute(f"PRAGMA busy_timeout = {usual}").close()


def _is_held(error: DBAPIError) -> bool:
    code = getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF == sqlite3.SQLITE_BUSY or getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE
