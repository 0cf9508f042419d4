"""The parts under Feast for which Feast has no call: the registry's database, the stores' errors.

The only module here that knows SQLAlchemy and Redis: Feast's registry and online store are theirs.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis.exceptions
import sqlalchemy.exc
from feast.infra.registry.sql import feature_services, feature_views, metadata, on_demand_feature_views
from feast.infra.registry.sql import feature_view_version_history as snapshots
from feast.protos.feast.core.FeatureService_pb2 import FeatureService
from feast.protos.feast.core.FeatureView_pb2 import FeatureView
from feast.protos.feast.core.OnDemandFeatureView_pb2 import OnDemandFeatureView
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from sqlalchemy import Column, Connection, Table, create_engine, delete, select, text, update
from sqlalchemy.pool import NullPool

from ptkstore.adapters.feast.names import PROJECT
from ptkstore.errors import CorruptObject, InvalidRequest, Refused, Unavailable

LOCK_WAIT_SECONDS = 60
"""How long a statement waits for what others hold, the write lock too; as long as the catalog's do."""

_LOCK_FILE = ".publish.lock"
# A row: who may only read a database can take an advisory lock, and hold a table, but locks no row.
_HOLD = text("SELECT id FROM ptk_registry_lock FOR UPDATE")
_MAKE = (
    text("CREATE TABLE IF NOT EXISTS ptk_registry_lock (id smallint PRIMARY KEY)"),
    text("INSERT INTO ptk_registry_lock VALUES (1) ON CONFLICT DO NOTHING"),
)
# nothing is done on the holder's connection until the lock is given back
_HOLDERS_STAY = text(
    "SELECT set_config(name, '0', true) FROM pg_settings"
    " WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)
# Whoever may call these fills the lock table of the server at once, and holds it full. A message in each of many
# savepoints does, for each is a lock then; so do changes that no right governs, which nobody can take from a role.
_LOCKING = text(
    "SELECT string_agg(CAST(oid AS regprocedure)::text, ', ' ORDER BY CAST(oid AS regprocedure)::text) FROM pg_proc"
    " WHERE pronamespace = CAST('pg_catalog' AS regnamespace)"
    " AND proname ~ '^(pg_(try_)?advisory_(xact_)?lock(_shared)?|lo_creat|lo_create|lo_from_bytea"
    "|pg_logical_emit_message)$'"
    " AND has_function_privilege('public', oid, 'EXECUTE')"
)
_LOCK_NOT_AVAILABLE = "55P03"
_UNDEFINED_TABLE = "42P01"
_DEFINITIONS: tuple[tuple[Table, Any], ...] = (
    (feature_views, FeatureView),
    (snapshots, FeatureView),
    (on_demand_feature_views, OnDemandFeatureView),
    (feature_services, FeatureService),
)
_TAKEN = (sqlalchemy.exc.IntegrityError, sqlalchemy.exc.ProgrammingError)
"""How PostgreSQL refuses a table that somebody else made at the same moment."""


def limit_waits(connection: Any, _record: object) -> None:
    """Let no statement of a new connection to PostgreSQL wait for locks without limit; its role may say how long."""
    connection.autocommit = True
    connection.execute(
        "SELECT set_config('lock_timeout', %s, false) WHERE current_setting('lock_timeout') = '0'",
        (f"{LOCK_WAIT_SECONDS}s",),
    )
    connection.autocommit = False


def with_limited_waits(url: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of an engine, and `limit_waits` where the URL is PostgreSQL's."""
    return {**options, "pool_events": [(limit_waits, "connect")]} if url.startswith("postgresql") else options


@dataclass(frozen=True, slots=True)
class Definition:
    """A view or service as the registry stores it; `version` is that of a snapshot, which `view@vN` pins."""

    table: Table
    name: str
    version: int | None
    message: Any


class RegistryDatabase:
    """The database of the registry: its tables, its only write lock, the versions in it."""

    def __init__(self, url: str, options: dict[str, Any], repo: Path) -> None:
        wanted = {name: value for name, value in options.items() if name != "pool_pre_ping"}
        self.engine = create_engine(url, poolclass=NullPool, **wanted)
        self._repo = repo

    def create_tables(self) -> None:
        """Create what is missing; two processes at once would fail each other."""
        metadata.create_all(self.engine)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the write lock, over all processes and threads; it ends with the process.

        `Unavailable` if somebody else has the lock for long.
        """
        if self.engine.dialect.name == "postgresql":
            with self.engine.connect() as connection:
                self._lock_row(connection)
                yield
                connection.commit()
            return
        descriptor = os.open(self._repo / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _lock_row(self, connection: Connection) -> None:
        """Take the write lock until the connection's transaction ends."""
        try:
            if self._held(connection):
                return
            connection.rollback()
            # of two who do so at once, one waits for the other and then finds the table's name taken
            with suppress(*_TAKEN), self.engine.begin() as making:
                for statement in _MAKE:
                    making.execute(statement)
            if not self._held(connection):
                raise Unavailable("the write lock of the Feast registry cannot be made")
        except sqlalchemy.exc.OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
            raise Unavailable("another session has the write lock of the Feast registry") from None

    def _held(self, connection: Connection) -> bool:
        """Lock the row, and tell whether there is one."""
        connection.execute(_HOLDERS_STAY)
        try:
            return connection.execute(_HOLD).first() is not None
        except sqlalchemy.exc.ProgrammingError as error:
            if getattr(error.orig, "sqlstate", None) != _UNDEFINED_TABLE:
                raise
            return False

    def delete_snapshots(self, view: str, versions: Collection[int] | None = None) -> None:
        """Delete these versions of a view, or all; nobody can resolve `view@vN` any more."""
        statement = delete(snapshots).where(
            snapshots.c.feature_view_name == view, snapshots.c.project_id == PROJECT
        )
        if versions is not None:
            statement = statement.where(snapshots.c.version_number.in_(versions))
        with self.engine.begin() as connection:
            connection.execute(statement)

    def definitions(self, prefix: str) -> Iterator[Definition]:
        """Read all views, their snapshots and services whose names begin so."""
        with self.engine.connect() as connection:
            for table, kind in _DEFINITIONS:
                name, proto = _columns(table)
                columns: list[Any] = [name, proto, *([table.c.version_number] if table is snapshots else [])]
                query = select(*columns).where(table.c.project_id == PROJECT)
                if table is snapshots:
                    query = query.where(table.c.feature_view_type == "feature_view")
                for row in connection.execute(query.where(name.startswith(prefix, autoescape=True))):
                    version = row[2] if table is snapshots else None
                    yield Definition(table, row[0], version, kind.FromString(row[1]))

    def rewrite(self, definitions: Iterable[Definition]) -> None:
        """Store these as they are now, in one commit; needs the write lock."""
        with self.engine.begin() as connection:
            for one in definitions:
                name, proto = _columns(one.table)
                statement = update(one.table).where(one.table.c.project_id == PROJECT, name == one.name)
                if one.version is not None:
                    statement = statement.where(one.table.c.version_number == one.version)
                connection.execute(statement.values({proto: one.message.SerializeToString()}))

    def read_grants(self, role: str) -> tuple[str, ...]:
        """Return the SQL that lets a role read the registry's tables and nothing else of the schema.

        `InvalidRequest` unless the registry is PostgreSQL and the role another than that of this connection;
        `Refused` while everybody may create tables and functions in the schema.
        """
        if self.engine.dialect.name != "postgresql":
            raise InvalidRequest("the registry is a file: who reads it is a matter of the file's mode")
        with self.engine.connect() as connection:
            row = connection.execute(
                text(
                    "SELECT current_database(), current_schema(), current_user, session_user,"
                    " has_schema_privilege('public', current_schema(), 'CREATE')"
                )
            ).one()
        quoted = _quoting()
        database, schema, consumer = quoted(row[0]), quoted(row[1]), quoted(role)
        if role in row[2:4]:
            raise InvalidRequest("that is the service's own role: make the consumer one of their own")
        if row[4]:  # PostgreSQL 14 and older begin so; a function there can be run by who does not mean to
            raise Refused(
                f"everybody may create tables and functions in the schema {row[1]}; as its owner, run first: "
                f"REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC"
            )
        tables = ", ".join(f"{schema}.{quoted(name)}" for name in sorted(metadata.tables))
        return (
            "BEGIN",
            f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} REVOKE ALL ON TABLES FROM {consumer}",
            f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {consumer}",
            f"REVOKE ALL ON SCHEMA {schema} FROM {consumer}",
            f"GRANT CONNECT ON DATABASE {database} TO {consumer}",
            f"GRANT USAGE ON SCHEMA {schema} TO {consumer}",
            f"GRANT SELECT ON TABLE {tables} TO {consumer}",
            "COMMIT",
        )

    def left_open(self) -> tuple[str, ...]:
        """Return the SQL that takes from everybody what fills PostgreSQL's lock table quickest; none if done.

        A role that may connect can fill it still, by savepoints.
        """
        if self.engine.dialect.name != "postgresql":
            return ()
        with self.engine.connect() as connection:
            functions = connection.execute(_LOCKING).scalar_one()
            database, temporary = connection.execute(
                text(
                    "SELECT current_database(), has_database_privilege('public', current_database(), 'TEMPORARY')"
                )
            ).one()
        return (
            *((f"REVOKE TEMPORARY ON DATABASE {_quoting()(database)} FROM PUBLIC",) if temporary else ()),
            *((f"REVOKE EXECUTE ON FUNCTION {functions} FROM PUBLIC",) if functions else ()),
        )


def _columns(table: Table) -> tuple[Column[str], Column[bytes]]:
    """Name and definition."""
    kind = "feature_service" if table is feature_services else "feature_view"
    return table.c[f"{kind}_name"], table.c[f"{kind}_proto"]


def _quoting() -> Callable[[str], str]:
    """Quotes a name for PostgreSQL; this form of the dialect leaves a `%` alone, as nothing is bound into the texts."""
    from sqlalchemy.dialects.postgresql.base import PGDialect

    dialect: Any = PGDialect
    quote: Callable[[str], str] = dialect(paramstyle="named").identifier_preparer.quote_identifier
    return quote


def exchange(client: Any, command: tuple[Any, ...]) -> Any:
    """Send one command and return its reply, at half the cost of the client's own way; that way where this fails."""
    pool = getattr(client, "connection_pool", None)  # a cluster's client has one per node
    if pool is None:
        return client.execute_command(*command)
    connection = pool.get_connection()  # checked: a dead one is opened anew
    try:
        connection.send_command(*command, check_health=False)
        return connection.read_response()
    except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
        connection.disconnect()
    finally:
        pool.release(connection)
    return client.execute_command(*command)


# What reading comes to where an online store answers with something that was never written there.
FOREIGN = (CorruptObject, DecodeError, ValueError, LookupError, TypeError, AttributeError, struct.error)


def foreign_rows() -> Unavailable:
    """Make the error of an online store that answers with strange rows; it quotes nothing of what was read."""
    return Unavailable("the online store answers with rows that were not written there")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn errors of registry and online store into `Unavailable`; their own texts quote values."""
    try:
        yield
    except (redis.exceptions.RedisError, sqlite3.Error) as error:
        kind = f"the online store does not answer ({type(error).__name__})"
    except sqlalchemy.exc.SQLAlchemyError as error:
        kind = f"the Feast registry does not answer ({type(error).__name__})"
    else:
        return
    raise Unavailable(kind)
