"""What a role that may only read can hold up: nothing for long, whatever it holds itself."""

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql
from typer.testing import CliRunner

from ptkstore.adapters.feast import (
    FeastFeatureStore,
    SqliteOnline,
    registry_grants,
    registry_left_open,
    write_repo,
)
from ptkstore.adapters.sql import SqlCatalog
from ptkstore.adapters.sql import catalog as catalog_module
from ptkstore.adapters.sql.migrating import SqlCatalogSchema
from ptkstore.cli.main import app
from ptkstore.errors import Unavailable
from tests.support.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("make")]  # which loads Feast

ROLE = "held_up_reader"
VIEW = "taxi__speed_by_hour"
ADVISORY = (0x70746B5F66656173, 0x70746B)  # that were taken before
WAITING = "SELECT count(*) FROM pg_locks WHERE pid = %s AND NOT granted"


@pytest.fixture
def repo(fresh_postgres_url, tmp_path):
    """A registry beside a catalog."""
    SqlCatalog(fresh_postgres_url).close()
    write_repo(tmp_path / "feast", fresh_postgres_url, SqliteOnline(), cache_ttl_seconds=1)
    return tmp_path / "feast"


@pytest.fixture
def owner(fresh_postgres_url):
    with psycopg.connect(plain(fresh_postgres_url), autocommit=True) as connection:
        yield connection


@pytest.fixture
def granted(repo, owner):
    """The role of a consumer."""
    name = sql.Identifier(ROLE)
    owner.execute(sql.SQL("CREATE ROLE {} LOGIN").format(name))
    for statement in registry_grants(repo, ROLE):
        owner.execute(statement)
    yield ROLE
    owner.execute(sql.SQL("DROP OWNED BY {}").format(name))
    owner.execute(sql.SQL("DROP ROLE {}").format(name))


@pytest.fixture
def as_reader(granted, fresh_postgres_url):
    """A new connection of the role."""
    url = plain(fresh_postgres_url).replace("postgres@", f"{granted}@", 1)
    return lambda: psycopg.connect(url)


def plain(url: str) -> str:
    return url.replace("+psycopg", "", 1)


def tables(owner) -> list[str]:
    rows = owner.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    return [name for (name,) in rows]


def hold_all_it_can(reader, names: list[str]) -> None:
    """Every lock that the role gets, until its transaction ends."""
    for key in ADVISORY:
        reader.execute("SELECT pg_advisory_lock(%s)", (key,))
    for number, name in enumerate(names):
        table = sql.Identifier(name)
        # what is prepared holds its table, and is not asked for a right before it is run
        for word, statement in (("d", "DELETE FROM {}"), ("u", "SELECT 1 FROM {} FOR UPDATE")):
            prepared = sql.SQL(f"PREPARE {word}{number} AS {statement}")
            reader.execute(prepared.format(table))


def test_whatever_the_role_holds_the_service_publishes_and_starts(
    repo, owner, as_reader, make, fresh_postgres_url
):
    store = FeastFeatureStore(repo)
    make.publish(store, make.state(1))
    with as_reader() as reader:
        names = tables(owner)
        assert {"ptk_registry_lock", "feature_views", "meta", "journal"} <= set(names)
        hold_all_it_can(reader, names)
        make.publish(store, make.state(2))
        store.close()
        make.publish(store, make.state(3))  # opened anew
        SqlCatalog(fresh_postgres_url).close()
        assert SqlCatalogSchema(fresh_postgres_url).state().up_to_date
        asked = store.look_up([f"{VIEW}:value"], [{"hour": 8}])
    assert asked == [{"value": 3.0}]
    store.close()


def test_nobody_who_only_may_connect_keeps_a_first_start_waiting(owner, fresh_postgres_url):
    for key in ADVISORY:
        owner.execute("SELECT pg_advisory_lock(%s)", (key,))
    SqlCatalog(fresh_postgres_url).close()
    assert "journal" in tables(owner)


def test_the_role_can_neither_lock_nor_see_the_row_of_the_write_lock(owner, as_reader, granted):
    for statement in (
        "SELECT id FROM ptk_registry_lock",
        "SELECT id FROM ptk_registry_lock FOR UPDATE",
        "LOCK TABLE ptk_registry_lock IN ACCESS SHARE MODE",
        "SELECT 1 FROM feature_views FOR KEY SHARE",
        "LOCK TABLE feature_views IN ROW SHARE MODE",
    ):
        with as_reader() as reader, pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(statement)


