"""Pytest fixtures: real servers, started at first use, gone when pytest is, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from ptkstore.adapters.processes import ForgetfulRedisServer, RedisServer
from tests.services.ceph import Ceph, missing, running_ceph
from tests.services.postgres import Postgres, running_postgres
from tests.support.plugins.lacking import without
from tests.support.receiver import WebhookReceiver


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A real redis-server, shared by the session: use keys or databases of your own."""
    with RedisServer(tmp_path_factory.mktemp("redis-home")) as server:
        yield server


@pytest.fixture(scope="session")
def devices_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForgetfulRedisServer]:
    """A real redis-server that keeps no file, shared by the session: use PTKs or databases of your own."""
    with ForgetfulRedisServer(tmp_path_factory.mktemp("devices-home")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL, shared by the session."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres: Postgres) -> str:
    """The URL, for SQLAlchemy, of a database shared by the session."""
    return postgres.url()


@pytest.fixture
def fresh_postgres_url(postgres: Postgres) -> Iterator[str]:
    """The URL of an empty database for one test."""
    with postgres.fresh_database() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_catalog(postgres: Postgres) -> Iterator[str]:
    """The name of a database with an empty catalog, which databases of tests are copies of."""
    from ptkstore.adapters.sql import SqlCatalog  # not at the start of each process of the run

    with postgres.fresh_database() as url:
        SqlCatalog(url).close()
        yield str(make_url(url).database)


@pytest.fixture
def catalog_url(postgres: Postgres, postgres_catalog: str) -> Iterator[str]:
    """The URL of a database for one test whose catalog is made already."""
    with postgres.fresh_database(postgres_catalog) as url:
        yield url


@pytest.fixture(scope="session")
def ceph() -> Iterator[Ceph]:
    """A real S3 gateway, shared by the session; the test is skipped where its packages are not installed."""
    if lacking := missing():
        missed = f"no {', '.join(lacking)}; apt-get install ceph-mon ceph-osd radosgw"
        without("ceph", missed, in_ci=False)
    with running_ceph() as cluster:
        yield cluster


@pytest.fixture
def webhook_receiver(tmp_path: Path) -> Iterator[WebhookReceiver]:
    """A receiver on loopback that trusts no secret yet."""
    with WebhookReceiver(tmp_path / "webhooks.jsonl") as receiver:
        yield receiver
