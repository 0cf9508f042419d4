"""What a device has lost and may lose, as its owner reads and says it: `ptk device`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ptklib.draw_discard import Odometer
from ptklib.draw_discard.limits import StreamLimits
from ptklib.draw_discard.record import Report
from tests.support.command_line import Line, ptk

__all__ = ["ptk"]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ALLOW = ["--report-epsilon", "4", "--reports-per-window", "1", "--reports-in-all", "8"]
COLUMNS = ["--column", "age", "--column", "clicked"]


def report(window: int, **other: str) -> Report:
    at = NOON + timedelta(days=window)
    names = {"server": "https://ptk.example.org", "stream": "phones", "ptk": "ads.phishy"} | other
    return Report(
        at=at,
        window=window,
        window_ends=at + timedelta(hours=1),
        specification="ab" * 32,
        epsilon=3.4700004,
        delta=0.0,
        limits=StreamLimits(report_epsilon=4.0, reports_per_window=1, reports_in_all=8),
        **names,
    )


@pytest.fixture
def folder(ptk: Line, tmp_path: Path) -> Path:
    """A device that has sent three reports."""
    made = tmp_path / "device"
    ptk.run("device", "allow", str(made), *ALLOW, *COLUMNS)
    for one in (report(1), report(2), report(3, ptk="ads.other")):
        Odometer(made).spend(one, ["age", "clicked"])
    return made


def test_losses_are_shown_by_ptk_with_what_is_allowed(ptk: Line, folder: Path) -> None:
    shown = ptk.run("device", "odometer", str(folder)).stdout
    assert "ads.phishy" in shown
    assert "in all: 3 reports, epsilon 10.4101\n" in shown
    assert (
        "allowed: 8 reports, 1 in a window, each of epsilon 4 and delta 0 at most, on age, clicked\n" in shown
    )
    document = ptk.json("device", "odometer", str(folder))
    assert document["lost"]["reports"] == 3
    assert [(row["ptk"], row["reports"]) for row in document["rows"]] == [("ads.phishy", 2), ("ads.other", 1)]
    assert document["limits"]["columns"] == ["age", "clicked"]


@pytest.mark.parametrize(("by", "reports"), [("stream", [3]), ("window", [1, 1, 1]), ("report", [1, 1, 1])])
def test_losses_are_added_up_by_what_is_asked(ptk: Line, folder: Path, by: str, reports: list[int]) -> None:
    rows = ptk.json("device", "odometer", str(folder), "--by", by)["rows"]
    assert [row["reports"] for row in rows] == reports


def test_an_odometer_that_went_back_is_refused(ptk: Line, folder: Path) -> None:
    older = (folder / "odometer.json").read_bytes()
    Odometer(folder).spend(report(4), ["age"])
    (folder / "odometer.json").write_bytes(older)
    assert ptk.refused("device", "odometer", str(folder), code=1) == (
        "refused: odometer.json is not the one that was written last"
    )
    assert "written last" in ptk.refused("device", "allow", str(folder), *ALLOW, *COLUMNS, code=1)


def test_a_folder_that_is_not_there_is_told_of_and_not_made(ptk: Line, tmp_path: Path) -> None:
    assert "no folder" in ptk.refused("device", "odometer", str(tmp_path / "gone"), code=2)
    assert not (tmp_path / "gone").exists()


def test_a_device_that_was_told_nothing_says_so(ptk: Line, tmp_path: Path) -> None:
    shown = ptk.run("device", "odometer", str(tmp_path)).stdout
    assert "no reports yet\nin all: 0 reports, epsilon 0\nnothing is allowed yet" in shown


def test_what_is_allowed_replaces_what_was(ptk: Line, folder: Path) -> None:
    fewer = ["--report-epsilon", "1", "--reports-per-window", "0", "--reports-in-all", "3", "--column", "age"]
    assert ptk.json("device", "allow", str(folder), *fewer, "--report-delta", "1e-9") == {
        "report_epsilon": 1.0,
        "reports_per_window": 0,
        "reports_in_all": 3,
        "columns": ["age"],
        "report_delta": 1e-09,
        "window_seconds": 3600,
    }
    kept = json.loads((folder / "odometer.json").read_text())
    assert (kept["limits"]["reports_in_all"], kept["lost"]["reports"]) == (3, 3)


def test_limits_that_make_no_sense_are_refused(ptk: Line, tmp_path: Path) -> None:
    wrong = ["--report-epsilon", "nan", *ALLOW[2:], *COLUMNS]
    assert "finite" in ptk.refused("device", "allow", str(tmp_path / "device"), *wrong, code=2)
    assert not (tmp_path / "device").exists()
