"""A run of the tests ends with a summary whatever a test does."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PASSES = "def test_passes_{n}(): pass\n"
HANGS = """
import time
def test_hangs(): time.sleep(3600)
"""
HANGS_IN_A_FIXTURE = """
import pytest, threading
@pytest.fixture
def never(): threading.Event().wait()
def test_hangs_in_a_fixture(never): pass
"""
HANGS_OUT_OF_REACH = """
import signal
def test_hangs_out_of_reach():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    signal.sigwait({signal.SIGUSR1})
"""
KILLS_ITS_PROCESS = """
import os
def test_kills_its_process(): os._exit(1)
"""


def run(repository: Path, place: Path, *options: str) -> tuple[int, Counter[str], str]:
    """Run the tests of `place` with the project's own options; return exit code, outcomes and output."""
    configuration = ("-c", str(repository / "pyproject.toml"), f"--rootdir={place}", "-p", "no:cacheprovider")
    limits = ("-o", "timeout=2", "-o", "faulthandler_timeout=8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *configuration, *limits, *options, str(place)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    closing = done.stdout.strip().splitlines()[-1]
    outcomes = Counter({what: int(n) for n, what in re.findall(r"(\d+) (passed|failed|error)", closing)})
    return done.returncode, outcomes, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("bad", [HANGS, HANGS_IN_A_FIXTURE], ids=["test", "fixture"])
def test_a_test_that_hangs_fails_alone(repository: Path, tmp_path: Path, bad: str) -> None:
    (tmp_path / "test_some.py").write_text(bad + "".join(PASSES.format(n=n) for n in range(4)))
    code, outcomes, output = run(repository, tmp_path)
    assert code == 1, output
    assert outcomes["passed"] == 4, output
    assert outcomes["failed"] + outcomes["error"] == 1, output


@pytest.mark.long
@pytest.mark.parametrize("bad", [KILLS_ITS_PROCESS, HANGS_OUT_OF_REACH], ids=["killed", "out-of-reach"])
@pytest.mark.parametrize("where", ["first", "last"])
def test_a_process_that_dies_fails_its_test_alone(
    repository: Path, tmp_path: Path, bad: str, where: str
) -> None:
    for file in range(4):
        passing = "".join(PASSES.format(n=n) for n in range(5))
        chosen = (where == "first" and file == 0) or (where == "last" and file == 3)
        (tmp_path / f"test_{file}.py").write_text(passing + bad if chosen else passing)
    for _ in range(5):
        code, outcomes, output = run(repository, tmp_path, "-n", "2")
        if (
            "cannot send (already closed?)" not in output
        ):  # xdist asked a process for its tests that had just died
            break
    assert code == 1, output
    assert outcomes == {"passed": 20, "failed": 1}, output
