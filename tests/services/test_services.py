"""The real servers that other tests rely on: they answer, they are separate, they do not stay behind."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import sqlalchemy as sa

from ptkstore.adapters.processes import RedisServer
from tests.services.postgres import Postgres


def tables_of(url: str) -> list[str]:
    engine = sa.create_engine(url)
    try:
        return sa.inspect(engine).get_table_names()
    finally:
        engine.dispose()


def test_postgres_and_redis_answer(postgres_url: str, redis_server: RedisServer) -> None:
    assert tables_of(postgres_url) == []
    assert redis_server.answers()


def test_a_fresh_database_is_empty_and_dropped_even_while_it_is_in_use(postgres: Postgres) -> None:
    with postgres.fresh_database() as first:
        engine = sa.create_engine(first)
        connection = engine.connect()
        connection.execute(sa.text("CREATE TABLE kept (n int)"))
        connection.commit()
        assert tables_of(first) == ["kept"]
        with postgres.fresh_database() as second:
            assert tables_of(second) == []
    with postgres.connect() as admin:
        names = [row[0] for row in admin.execute("SELECT datname FROM pg_database")]
    assert sa.make_url(first).database not in names
    connection.invalidate()
    engine.dispose()


def test_postgres_does_not_outlive_a_killed_test_run(repository: Path) -> None:
    code = """
        import signal
        from tests.services.postgres import running_postgres
        with running_postgres() as postgres:
            print(postgres.pid, postgres.directory, flush=True)
            signal.pause()
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, cwd=repository, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid, directory = run.stdout.readline().split()
        server = psutil.Process(int(pid))
        family = [server, *server.children(recursive=True)]
        run.kill()
    assert len(family) > 1
    until = time.monotonic() + 20
    while any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family):
        assert time.monotonic() < until, "PostgreSQL outlived the test run"
        time.sleep(0.02)
    subprocess.run(["rm", "-rf", directory], check=True)