FILLING = (  # each fills the table of all locks of the server, with more of them
    "SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 9) i",
    "SELECT pg_advisory_lock_shared(1, 2)",
    "SELECT pg_advisory_xact_lock(1)",
    "SELECT pg_advisory_xact_lock_shared(1)",
    "SELECT pg_try_advisory_lock(1, 2)",
    "SELECT pg_try_advisory_xact_lock_shared(1)",
    "CREATE TEMP TABLE mine (a int)",
    "SELECT lo_create(0)",
    "SELECT lo_creat(0)",
    "SELECT lo_from_bytea(0, '')",
    "SELECT pg_logical_emit_message(true, 'a', 'b')",
    "SELECT pg_logical_emit_message(true, 'a', 'b'::bytea)",
)


def can(as_reader, statement: str) -> bool:
    with as_reader() as reader:
        try:
            reader.execute(statement)
        except psycopg.errors.InsufficientPrivilege:
            return False
        finally:
            reader.rollback()
    return True


def of_guide(owner, repository) -> list[str]:
    """The statements of the guide, for the database of the test."""
    guide = (repository / "docs" / "guide" / "feast.md").read_text()
    (shown,) = re.findall(r"example: locks, tested as it stands -->\n```sql\n(.*?)```", guide, re.DOTALL)
    database = sql.Identifier(owner.execute("SELECT current_database()").fetchone()[0]).as_string(owner)
    assert "DATABASE ptk " in shown
    return [shown.replace("DATABASE ptk ", f"DATABASE {database} ")]


@pytest.mark.parametrize("by", ["guide", "what is told"])
def test_what_fills_the_lock_table_is_told_and_taken_from_everybody(
    by, repo, owner, as_reader, make, repository, fresh_postgres_url
):
    assert all(can(as_reader, statement) for statement in FILLING)
    left = registry_left_open(repo)
    assert [statement.split()[1] for statement in left] == ["TEMPORARY", "EXECUTE"]
    for statement in of_guide(owner, repository) if by == "guide" else left:
        owner.execute(statement)
    assert [statement for statement in FILLING if can(as_reader, statement)] == []
    assert registry_left_open(repo) == ()
    store = FeastFeatureStore(repo)
    make.publish(store, make.state(1))
    SqlCatalog(fresh_postgres_url).close()
    assert store.look_up([f"{VIEW}:value"], [{"hour": 8}]) == [{"value": 1.0}]
    store.close()


@pytest.mark.parametrize(
    "change",
    [
        [
            f"ALTER DEFAULT PRIVILEGES {words} PUBLIC"
            for words in ("GRANT ALL ON TABLES TO", "REVOKE ALL ON TABLES FROM")
        ],
        [f"ALTER ROLE {ROLE} SET work_mem = '{size}MB'" for size in (1, 2)],
    ],
    ids=["defaults", "settings"],
)
def test_what_no_revoke_takes_from_a_role_is_a_lock_for_each_savepoint(change, repo, owner, as_reader):
    for statement in registry_left_open(repo):
        owner.execute(statement)
    own = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'transactionid'"
    with as_reader() as reader:
        for number in range(10):
            reader.execute(f"SAVEPOINT s{number}")
            reader.execute(change[number % 2])
        assert reader.execute(own).fetchone() == (11,)  # so the command's note stays
        reader.rollback()


def test_who_prints_grants_is_warned_of_what_is_left_open(
    granted, owner, tmp_path, repository, fresh_postgres_url
):
    def asked(*more: str):
        env = {"PTK_HOME": str(tmp_path / "home"), "PTK_DATABASE_URL": fresh_postgres_url}
        return CliRunner().invoke(app, ["feast", "grant", granted, *more], env=env)

    warned = asked()
    assert warned.exit_code == 0
    assert "TEMPORARY" not in warned.stdout  # that goes to psql, as the service's role
    first, *statements, note = warned.stderr.splitlines()
    assert first.startswith("warning: the role can fill the server's lock table")
    assert json.loads(asked("--json").stdout)["left_open"] == [one.strip(" ;") for one in statements]
    for statement in statements:
        owner.execute(statement)
    # what is left then no statement closes: one line says so, and where more is said
    assert asked().stderr == f"{note}\n"
    as_data = json.loads(asked("--json").stdout)
    assert (as_data["left_open"], f"note: {as_data['note']}") == ([], note)
    page, section = re.search(r"\(docs/guide/(\S+)#(\S+)\)", note).groups()
    headings = re.findall(r"^#+ (.*)$", (repository / "docs" / "guide" / page).read_text(), re.MULTILINE)
    assert section in {heading.lower().replace(" ", "-") for heading in headings}


