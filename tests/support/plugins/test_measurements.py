"""The plugin that keeps what long tests measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.plugins.measurements import Collector, Measurement

ROW: dict[str, Any] = {"id": "a/b", "measure": "lost jobs", "unit": "jobs", "goal": 0, "direction": "min"}


def pytest_in(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a test file with the plugin alone."""
    (folder / "test_it.py").write_text(text)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.support.plugins.measurements",
            "-p",
            "no:cacheprovider",
            *options,
            folder,
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.long
def test_a_run_writes_the_rows_of_its_tests(tmp_path: Path):
    report = tmp_path / "out" / "soak.json"
    result = pytest_in(
        tmp_path,
        "def test_one(measured):\n    measured(id='speed', measure='rows', unit='1/s', ours=50,\n"
        "             against='peer', theirs=20, judged=2.5, goal=2, direction='max')\n"
        f"def test_two(measured):\n    measured(ours=0, **{ROW!r})\n",
        f"--measurements={report}",
    )

    assert result.returncode == 0, result.stdout
    assert json.loads(report.read_text()) == [
        {
            "id": "speed",
            "measure": "rows",
            "unit": "1/s",
            "ours": 50,
            "against": "peer",
            "theirs": 20,
            "judged": 2.5,
            "goal": 2,
            "direction": "max",
            "met": True,
        },
        {**ROW, "ours": 0, "against": None, "theirs": None, "judged": 0, "met": True},
    ]
    assert list(report.parent.iterdir()) == [report]


@pytest.mark.long
def test_a_missed_goal_fails_the_test_and_stays_in_the_report(tmp_path: Path):
    report = tmp_path / "soak.json"
    text = f"def test_one(measured):\n    measured(ours=3, **{ROW!r})\n"

    result = pytest_in(tmp_path, text, f"--measurements={report}")

    assert result.returncode == 1
    assert "MISSED  a/b: lost jobs: 3 jobs, goal at most 0" in result.stdout
    assert [row["met"] for row in json.loads(report.read_text())] == [False]


@pytest.mark.long
def test_several_processes_cannot_share_a_report(tmp_path: Path):
    result = pytest_in(tmp_path, "", "-n", "2", f"--measurements={tmp_path / 'soak.json'}")

    assert result.returncode == 4
    assert "needs one process" in result.stderr


@pytest.mark.parametrize(
    ("direction", "judged", "met"),
    [("min", 0.9, True), ("min", 1.0, True), ("min", 1.1, False), ("max", 0.9, False), ("max", 1.0, True)],
)
def test_a_goal_is_a_bound_in_the_direction_that_is_better(direction: Any, judged: float, met: bool):
    fields = {**ROW, "goal": 1.0, "direction": direction}

    assert Measurement(ours=7.0, judged=judged, **fields).met is met


@pytest.mark.parametrize(
    "wrong",
    [
        {"direction": "less"},
        {"ours": float("nan")},
        {"goal": float("inf")},
        {"against": "a peer"},
        {"theirs": 3.0},
    ],
)
def test_a_row_that_says_nothing_is_refused(wrong: dict[str, Any]):
    with pytest.raises(ValueError, match=r"direction|finite|peer"):
        Measurement(**{**ROW, "ours": 1.0, **wrong})


def test_two_rows_of_one_name_are_refused():
    collector = Collector()
    collector.add(Measurement(ours=0.0, **ROW))

    with pytest.raises(ValueError, match="two measurements are called 'a/b'"):
        collector.add(Measurement(ours=1.0, **ROW))
