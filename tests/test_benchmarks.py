"""Benchmarks say which goals they miss, by their exit code as well."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import measuring
from benchmarks.measuring import Row, measured, stamped, verdict
from benchmarks.parts import measure
from benchmarks.record import main as recording

TOPICS = ("allocator", "budgeting", "draw_discard", "ledger", "ptklib", "sage", "service")


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


@pytest.mark.parametrize("topic", TOPICS)
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
    assert json.loads((tmp_path / "benchmarks" / "out" / "it.json").read_text()) == stamped(rows)
    told = capsys.readouterr().out
    assert told.endswith("written to benchmarks/out/it.json; goals missed: b-wait\n")
    assert measuring.report("it", rows[:1]) == 0


def test_a_row_that_is_written_says_where_and_when_it_was_measured(repository: Path) -> None:
    (one,) = stamped([row("a-wait", ours=0.5)])
    assert re.match(r"\d+ cores, \w+, Python 3\.", one["machine"])
    assert one["day"] == datetime.now(UTC).date().isoformat()
    if (repository / ".git").exists():
        assert re.match(r"[0-9a-f]{10}\+?$", one["commit"])


def recorded_rows(repository: Path) -> list[tuple[str, Row]]:
    """The recorded rows, each with the topics that may have measured it."""
    sections = json.loads((repository / "benchmarks/recorded.json").read_text())["sections"]
    return [(" ".join(one["topics"]), row) for one in sections for row in one["rows"]]


def test_recorded_rows_have_the_shape_of_written_ones_and_the_verdict_of_their_numbers(
    repository: Path,
) -> None:
    rows = [row for _, row in recorded_rows(repository)]
    assert len(rows) > 50
    (written,) = stamped([row("a-wait", ours=0.5)])
    for one in rows:
        assert sorted(one) == sorted(written), one["id"]
        numbers = {name: one[name] for name in ("ours", "theirs", "judged", "goal", "direction")}
        made = measured(one["id"], one["measure"], unit=one["unit"], against=one["against"], **numbers)
        assert {name: one[name] for name in made} == made
        assert date(2026, 11, 1) <= date.fromisoformat(one["day"]) <= datetime.now(UTC).date()
    assert len({one["id"] for one in rows}) == len(rows)


def ids_of(module: Path) -> list[str]:
    """Patterns of the ids of the rows that a module measures."""
    found = []
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "measured":
            parts = node.args[0].values if isinstance(node.args[0], ast.JoinedStr) else [node.args[0]]
            texts = (re.escape(str(p.value)) if isinstance(p, ast.Constant) else ".*" for p in parts)
            found.append("".join(texts))
    return found


def test_each_recorded_row_is_of_a_benchmark_that_exists(repository: Path) -> None:
    known = {
        topic: [id for module in (repository / "benchmarks").glob(f"{topic}*.py") for id in ids_of(module)]
        for topic in TOPICS
    }
    for topics, one in recorded_rows(repository):
        patterns = [pattern for topic in topics.split() for pattern in known[topic]]
        assert any(re.fullmatch(pattern, one["id"]) for pattern in patterns), one["id"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rows that a benchmark wrote, and rows that were recorded before."""
    monkeypatch.setattr(measuring, "OUT", tmp_path)
    measuring.report("it", [row("a-wait", ours=0.123456), row("b-wait", ours=0.5), row("c-wait", ours=0.7)])
    old = [{**one, "ours": 0.9, "day": "2026-11-01"} for one in (row("b-wait", ours=0.9), row("z", ours=0.9))]
    sections = [{"heading": "Others", "topics": ["other"], "rows": []}, {"topics": ["it"], "rows": old}]
    (tmp_path / "recorded.json").write_text(json.dumps({"sections": sections}))
    return tmp_path


def record(files: Path, *arguments: str) -> tuple[int, list[tuple[str, float, str]]]:
    """Record in the files; the exit code, and what is recorded of the topic afterwards."""
    places = ["--written", str(files / "it.json"), "--into", str(files / "recorded.json")]
    code = recording([*arguments, *places])
    section = json.loads((files / "recorded.json").read_text())["sections"][1]
    return code, [(one["id"], one["ours"], one["day"]) for one in section["rows"]]


def test_recording_replaces_the_rows_that_were_recorded_and_adds_those_that_are_named(files: Path) -> None:
    day = datetime.now(UTC).date().isoformat()
    kept = ("z", 0.9, "2026-11-01")
    assert record(files, "it") == (0, [("b-wait", 0.5, day), kept])
    assert record(files, "it", "a-wait") == (0, [("b-wait", 0.5, day), kept, ("a-wait", 0.1235, day)])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["it", "d-wait"], "it wrote no row d-wait; it wrote a-wait, b-wait, c-wait"),
        (["new"], "no section of the recorded rows has the topic new"),
    ],
)
def test_what_cannot_be_recorded_is_told_and_nothing_is_changed(
    files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    before = (files / "recorded.json").read_text()
    assert record(files, *arguments)[0] == 2
    assert capsys.readouterr().err == f"{told}\n"
    assert (files / "recorded.json").read_text() == before


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


def test_a_topic_is_recorded_only_if_that_is_asked_for_and_no_goal_is_missed(tree: Path) -> None:
    (tree / "benchmarks" / "record.py").write_text("import sys; print('recorded', *sys.argv[1:])")

    def printed(topic: str, *how: str) -> list[str]:
        command = ["make", "--silent", f"bench-{topic}", *how]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False, timeout=120)
        return done.stdout.splitlines()

    assert printed("ptklib") == ["measured ptklib"]
    assert printed("ptklib", "RECORD=1") == ["measured ptklib", "recorded ptklib"]
    assert printed("ledger", "RECORD=1") == ["measured ledger"]