@contextmanager
def blocked(owner, as_reader, table: str) -> Iterator[None]:
    """One session of the role holds a table; another waits in front of everybody else to have it for itself."""
    with as_reader() as one, as_reader() as other:
        one.execute(sql.SQL("PREPARE p AS DELETE FROM {}").format(sql.Identifier(table)))
        rule = sql.SQL("CREATE RULE r AS ON INSERT TO {} DO NOTHING").format(sql.Identifier(table))

        def wait() -> None:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                other.execute(rule)

        def waits() -> bool:
            assert not waiting.done()
            return owner.execute(WAITING, (other.info.backend_pid,)).fetchone() == (1,)

        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(wait)
            try:
                until(waits, "the session that waits")
                yield
            finally:
                one.rollback()
                waiting.result(60)


@pytest.mark.long
@pytest.mark.parametrize("table", ["ptk_registry_lock", "feature_views"])
def test_a_publication_that_sessions_of_the_role_hold_up_gives_up_and_is_done_later(
    table, repo, owner, as_reader, make, monkeypatch
):
    store = FeastFeatureStore(repo)
    make.publish(store, make.state(1))
    store.close()
    monkeypatch.setattr("ptkstore.adapters.feast.backends.LOCK_WAIT_SECONDS", 1)
    with blocked(owner, as_reader, table), pytest.raises(Unavailable, match="registry"):
        make.publish(store, make.state(2))
    monkeypatch.undo()
    store.close()
    make.publish(store, make.state(2))
    assert store.look_up([f"{VIEW}:value"], [{"hour": 8}]) == [{"value": 2.0}]
    store.close()


@pytest.mark.long
def test_a_statement_of_the_catalog_that_the_role_holds_up_gives_up(
    owner, as_reader, monkeypatch, fresh_postgres_url
):
    monkeypatch.setattr(catalog_module, "_PATIENCE_SECONDS", 1.0)
    with SqlCatalog(fresh_postgres_url) as catalog:
        with blocked(owner, as_reader, "stream"), pytest.raises(Unavailable), catalog.read() as uow:
            uow.streams.all()
        with catalog.read() as uow:
            assert uow.streams.all() == ()


def test_the_patience_that_the_services_role_was_given_holds(owner, fresh_postgres_url):
    database = owner.execute("SELECT current_database()").fetchone()[0]
    owner.execute(sql.SQL("ALTER DATABASE {} SET lock_timeout = '7s'").format(sql.Identifier(database)))
    engine = catalog_module.open_engine(fresh_postgres_url)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW lock_timeout").scalar_one() == "7s"
    engine.dispose()


@pytest.fixture
def registry(fresh_postgres_url, tmp_path):
    """Opens the database of one registry, as a process would."""
    url = fresh_postgres_url
    from ptkstore.adapters.feast import backends

    return lambda: backends.RegistryDatabase(url, backends.with_limited_waits(url, {}), tmp_path)


def test_of_many_who_take_the_first_write_lock_one_has_it(registry):
    inside, most, guard, together = [0], [0], threading.Lock(), threading.Barrier(6)

    def take(number: int) -> None:
        if number < together.parties:
            together.wait(60)
        with registry().exclusive():
            with guard:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            threading.Event().wait(0.02)  # gives the others time to be wrong
            with guard:
                inside[0] -= 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(take, range(12)))
    assert (inside, most) == ([0], [1])


@pytest.mark.long
def test_the_write_lock_outlives_the_servers_limits_for_transactions(registry, owner, monkeypatch):
    database = sql.Identifier(owner.execute("SELECT current_database()").fetchone()[0])
    with registry().exclusive():
        pass
    for name, limit in (("idle_in_transaction_session_timeout", "1s"), ("transaction_timeout", "3s")):
        owner.execute(sql.SQL(f"ALTER DATABASE {{}} SET {name} = '{limit}'").format(database))
    monkeypatch.setattr("ptkstore.adapters.feast.backends.LOCK_WAIT_SECONDS", 1)
    with registry().exclusive():
        threading.Event().wait(4)
        with pytest.raises(Unavailable, match="has the write lock"), registry().exclusive():
            pass
