"""Engine, transactions and the journal as the key store sees it."""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal, Self

from sqlalchemy import (
    BindParameter,
    Connection,
    bindparam,
    create_engine,
    event,
    func,
    select,
    union_all,
    update,
)
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.identity.audit_trail import SqlAnswers, SqlAuditLog
from ptkstore.adapters.sql.identity.identity import SqlIdentities
from ptkstore.adapters.sql.jobs.deliveries import SqlDeliveries
from ptkstore.adapters.sql.jobs.jobs import SqlJobs
from ptkstore.adapters.sql.ledger.ledger import SqlLedger
from ptkstore.adapters.sql.ledger.projections import Projections
from ptkstore.adapters.sql.notices import SqlNotices
from ptkstore.adapters.sql.operations import SqlOperations
from ptkstore.adapters.sql.probing import takes_writes
from ptkstore.adapters.sql.ptks.evaluations import SqlEvaluations
from ptkstore.adapters.sql.ptks.profiles import SqlProfiles
from ptkstore.adapters.sql.ptks.ptks import SqlPtks, SqlVersions
from ptkstore.adapters.sql.ptks.thresholds import SqlThresholds
from ptkstore.adapters.sql.ptks.validations import SqlValidations
from ptkstore.adapters.sql.ptks.waits import SqlWaits
from ptkstore.adapters.sql.schema import check_schema, is_current, make_or_check
from ptkstore.adapters.sql.streams import SqlStreams, SqlWindows
from ptkstore.adapters.sql.subscriptions import SqlSubscriptions
from ptkstore.domain.jobs import SMALL_AT_ONCE
from ptkstore.domain.notices import Notice
from ptkstore.errors import InvalidRequest, OutcomeUnknown, Unavailable

_PATIENCE_SECONDS = 60.0
_SQLITE_CONNECTIONS = 24
_MORE_CONNECTIONS = 2 * SMALL_AT_ONCE  # each training of a slot and its heartbeat may need one
_READS = "ptk_reads"
# Under READ COMMITTED each statement sees what is committed when it begins, in a transaction or alone. Alone it needs
# no BEGIN, and no ROLLBACK, after which psycopg would forget the statements that it has prepared.
_OF_READS: dict[bool, dict[str, Any]] = {
    False: {"isolation_level": "AUTOCOMMIT"},
    True: {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
}
_POSTGRESQL_PATIENCE = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}


class _Transaction:
    """One transaction on one connection; the database refuses what its kind does not allow."""

    def __init__(self, connection: Connection, projections: Projections) -> None:
        self._connection = connection
        self.streams = SqlStreams(connection)
        self.windows = SqlWindows(connection)
        self.ledger = SqlLedger(connection, projections)
        self.profiles = SqlProfiles(connection)
        self.ptks = SqlPtks(connection, self.profiles)
        self.jobs = SqlJobs(connection)
        self.versions = SqlVersions(connection)
        self.evaluations = SqlEvaluations(connection)
        self.validations = SqlValidations(connection)
        self.waits = SqlWaits(connection)
        self.thresholds = SqlThresholds(connection)
        self.subscriptions = SqlSubscriptions(connection)
        self.deliveries = SqlDeliveries(connection)
        self.identities = SqlIdentities(connection)
        self.audit = SqlAuditLog(connection)
        self.answers = SqlAnswers(connection)
        self.operations = SqlOperations(connection)
        self._notices = SqlNotices(connection)
        self.notices, self.notices_about = self._notices.find, self._notices.about


class SqlReadTransaction(_Transaction):
    """One in which the database refuses to write."""

    read_only: Literal[True] = True


class SqlUnitOfWork(_Transaction):
    """One that is rolled back unless it is committed."""

    read_only: Literal[False] = False

    def notify_owner(self, notice: Notice) -> None:
        """Leave word for a team."""
        self._notices.add(notice)

    def renew_ledger_id(self) -> None:
        """Give the catalog a new identity."""
        self._connection.execute(
            update(t.meta).where(t.meta.c.name == "ledger_id").values(value=secrets.token_hex(16))
        )

    def commit(self) -> None:
        """Make it durable; `OutcomeUnknown` if the database does not say whether it is."""
        try:
            self._connection.commit()
        except DBAPIError as error:
            # A database that answers says that it rolled back; a file that fails may have the commit in its log.
            if error.connection_invalidated or self._connection.dialect.name == "sqlite":
                raise OutcomeUnknown("the catalog did not say whether it committed") from error.orig
            raise
        self.ledger.ended(committed=True)


