"""The plugin that counts what was skipped because the machine lacks a tool."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

TESTS = """
import pytest
from tests.support.plugins.lacking import needs, without

@pytest.mark.skipif(True, reason=needs("chromium", "apt-get install chromium"))
@pytest.mark.parametrize("page", range(2))
def test_page(page): ...

def test_ceph():
    without("ceph", "it is not installed", in_ci=False)

def test_consumer():
    without("feast[redis]", "the index does not answer")

def test_something_else():
    pytest.skip("there is no such file")
"""


IN_TWO = ("-p", "xdist", "-n", "2")


@pytest.mark.parametrize(
    ("ci", "fails", "options"),
    [
        ({}, False, ()),
        ({"CI": "1"}, True, ()),
        ({"CI": "1"}, True, IN_TWO),
        ({"CI": "1", "PTK_TEST_WITHOUT": "bubblewrap"}, True, ()),
        ({"CI": "1", "PTK_TEST_WITHOUT": "bubblewrap,feast[redis]"}, False, ()),
        ({"CI": "1", "PTK_TEST_WITHOUT": "bubblewrap,feast[redis]"}, False, IN_TWO),
    ],
    ids=["elsewhere", "ci", "ci in two", "without another", "without it", "without it in two"],
)
def test_what_was_skipped_for_a_tool_is_told_in_one_line_and_what_ci_must_have_fails_there(
    tmp_path: Path, ci: dict[str, str], fails: bool, options: tuple[str, ...]
) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    done = run_tests(tmp_path, ci, "-p", "tests.support.plugins.lacking", *options)
    told = "ceph (1), chromium (2)" + ("" if fails else ", feast[redis] (1)")
    assert f"tests skipped for a tool that is missing: {told}\n" in done.stdout
    assert ("needs feast[redis]: the index does not answer" in done.stdout, done.returncode) == (fails, fails)


SANDBOXED = "def test_sandbox(sandbox): ..."
FORBIDDEN = "#!/bin/sh\n[ $1 = --version ] || { echo 'bwrap: No permissions' >&2; exit 1; }\n"


@pytest.mark.parametrize(
    ("program", "told", "fails"),
    [
        (None, "needs bubblewrap: it is not installed", True),
        (
            "#!/bin/sh\necho 'no such library' >&2; exit 127\n",
            "needs bubblewrap: what is installed does not run",
            True,
        ),
        (FORBIDDEN, "namespaces for bubblewrap (1)", False),
    ],
    ids=["not installed", "broken", "no namespaces"],
)
def test_ci_fails_without_bubblewrap_and_tells_a_machine_that_lets_it_do_nothing(
    tmp_path: Path, program: str | None, told: str, fails: bool
) -> None:
    (tmp_path / "bin").mkdir()
    if program is not None:
        (tmp_path / "bin" / "bwrap").write_text(program)
        (tmp_path / "bin" / "bwrap").chmod(0o755)
    (tmp_path / "test_it.py").write_text(SANDBOXED)
    plugins = ("-p", "tests.support.plugins.lacking", "-p", "tests.support.team_code")
    done = run_tests(tmp_path, {"CI": "1", "PATH": str(tmp_path / "bin")}, *plugins)
    assert (told in done.stdout, done.returncode) == (True, fails), done.stdout
    allowed = run_tests(
        tmp_path, {"CI": "1", "PATH": str(tmp_path / "bin"), "PTK_TEST_WITHOUT": "bubblewrap"}, *plugins
    )
    assert allowed.returncode == 0, allowed.stdout


def run_tests(folder: Path, variables: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """A run of pytest of its own."""
    known = {name: value for name, value in os.environ.items() if name not in ("CI", "PTK_TEST_WITHOUT")}
    here = {"PYTHONPATH": str(Path(__file__).resolve().parents[3]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment = known | here | variables
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, str(folder)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
