"""Homes: made for their user alone, whoever makes them, and by no command that was given a mistyped one."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ptkstore
from ptkstore.adapters.processes import RedisServer, Supervisor
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from tests.support.command_line import CREATE, Line

TOKEN = "ptk_0123456789abcdef"
WITHIN = [  # what is done in a store that is there; of all other commands `test_commands` says so
    ["token", "create", "--team", "ads", "--scope", "developer"],
    ["token", "create", "--team", "administrators", "--admin"],
    ["token", "rotate", TOKEN],
    ["token", "revoke", TOKEN],
    ["grant", "add", "ads", "taxi", "developer"],
    ["grant", "remove", "ads", "taxi", "developer"],
]
BEGINNINGS = [CREATE, ["team", "create", "ads"], ["token", "create", "--admin"]]


@pytest.fixture
def ptk(tmp_path: Path) -> Line:
    return Line(tmp_path / "above" / "home")


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("words", BEGINNINGS, ids=lambda words: " ".join(words[:2]))
def test_a_home_that_a_command_makes_is_for_its_user_alone(ptk: Line, words: list[str]) -> None:
    ptk.run(*words)
    assert mode(ptk.home) == 0o700


def _supervised(home: Path) -> None:
    with Supervisor(home):
        pass


def _redis(home: Path) -> None:
    with RedisServer(home):
        pass


def _python(home: Path) -> None:
    with ptkstore.connect(home) as store:
        store.notices()


@pytest.mark.parametrize("make", [_supervised, _redis, _python], ids=lambda make: make.__name__)
def test_so_is_one_that_the_service_or_python_makes(ptk: Line, make: Callable[[Path], None]) -> None:
    make(ptk.home)
    assert mode(ptk.home) == 0o700


@pytest.mark.parametrize(
    "part", ["catalog", "keys", "signer", "raw", "staging", "lake", "bundles", "feast_repo"]
)
def test_whatever_is_written_first(ptk: Line, part: str) -> None:
    service = Service(Settings(home=ptk.home))
    getattr(service, part)
    service.close()
    assert mode(ptk.home) == 0o700


def test_a_home_that_is_there_keeps_its_mode(ptk: Line) -> None:
    ptk.home.mkdir(parents=True)
    ptk.home.chmod(0o750)
    ptk.run(*CREATE)
    assert mode(ptk.home) == 0o750


def test_what_lies_elsewhere_makes_no_home(ptk: Line, tmp_path: Path) -> None:
    service = Service(
        Settings(home=ptk.home, keys_url=str(tmp_path / "keys"), lake_url=str(tmp_path / "lake"))
    )
    _ = service.keys, service.lake
    service.close()
    assert not ptk.home.exists()


@pytest.mark.parametrize("words", WITHIN, ids=" ".join)
def test_a_mistyped_home_is_told_of_with_how_a_store_is_made(ptk: Line, words: list[str]) -> None:
    line = ptk.refused(*words, code=2)
    assert f"there is no store in {ptk.home}" in line
    assert "ptk team create" in line
    assert not ptk.home.exists()


def test_no_api_is_served_of_a_store_that_is_not_there(ptk: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.execve", lambda *_: pytest.fail("it was started nevertheless"))
    assert "there is no store in" in ptk.run("api", "--port", "0", code=2).stderr
    assert not ptk.home.exists()


def test_a_catalog_elsewhere_is_a_store(ptk: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr("os.execve", lambda *call: started.append(call))
    monkeypatch.setenv("PTK_DATABASE_URL", "postgresql://ptk@db.example.org/ptk")
    ptk.run("api", "--port", "0")
    assert started


def test_the_sandbox_is_tried_without_a_store(ptk: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTK_BUBBLEWRAP", "no-such-command")
    assert "there is no store" not in ptk.refused("sandbox", code=1)
    assert not ptk.home.exists()
