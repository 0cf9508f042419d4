"""Consumers with credentials that only read: a role of PostgreSQL, a user of Redis."""

import json
import re
import shlex
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import pytest
import redis
from psycopg import sql
from typer.testing import CliRunner

from ptkstore.adapters.feast import (
    FeastFeatureStore,
    RedisOnline,
    SqliteOnline,
    registry_grants,
    write_consumer_repo,
    write_repo,
)
from ptkstore.adapters.processes import RedisServer
from ptkstore.adapters.sql import SqlCatalog
from ptkstore.adapters.sql import tables as catalog_tables
from ptkstore.cli.main import app
from ptkstore.errors import InvalidRequest

pytestmark = pytest.mark.real

VIEW = "taxi__speed_by_hour"
FEATURES = [f"{VIEW}:value", f"{VIEW}:ptk_version"]
DATABASE = "db=3"
ROLE = 'team "taxi" 100%; DROP TABLE token; --'


def ptk(home: Path, *words: str, code: int = 0, **settings: str):
    env = {"PTK_HOME": str(home), "COLUMNS": "200", **settings}
    made = CliRunner().invoke(app, ["feast", *words], env=env)
    assert made.exit_code == code, made.output
    return made


def read_by(url: str, role: str) -> str:
    """The URL for another role without a password: the server of the tests trusts its socket."""
    return url.replace("+psycopg", "", 1).replace("postgres@", f"{quote(role, safe='')}@", 1)


@pytest.fixture
def role(postgres):
    """A role that can log in, and is gone afterwards."""
    name = sql.Identifier(ROLE)
    with postgres.connect() as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(name))
    yield ROLE
    with postgres.connect() as connection:
        connection.execute(sql.SQL("DROP ROLE {}").format(name))


@pytest.fixture
def shared(fresh_postgres_url, tmp_path, make, role):
    """A home whose catalog and registry are one database, with two published versions; the role reads all of it."""
    SqlCatalog(fresh_postgres_url).close()
    home = tmp_path / "home"
    settings = {"PTK_DATABASE_URL": fresh_postgres_url}
    printed = ptk(home, "grant", role, **settings).stdout
    store = FeastFeatureStore(home / "feast")
    make.publish(store, make.state(1), make.state(2))
    store.close()
    with psycopg.connect(fresh_postgres_url.replace("+psycopg", "", 1), autocommit=True) as connection:
        name = sql.Identifier(role)
        connection.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}").format(name))
        connection.execute(
            sql.SQL("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO {}").format(name)
        )
        yield home, settings, printed, connection
        connection.execute(sql.SQL("DROP OWNED BY {}").format(name))


