"""The schema of a catalog: made when it is empty, checked when it is not."""

from __future__ import annotations

import secrets

from sqlalchemy import Connection, insert, inspect, select
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

from ptkstore.adapters.sql import tables as t
from ptkstore.errors import CatalogOutdated, Unavailable

OLDEST = 3  # what came before was never released
_LOCK_NOT_AVAILABLE = "55P03"


def make_or_check(connection: Connection) -> None:
    """Make all tables in an empty database; in any other only look whether this program can work with them.

    Raises
    ------
    CatalogOutdated
        The catalog is of another schema.
    Unavailable
        An upgrade of it did not end while this waited.
    """
    if found_version(connection) is None:
        try:
            _make(connection)
            return
        except (IntegrityError, ProgrammingError):  # PostgreSQL waited for others who made them
            connection.rollback()
            if found_version(connection) is None:
                raise
    _check_found(_settled_version(connection))


def lock_setup(connection: Connection) -> None:
    """Let nobody else change tables until the transaction ends; on SQLite it has the write lock already.

    A row is locked, because any role of the database may take an advisory lock.
    """
    if connection.dialect.name == "postgresql" and inspect(connection).has_table(t.meta.name):
        connection.execute(_VERSION.with_for_update())


def _make(connection: Connection) -> None:
    t.metadata.create_all(connection)
    marks = {"schema_version": str(t.SCHEMA_VERSION), "ledger_id": secrets.token_hex(16), t.CLAIMS: ""}
    connection.execute(insert(t.meta), [{"name": k, "value": v} for k, v in marks.items()])


def found_version(connection: Connection) -> str | None:
    """Read the catalog's schema; None in a database without a catalog."""
    if not inspect(connection).has_table(t.meta.name):
        return None
    return connection.execute(_VERSION).scalar_one_or_none()


def is_current(connection: Connection) -> bool:
    """Tell whether the catalog has the schema of this program."""
    return found_version(connection) == str(t.SCHEMA_VERSION)


def check_schema(connection: Connection) -> None:
    """Raise `CatalogOutdated` unless the catalog has the schema of this program."""
    _check_found(connection.execute(_VERSION).scalar_one_or_none())


def _settled_version(connection: Connection) -> str | None:
    """The catalog's schema once nobody changes it; SQLite, which knows no locks of rows, has the write lock already."""
    try:
        return connection.execute(_VERSION.with_for_update(read=True)).scalar_one_or_none()
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
            raise
        raise Unavailable("the catalog is being upgraded: start again once that is done") from error.orig


def _check_found(current: str | None) -> None:
    if current != str(t.SCHEMA_VERSION):
        raise CatalogOutdated(_advice(current))


def can_be_upgraded(current: str | None) -> bool:
    """Tell whether migrations lead from this schema to the program's."""
    return current is not None and current.isdecimal() and OLDEST <= int(current) < t.SCHEMA_VERSION


def _advice(current: str | None) -> str:
    state = f"the catalog has schema {current}, this program needs {t.SCHEMA_VERSION}"
    if can_be_upgraded(current):
        return f"{state}: stop all processes of the service, then run: ptk catalog upgrade"
    if current is not None and current.isdecimal() and int(current) < OLDEST:
        return f"{state}, and upgrades from {OLDEST} on"
    return f"{state}: use the program that wrote it"


_VERSION = select(t.meta.c.value).where(t.meta.c.name == "schema_version")
