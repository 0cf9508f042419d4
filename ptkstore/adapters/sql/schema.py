"""Which schema a catalog has: made when it is empty, checked when it is not."""

from __future__ import annotations

import secrets

from sqlalchemy import Connection, insert, inspect, select, text

from ptkstore.adapters.sql import tables as t
from ptkstore.errors import CatalogOutdated

SETUP_LOCK = 0x70746B  # PostgreSQL advisory lock while tables are made or changed
OLDEST = 3  # what came before was never released


def make_or_check(connection: Connection) -> None:
    """Make all tables in an empty database; in any other only look whether this program can work with them.

    Raises
    ------
    CatalogOutdated
        The catalog is of another schema.
    """
    lock_setup(connection)
    if found_version(connection) is None:
        t.metadata.create_all(connection)
        known = {"schema_version": str(t.SCHEMA_VERSION), "ledger_id": secrets.token_hex(16)}
        connection.execute(insert(t.meta), [{"name": k, "value": v} for k, v in known.items()])
    else:
        check_schema(connection)


def lock_setup(connection: Connection) -> None:
    """Let nobody else make or change tables until the transaction ends; on SQLite it has the write lock already."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": SETUP_LOCK})


def found_version(connection: Connection) -> str | None:
    """The catalog's schema; None in a database that holds no catalog."""
    if not inspect(connection).has_table(t.meta.name):
        return None
    return connection.execute(_VERSION).scalar_one_or_none()


def check_schema(connection: Connection) -> None:
    """Raise `CatalogOutdated` unless the catalog has the schema of this program."""
    found = connection.execute(_VERSION).scalar_one_or_none()
    if found != str(t.SCHEMA_VERSION):
        raise CatalogOutdated(_advice(found))


def can_be_upgraded(found: str | None) -> bool:
    """Whether migrations lead from this schema to the program's."""
    return found is not None and found.isdecimal() and OLDEST <= int(found) < t.SCHEMA_VERSION


def _advice(found: str | None) -> str:
    told = f"the catalog has schema {found}, this program needs {t.SCHEMA_VERSION}"
    if can_be_upgraded(found):
        return f"{told}: stop all processes of the service, then run: ptk catalog upgrade"
    if found is not None and found.isdecimal() and int(found) < OLDEST:
        return f"{told}, and upgrades from {OLDEST} on"
    return f"{told}: use the program that wrote it"


_VERSION = select(t.meta.c.value).where(t.meta.c.name == "schema_version")
