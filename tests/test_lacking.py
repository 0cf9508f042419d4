"""The plugin that counts what was skipped because the machine lacks a tool."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest
from tests.lacking import needs, without

@pytest.mark.skipif(True, reason=needs("chromium", "apt-get install chromium"))
@pytest.mark.parametrize("page", range(2))
def test_page(page): ...

def test_sandbox():
    without("bubblewrap", "it is not installed", in_ci=False)

def test_consumer():
    without("feast[redis]", "the index does not answer")

def test_something_else():
    pytest.skip("there is no such file")
"""


@pytest.mark.parametrize("options", [(), ("-n", "2")])
@pytest.mark.parametrize("in_ci", [False, True])
def test_what_was_skipped_for_a_tool_is_told_in_one_line_and_what_ci_must_have_fails_there(
    tmp_path: Path, in_ci: bool, options: tuple[str, ...]
) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment |= {"PYTHONPATH": str(Path(__file__).resolve().parent.parent)} | (
        {"CI": "1"} if in_ci else {}
    )
    plain = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.lacking",
        "-p",
        "no:cacheprovider",
        *options,
        tmp_path,
    ]
    done = subprocess.run(
        plain, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    told = "bubblewrap (1), chromium (2)" + ("" if in_ci else ", feast[redis] (1)")
    assert f"tests skipped for a tool that is missing: {told}\n" in done.stdout
    assert ("needs feast[redis]: the index does not answer" in done.stdout, done.returncode) == (in_ci, in_ci)
