"""A port that somebody else listens on: one line and an exit code, and nothing made or started again for ever."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptkstore.adapters.processes import listen
from ptkstore.cli.service.machine import environment
from ptkstore.settings import Settings
from tests.support.command_line import Line


@pytest.fixture
def port() -> Iterator[int]:
    (one,) = listen("127.0.0.1", 0)
    with one:
        yield one.getsockname()[1]


@pytest.fixture
def ptk(tmp_path: Path) -> Line:
    return Line(tmp_path / "home")


def test_the_api_says_that_its_port_is_in_use(ptk: Line, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ptk.run("team", "create", "taxi")
    monkeypatch.setattr("os.execve", lambda *_: pytest.fail("it was started nevertheless"))
    said = ptk.run("api", "--port", str(port), code=1).stderr
    assert said == f"conflict: port {port} of 127.0.0.1 is in use; choose another by --port\n"


def test_up_says_so_and_ends(ptk: Line, port: int) -> None:
    said = ptk.run("up", "--api-port", str(port), code=1)
    assert said.stderr == f"conflict: port {port} of 127.0.0.1 is in use; choose another by --api-port\n"
    assert said.stdout == ""
    assert not list(ptk.home.rglob("*.log"))


def test_the_process_itself_ends_with_one_and_leaves_no_store(tmp_path: Path, port: int) -> None:
    settings = Settings(home=tmp_path / "home")
    ended = subprocess.run(
        [sys.executable, "-m", "ptkstore.serving", "--port", str(port)],
        env=environment(settings),
        capture_output=True,
        timeout=120.0,
        check=False,
    )
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert json.loads(line)["code"] == "conflict"
    assert not settings.root.exists()