class SqlCatalog:
    """The catalog behind one SQLAlchemy engine.

    SQLite runs in WAL mode with full sync and takes its write lock at the start of each transaction that may write.
    PostgreSQL runs READ COMMITTED with row locks, but for `read_one_moment`. `url` is an SQLAlchemy URL.
    """

    def __init__(self, url: str) -> None:
        self._engine = open_engine(url)
        self._projections = Projections()
        # writers of SQLite all wait for each other: look before locking
        if self._engine.dialect.name == "sqlite":
            with self._begin(reads=True) as connection:
                if is_current(connection):
                    return
        with self._begin() as connection:
            make_or_check(connection)
            connection.commit()

    @contextmanager
    def begin(self) -> Iterator[SqlUnitOfWork]:
        """Begin a transaction that is rolled back unless committed."""
        with self._begin() as connection:
            work = SqlUnitOfWork(connection, self._projections)
            try:
                yield work
            finally:
                work.ledger.ended(committed=False)

    def read_one_moment(self) -> AbstractContextManager[SqlReadTransaction]:
        """Begin one that reads, and whose every read sees what was committed before its first.

        Not for the ledger: its projections take a catalog that is behind them for a restored one, and begin anew.
        """
        return self.read(at_one_moment=True)

    @contextmanager
    def read(self, *, at_one_moment: bool = False) -> Iterator[SqlReadTransaction]:
        """Begin to read: the database refuses to write, and waits for no writer.

        On PostgreSQL each statement is a transaction of its own, unless all are `at_one_moment`.
        """
        with self._begin(reads=True, at_one_moment=at_one_moment) as connection:
            reading = SqlReadTransaction(connection, self._projections)
            try:
                yield reading
            finally:
                reading.ledger.ended(committed=False)

    @contextmanager
    def _begin(self, *, reads: bool = False, at_one_moment: bool = False) -> Iterator[Connection]:
        try:
            connection = self._engine.connect()
        # SQLite says of a file that is no database what others say of a wrong query
        except DBAPIError as error:
            raise Unavailable("the catalog does not answer") from error.orig
        except PoolTimeout:
            raise Unavailable("this process has no free connection to the catalog") from None
        try:
            if reads:
                connection = connection.execution_options(**{_READS: True})
                if connection.dialect.name == "postgresql":  # SQLite reads at one moment anyway
                    connection = connection.execution_options(**_OF_READS[at_one_moment])
            connection.begin()
            yield connection
        except OperationalError as error:
            raise Unavailable("the catalog did not finish a statement") from error.orig
        except DBAPIError as error:
            if error.connection_invalidated:
                raise Unavailable("the connection to the catalog was lost") from error.orig
            raise
        finally:
            connection.close()

    def journal_view(self) -> SqlJournalView:
        """Return the journal, read afresh at each call."""
        return SqlJournalView(self)

    def takes_writes(self, at_most_seconds: float) -> bool:
        """Tell whether a row can be committed; False if others held the catalog for so long, `Unavailable` if not."""
        return takes_writes(self._engine, at_most_seconds, _PATIENCE_SECONDS)

    def close(self) -> None:
        """Give all connections back."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SqlJournalView:
    """The view of the catalog with which the key store compares its memory; every call is a transaction of its own."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self._catalog = catalog

    @property
    def ledger_id(self) -> str:
        """The identity given to the catalog when it was created, or last recovered.

        A process asks for it before it works: `CatalogOutdated` tells a process that slept through an upgrade.
        """
        with self._catalog._begin(reads=True) as connection:
            check_schema(connection)
            query = select(t.meta.c.value).where(t.meta.c.name == "ledger_id")
            return str(connection.execute(query).scalar_one())

    def head(self, stream: str) -> int:
        """Return the highest sequence, 0 when the journal is empty."""
        with self._catalog._begin(reads=True) as connection:
            return int(connection.execute(_HEAD, {"stream": stream}).scalar_one())

    def digest_at(self, stream: str, sequence: int) -> str | None:
        """Return the chained digest of a line."""
        with self._catalog._begin(reads=True) as connection:
            place = {"stream": stream, "sequence": sequence}
            return connection.execute(_DIGEST_AT, place).scalar_one_or_none()

    def policy(self, stream: str) -> str | None:
        """Return the policy in the journal, as a text."""
        with self._catalog._begin(reads=True) as connection:
            query = select(t.policies.c.content).where(t.policies.c.stream == stream)
            return connection.execute(query.order_by(t.policies.c.sequence).limit(1)).scalar_one_or_none()


