"""Benchmarks say which goals they miss, by their exit code as well."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.measuring import Row, measured, verdict


def row(name: str, *, ours: float) -> Row:
    return measured(name, "a wait", unit="s", ours=ours, goal=1.0, direction="min")


@pytest.mark.parametrize(
    ("rows", "told", "code"),
    [
        ([row("a-wait", ours=0.5)], "goals missed: none", 0),
        ([row("a-wait", ours=0.5), row("b-wait", ours=2.0), row("c-wait", ours=3.0)], "b-wait, c-wait", 1),
    ],
)
def test_a_missed_goal_is_named_and_fails(
    capsys: pytest.CaptureFixture[str], rows: list[Row], told: str, code: int
) -> None:
    assert verdict(rows, "benchmarks/out/it.json") == code
    assert capsys.readouterr().out.endswith(f"{told}\n")


@pytest.mark.parametrize("topic", ["allocator", "ledger", "ptklib", "service"])
def test_the_exit_code_of_every_topic_is_its_verdict(repository: Path, topic: str) -> None:
    text = (repository / "benchmarks" / f"{topic}.py").read_text()
    assert "    return verdict(found, REPORT.relative_to(ROOT))\n\n\nif __name__" in text
    assert "raise SystemExit(main(" in text


@pytest.fixture
def tree(repository: Path, tmp_path: Path) -> Path:
    """The Makefile in a directory of its own, which is set up already; one topic misses a goal."""
    files = {
        "requirements.lock": "",
        "pyproject.toml": "",
        "infra/uv.txt": "",
        "infra/setup": "",
        "benchmarks/ptklib.py": "print('measured ptklib')",
        "benchmarks/ledger.py": "print('measured ledger'); raise SystemExit(1)",
        "benchmarks/service.py": "print('measured service')",
        ".venv/bin/python": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n',
        ".venv/.stamp": f"{tmp_path}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".venv" / "bin" / "python").chmod(0o755)
    shutil.copy(repository / "Makefile", tmp_path)
    return tmp_path


def test_all_topics_are_measured_though_one_misses_a_goal_and_that_fails(tree: Path) -> None:
    made = subprocess.run(
        ["make", "--silent", "bench"], cwd=tree, capture_output=True, text=True, check=False, timeout=120
    )
    assert [line for line in made.stdout.splitlines() if line.startswith("measured")] == [
        "measured ptklib",
        "measured ledger",
        "measured service",
    ]
    assert made.returncode != 0
    (tree / "benchmarks" / "ledger.py").write_text("")
    assert subprocess.run(["make", "--silent", "bench"], cwd=tree, check=False, timeout=120).returncode == 0
