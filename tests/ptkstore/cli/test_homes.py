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
from tests.ptkstore.cli.test_commands import CREATE, Line

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