_OF: BindParameter[str] = bindparam("stream")
_LASTS = (select(func.max(one.c.sequence).label("last")).where(one.c.stream == _OF) for one in t.CHAIN)
_HEAD = select(func.coalesce(func.max(union_all(*_LASTS).subquery().c.last), 0))
_AT: BindParameter[int] = bindparam("sequence")
_DIGEST_AT = union_all(
    *(select(one.c.digest).where(one.c.stream == _OF, one.c.sequence == _AT) for one in t.CHAIN)
)


def open_engine(url: str) -> Engine:
    """Make an engine with the settings that the catalog needs; `InvalidRequest` for a URL that is none of ours."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # the text may hold a password
        raise InvalidRequest(
            "the catalog's URL cannot be read; write sqlite:///… or postgresql://…"
        ) from None
    match parsed.get_backend_name():
        case "sqlite":
            return _sqlite(parsed)
        case "postgresql":
            return _postgresql(parsed)
        case other:
            raise InvalidRequest(f"the catalog is on sqlite or postgresql, not {other!r}")


def _sqlite(url: URL) -> Engine:
    if url.database and url.database != ":memory:":
        try:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"the catalog's directory cannot be made: {error.strerror}") from error
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_size=_SQLITE_CONNECTIONS,  # opening one costs more than most requests
        connect_args={"timeout": _PATIENCE_SECONDS, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver's own BEGIN comes too late for a write lock
        cursor = connection.cursor()
        _write_ahead(cursor)
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        # 32 MB: a checkpoint holds up whoever commits then
        cursor.execute("PRAGMA wal_autocheckpoint = 8000")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # In WAL mode a reader sees the last commit and neither waits for a writer nor holds one up. One that wrote
        # later would fail when somebody else has written meanwhile, so that all others lock at once.
        reads = _READS in connection.get_execution_options()
        direct: Any = connection.connection.dbapi_connection  # every request comes through here
        direct.execute(f"PRAGMA query_only = {'ON' if reads else 'OFF'}").close()
        try:
            direct.execute("BEGIN" if reads else "BEGIN IMMEDIATE").close()
        except sqlite3.OperationalError as error:
            raise OperationalError("BEGIN", None, error) from error

    return engine


def _write_ahead(cursor: sqlite3.Cursor) -> None:
    """Switch a file to its write-ahead log; SQLite does not wait when two connections do so at once."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _postgresql(url: URL) -> Engine:
    # Without these a server that vanishes without a word holds a worker for hours; a URL may say otherwise.
    patience = {name: n for name, n in _POSTGRESQL_PATIENCE.items() if name not in url.query}
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args=patience,
        hide_parameters=True,
        isolation_level="READ COMMITTED",
        pool_pre_ping=True,
        pool_size=5,
        max_overflow=_MORE_CONNECTIONS,
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.autocommit = True
        # Only a transaction that was begun to write may write: a statement alone is one that reads.
        connection.execute("SET default_transaction_read_only = on")
        connection.read_only = False
        # Who may only connect can hold a table, and a statement that waits for it would do so for ever.
        connection.execute(
            "SELECT set_config('lock_timeout', %s, false) WHERE current_setting('lock_timeout') = '0'",
            (f"{_PATIENCE_SECONDS:.0f}s",),
        )
        connection.autocommit = False

    return engine