def test_the_granted_role_reads_features_by_plain_feast_and_nothing_of_the_catalog(
    shared, role, tmp_path, plain_consumer
):
    home, settings, printed, owner = shared
    owner.execute(printed)  # one text, as psql gets it
    assert json.loads(ptk(home, "grant", role, "--json", **settings).stdout)["statements"] == [
        statement.removesuffix(";") for statement in printed.splitlines()
    ]
    owner.execute("CREATE TABLE later (secret text)")
    theirs = tmp_path / "theirs"
    url = read_by(settings["PTK_DATABASE_URL"], role)
    ptk(home, "export", str(theirs), "--registry-url", url, **settings)
    answer = plain_consumer("online", repo=str(theirs), features=FEATURES, rows=[{"hour": 8}, {"hour": 99}])
    assert answer == {"hour": [8, 99], "value": [2.0, None], "ptk_version": [2, None]}
    pinned = plain_consumer("online", repo=str(theirs), features=[f"{VIEW}@v1:value"], rows=[{"hour": 8}])
    assert pinned["value"] == [1.0]
    found = owner.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    ours = {table.name for table in catalog_tables.metadata.tables.values()}
    assert {"token", "audit", "subscription", "journal"} <= ours <= {name for (name,) in found}
    with psycopg.connect(url, autocommit=True) as reader:
        for name in {*ours, "later"}:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(sql.SQL("SELECT 1 FROM {}").format(sql.Identifier(name)))
        reader.execute("SELECT 1 FROM feature_views")
        for change in (
            "DELETE FROM feature_views",
            "UPDATE on_demand_feature_views SET feature_view_proto = ''",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(change)


@pytest.mark.parametrize("name", ["etl:key:prod", "a[bold]b"])
def test_the_printed_sql_names_the_very_role(fresh_postgres_url, tmp_path, name):
    SqlCatalog(fresh_postgres_url).close()
    printed = ptk(tmp_path / "home", "grant", name, PTK_DATABASE_URL=fresh_postgres_url).stdout
    assert f'TO "{name}"' in printed


def test_no_role_is_granted_anything_while_everybody_may_create_tables(shared, role):
    home, settings, _, owner = shared
    owner.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")  # as PostgreSQL 14 begins
    refused = ptk(home, "grant", role, code=1, **settings)
    assert 'REVOKE CREATE ON SCHEMA "public" FROM PUBLIC' in refused.stderr
    assert refused.stdout == ""
    owner.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    owner.execute(sql.SQL("GRANT CREATE ON SCHEMA public TO {}").format(sql.Identifier(role)))
    owner.execute(ptk(home, "grant", role, **settings).stdout)
    with (
        psycopg.connect(read_by(settings["PTK_DATABASE_URL"], role), autocommit=True) as reader,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        reader.execute("CREATE TABLE mine (a int)")


def reader_url(redis_server: RedisServer) -> str:
    """A database's URL for the user of the guide."""
    parts = urlsplit(redis_server.client_url)
    return urlunsplit((parts.scheme, f"taxi_reader:own@{parts.netloc}", parts.path, DATABASE, ""))


@pytest.fixture
def reader(redis_server, redis_online, repository):
    """The user that the guide makes, in an empty Redis: a client of theirs."""
    guide = (repository / "docs" / "guide" / "feast.md").read_text()
    (words,) = re.findall(r"^redis-cli (ACL SETUSER .*)$", guide, re.MULTILINE)
    service = redis.Redis.from_url(redis_server.client_url)
    service.execute_command(*(">own" if word == ">…" else word for word in shlex.split(words)))
    yield redis.Redis.from_url(reader_url(redis_server))
    service.acl_deluser("taxi_reader")


@pytest.mark.parametrize("kind", ["stock", "packed"])
def test_a_redis_user_that_only_reads_is_served_and_writes_nothing(
    kind, reader, redis_server, redis_online, tmp_path, make, plain_consumer, packed_consumer
):
    packed = kind == "packed"
    own, theirs = tmp_path / "own", tmp_path / "theirs"
    registry = f"sqlite:///{own / 'registry.db'}"
    service_online = RedisOnline.from_url(f"{redis_server.client_url}?{DATABASE}", packed=packed)
    write_repo(own, registry, service_online)
    store = FeastFeatureStore(own)
    make.publish(store, make.state(1), make.state(2))
    write_consumer_repo(
        theirs,
        registry_url=registry,
        service_registry_url=registry,
        online=RedisOnline.from_url(reader_url(redis_server), packed=packed),
        service_online=service_online,
    )
    consumer = packed_consumer if packed else plain_consumer
    asked = {"repo": str(theirs), "features": FEATURES, "rows": [{"hour": 8}, {"hour": 99}]}
    expected = {"hour": [8, 99], "value": [2.0, None], "ptk_version": [2, None]}
    assert consumer("online", **asked) == expected
    assert consumer("online_asynchronously", **asked) == expected
    row = {"hour": 8, "value": 9.0, "ptk_version": 9}
    assert consumer.error("write", repo=str(theirs), view=VIEW, row=row) == "NoPermissionError"
    service = redis.Redis.from_url(f"{redis_server.client_url}?{DATABASE}")
    names = service.keys()
    assert names
    service.hset("unacked", "tag", "a message of the broker")
    service.rpush("ptk", "a job")
    for command in (
        *((word, name) for name in names for word in ("DEL", "HGETALL", "HKEYS", "TYPE", "DUMP")),
        *(("HSET", name, "a", "b") for name in names),
        ("HMGET", "unacked", "tag"),
        ("HMGET", "ptk", "tag"),
        ("XRANGE", names[0], "-", "+"),
        ("SET", "new", "1"),
        ("FLUSHALL",),
        ("CONFIG", "GET", "*"),
        ("ACL", "LIST"),
        ("EVAL", "return 1", "0"),
        ("CLIENT", "PAUSE", "1"),
        ("CLIENT", "KILL", "TYPE", "normal"),
        ("CLIENT", "LIST"),
        ("CLIENT", "NO-EVICT", "on"),
        ("KEYS", "*"),
        ("SCAN", "0"),
        ("RANDOMKEY",),
        ("DBSIZE",),
        ("INFO",),
        ("MONITOR",),
        ("SUBSCRIBE", "x"),
        ("PUBLISH", "x", "y"),
        ("WAIT", "1", "0"),
    ):
        with pytest.raises(redis.exceptions.NoPermissionError):
            reader.execute_command(*command)
    assert consumer("online", **asked) == expected
    store.close()


def test_no_table_of_the_catalog_has_a_name_of_feasts_registry(make):
    from feast.infra.registry.sql import metadata

    ours = {table.name for table in catalog_tables.metadata.tables.values()}
    assert not ours & set(metadata.tables)


@pytest.mark.parametrize(
    "name",
    [
        "public",
        "none",
        "pg_read_all_data",
        "a\nb",
        "",
        "x" * 64,
        "\N{LATIN SMALL LETTER U WITH DIAERESIS}" * 32,
    ],
)
def test_a_name_that_would_mean_another_role_is_refused(light_repo, name):
    with pytest.raises(InvalidRequest, match="role"):
        registry_grants(light_repo, name)


def test_neither_the_services_role_nor_a_registry_in_a_file_is_granted(
    fresh_postgres_url, tmp_path, light_repo
):
    SqlCatalog(fresh_postgres_url).close()
    refused = ptk(tmp_path / "home", "grant", "postgres", code=2, PTK_DATABASE_URL=fresh_postgres_url)
    assert "the service's own role" in refused.stderr
    with pytest.raises(InvalidRequest, match="is a file"):
        registry_grants(light_repo, "taxi")


SERVICE = {
    "PTK_DATABASE_URL": "postgresql+psycopg://service:s3cret@db/ptk",
    "PTK_REDIS_URL": "redis://:hidden@cache/1",
}
REGISTRY = "postgresql://taxi:mine@db/ptk"
REDIS = "redis://reader:own@cache/1"


class TestExport:
    """`ptk feast export`, where nothing is opened."""

    def test_it_holds_the_consumers_credentials_and_none_of_the_services(self, tmp_path):
        asked = {"PTK_CONSUMER_REGISTRY_URL": REGISTRY, "PTK_CONSUMER_REDIS_URL": REDIS}
        ptk(tmp_path / "home", "export", str(tmp_path / "theirs"), **SERVICE, **asked)
        written = tmp_path / "theirs" / "feature_store.yaml"
        assert written.stat().st_mode & 0o777 == 0o600
        text = written.read_text()
        assert "taxi:mine" in text
        assert "reader" in text
        assert "s3cret" not in text
        assert "hidden" not in text
        from feast.repo_config import load_repo_config

        config = load_repo_config(written.parent, written)
        assert (config.registry.schema_mode, config.registry.cache_ttl_seconds) == ("verify", 2)
        assert not (tmp_path / "home").exists()

    @pytest.mark.parametrize(
        ("registry", "cache", "complaint"),
        [
            (None, REDIS, "--registry-url"),
            (REGISTRY, None, "--redis-url"),
            ("postgresql://db/ptk", REDIS, "own role"),
            ("postgresql://service:other@db/ptk", REDIS, "service's role"),
            ("postgresql://db/ptk?user=service", REDIS, "service's role"),
            (REGISTRY, "redis://:hidden@elsewhere/1", "service's user"),
            (REGISTRY, "redis://default:hidden@cache/1", "service's user"),
            (REGISTRY, "redis://:another@cache/1", "service's user"),
            (REGISTRY, "http://cache", "must be redis://"),
        ],
    )
    def test_what_would_hand_the_services_own_on_is_refused(self, tmp_path, registry, cache, complaint):
        given = [
            *(("--registry-url", registry) if registry else ()),
            *(("--redis-url", cache) if cache else ()),
        ]
        theirs = tmp_path / "theirs"
        refused = ptk(tmp_path / "home", "export", str(theirs), *given, code=2, **SERVICE)
        assert complaint in refused.stderr
        assert "s3cret" not in refused.output + refused.stderr
        assert not theirs.exists()

    def test_a_store_in_files_is_named_by_its_own_paths(self, tmp_path, make, plain_consumer):
        home = tmp_path / "home"
        SqlCatalog(f"sqlite:///{home / 'catalog.db'}").close()
        own = home / "feast"
        write_repo(own, f"sqlite:///{own / 'registry.db'}", SqliteOnline())
        store = FeastFeatureStore(own)
        make.publish(store, make.state(1))
        store.close()
        theirs = tmp_path / "theirs"
        ptk(home, "export", str(theirs))
        asked = {"repo": str(theirs), "features": FEATURES, "rows": [{"hour": 8}]}
        assert plain_consumer("online", **asked)["value"] == [1.0]
        assert (
            "leave --redis-url out" in ptk(home, "export", str(theirs), "--redis-url", REDIS, code=2).stderr
        )

    def test_the_services_repository_and_a_strange_file_are_left_alone(self, tmp_path):
        given = ("--registry-url", REGISTRY, "--redis-url", REDIS)
        home = tmp_path / "home"
        refused = ptk(home, "export", str(home / "feast"), *given, code=2, **SERVICE)
        assert "service's own repository" in refused.stderr
        (tmp_path / "feature_store.yaml").write_text("project: mine\n")
        ptk(home, "export", str(tmp_path), *given, code=1, **SERVICE)
        assert (tmp_path / "feature_store.yaml").read_text() == "project: mine\n"
