"""Benchmarks say which goals they miss, by their exit code as well."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import measuring
from benchmarks.measuring import Row, measured, verdict
from benchmarks.parts import measure


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


@pytest.mark.parametrize(
    "topic", ["allocator", "budgeting", "draw_discard", "ledger", "ptklib", "sage", "service"]
)
def test_the_exit_code_of_every_topic_is_its_verdict(repository: Path, topic: str) -> None:
    text = (repository / "benchmarks" / f"{topic}.py").read_text()
    in_parts = topic in ("draw_discard", "ptklib", "service")
    ending = "verdict(found, REPORT.relative_to(ROOT))" if in_parts else f'report("{topic}", rows())'
    assert f"    return {ending}\n\n\nif __name__" in text
    assert "raise SystemExit(main(" in text


def test_a_report_is_written_and_its_verdict_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measuring, "OUT", tmp_path / "benchmarks" / "out")
    rows = [row("a-wait", ours=0.5), row("b-wait", ours=2.0)]
    assert measuring.report("it", rows) == 1
    assert json.loads((tmp_path / "benchmarks" / "out" / "it.json").read_text()) == rows
    told = capsys.readouterr().out
    assert told.endswith("written to benchmarks/out/it.json; goals missed: b-wait\n")
    assert measuring.report("it", rows[:1]) == 0


def a_part(*rows: Row) -> ModuleType:
    made = ModuleType("a part")
    made.rows = lambda: list(rows)  # type: ignore[attr-defined]
    return made


def test_what_a_part_has_measured_is_kept_when_another_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "out" / "it.json"
    fails = ModuleType("a part without rows")
    for name, part in {
        "a": a_part(row("a-wait", ours=0.5)),
        "b": fails,
        "c": a_part(row("c-wait", ours=0.5)),
    }.items():
        monkeypatch.setitem(sys.modules, f"benchmarks.it_{name}", part)
    with pytest.raises(ExceptionGroup, match="parts that failed"):
        measure("it", ("a", "b", "c"), report)
    assert [kept["id"] for kept in json.loads(report.read_text())] == ["a-wait", "c-wait"]
    assert capsys.readouterr().out.count("| a wait (s) |") == 2
    monkeypatch.setitem(sys.modules, "benchmarks.it_a", a_part(row("a-wait", ours=0.7)))
    assert measure("it", ("a",), report) == [row("a-wait", ours=0.7)]
    assert [(kept["id"], kept["ours"]) for kept in json.loads(report.read_text())] == [
        ("c-wait", 0.5),
        ("a-wait", 0.7),
    ]


@pytest.mark.parametrize("topic", ["ptklib", "service"])
def test_parts_are_measured_by_their_names(repository: Path, topic: str) -> None:
    command = [sys.executable, str(repository / "benchmarks" / f"{topic}.py"), "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("no such part: nothing; parts are ")
    for part in done.stderr.strip().rpartition(" are ")[2].split(", "):
        assert "\ndef rows(" in (repository / "benchmarks" / f"{topic}_{part}.py").read_text()


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
