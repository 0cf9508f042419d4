"""`ptk up`: what it says once everything answers; `ptk --version`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest

from ptkstore.adapters.processes import RedisServer, answers_ping
from ptkstore.settings import Settings, shown_value
from tests.support.command_line import Line
from tests.support.waiting import free_port, until

pytestmark = pytest.mark.long


def children(parent: int, module: str) -> list[int]:
    """The children of a process that run a module."""
    started = Path(f"/proc/{parent}/task").glob("*/children")  # by whichever thread
    pids = [pid for listed in started for pid in listed.read_text().split()]
    return [int(pid) for pid in pids if module in Path(f"/proc/{pid}/cmdline").read_text()]


@pytest.mark.real
def test_it_says_where_everything_is_and_that_is_true(tmp_path: Path) -> None:
    home, port, told = tmp_path / "home", free_port(), tmp_path / "told"
    command = [sys.executable, "-m", "ptkstore.cli.main", "up", "--api-port", str(port), "--home", str(home)]
    with told.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, "COLUMNS": "60"})
    try:
        until(lambda: process.poll() is not None or "console:" in told.read_text(), seconds=120)
        line = f"API: http://127.0.0.1:{port} (OpenAPI at /openapi.json); console: http://127.0.0.1:{port}/console/"
        redis = RedisServer(home).client_url
        assert told.read_text().splitlines()[1:] == [f"Redis: {redis}", line]
        assert answers_ping(redis)
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60
        ) as client:  # at once
            assert client.get("/openapi.json").status_code == 200
            assert client.get("/readyz").json()["parts"]["redis"] == "ok"
            assert "token" in client.get("/", follow_redirects=True).text
        (pid,) = children(process.pid, "workers.schedule")
        os.kill(pid, signal.SIGKILL)
        ended = f"schedule (process {pid}) was killed by signal 9; it is started again; see {home}/log/schedule.log"
        until(lambda: ended in told.read_text().splitlines(), seconds=60)
        until(lambda: children(process.pid, "workers.schedule") not in ([], [pid]), seconds=60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        # those that end because the service is stopped are no news
        assert told.read_text().splitlines()[-3:] == [
            ended,
            "stopping, which may take some seconds",
            "stopped",
        ]
    finally:
        process.kill()
        process.wait()


def test_the_password_of_a_redis_elsewhere_is_not_said(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, redis_url="redis://:hunter2@redis.example.org:6379/0")
    assert shown_value(settings, "redis_url") == "redis://:****@redis.example.org:6379/0"


def test_the_version_is_said(tmp_path: Path) -> None:
    assert Line(tmp_path).run("--version").stdout == f"ptk {version('ptkstore')}\n"
