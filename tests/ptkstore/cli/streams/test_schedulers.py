"""Commands about schedulers: what a policy says of one is shown, and what does not go together is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptkstore.sdk.store import connect
from tests.support.command_line import Line

CREATE = [
    *("stream", "create", "rides", "--team", "taxi", "--schema", "at:timestamp,hour:int64"),
    *("--time-column", "at", "--epsilon", "1", "--origin", "2026-01-05", "--closing", "operator"),
]
BOUNDS = ("--least-significance", "2", "--most-significance", "10.5")
SHOWN = {
    "significance": "recency",
    "served_first": "arrival",
    "least_significance": 2.0,
    "most_significance": 10.5,
    "comparison_epsilon": None,
}
DECLARED = """
from ptklib.statistics import HistoricalStatistics
from ptkstore import PTK

trips = PTK(
    "trips", "rides",
    HistoricalStatistics(keys=["hour"], domains={"hour": [0, 1]}, statistics=["count"], epsilon=0.1),
    target=0.5, recency=3,
)
"""


@pytest.fixture
def ptk(tmp_path: Path) -> Line:
    return Line(tmp_path / "home")


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("--scheduler", "adaptive"), {"scheduler": "adaptive", "scheduler_mode": "guided"}),
        (("--scheduler", "budgeting", *BOUNDS), {"scheduler": "budgeting", **SHOWN}),
        (
            ("--scheduler", "budgeting", *BOUNDS, "--significance", "loss", "--comparison-epsilon", "0.05"),
            {"scheduler": "budgeting", **SHOWN, "significance": "loss", "comparison_epsilon": 0.05},
        ),
        (
            ("--scheduler", "budgeting", *BOUNDS, "--served-first", "dpack"),
            {"scheduler": "budgeting", **SHOWN, "served_first": "dpack"},
        ),
        (
            (
                *("--scheduler", "budgeting", *BOUNDS),
                *("--significance", "released-loss", "--comparison-epsilon", "0.05"),
            ),
            {"scheduler": "budgeting", **SHOWN, "significance": "released-loss", "comparison_epsilon": 0.05},
        ),
    ],
    ids=str,
)
def test_what_a_policy_says_of_its_scheduler_is_shown(ptk: Line, options: Any, shown: dict[str, Any]) -> None:
    ptk.run(*CREATE, *options)
    ptk.run(*CREATE, *options)  # equal content changes nothing
    told = ptk.json("stream", "show", "rides")
    assert told.items() >= shown.items()
    assert ("least_significance" in told) == ("least_significance" in shown)


def test_bounds_are_fixed_from_the_creation_on(ptk: Line) -> None:
    ptk.run(*CREATE, "--scheduler", "budgeting", *BOUNDS)
    refused = ptk.refused(*CREATE, "--scheduler", "budgeting", *BOUNDS[:-1], "11", code=1)
    assert "most_significance is 10.5, not 11" in refused


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--scheduler", "budgeting"), "needs public bounds on significance"),
        (("--scheduler", "budgeting", *BOUNDS[:2], "--most-significance", "2"), "2 is not above 2"),
        (
            ("--scheduler", "budgeting", *BOUNDS, "--significance", "loss"),
            "has to be paid for: comparison_epsilon",
        ),
        (
            ("--scheduler", "budgeting", *BOUNDS, "--significance", "released-loss"),
            "the significance 'released-loss' is measured on rows, so its noise has to be paid for",
        ),
        (
            ("--scheduler", "budgeting", *BOUNDS, "--comparison-epsilon", "0.05"),
            "is for the significances 'loss' and 'released-loss'",
        ),
        (
            ("--scheduler", "budgeting", *BOUNDS, "--significance", "age"),
            "choose from recency, loss, released-loss",
        ),
        (BOUNDS, "are for the scheduler 'budgeting'"),
        (("--served-first", "dpf"), "served_first is for the scheduler 'budgeting'"),
        (("--scheduler", "budgeting", *BOUNDS, "--served-first", "luck"), "choose from arrival, dpf, dpack"),
        (("--scheduler", "lottery"), "choose from allocate, adaptive, budgeting"),
    ],
    ids=str,
)
def test_a_policy_that_cannot_be_kept_is_refused_in_one_line(ptk: Line, options: Any, says: str) -> None:
    assert says in ptk.refused(*CREATE, *options, code=2)
    assert not ptk.home.exists()


def test_a_repository_declares_a_recency_and_the_queue_says_who_waits(ptk: Line, tmp_path: Path) -> None:
    ptk.run(*CREATE, "--scheduler", "budgeting", *BOUNDS)
    (tmp_path / "team.toml").write_text('team = "taxi"')
    (tmp_path / "ptks.py").write_text(DECLARED)
    ptk.run("apply", str(tmp_path), "--yes")
    with connect(ptk.home) as store:
        assert [one["config"] for one in store.ptks()] == [{"recency": 3}]
    (waits,) = ptk.json("queue", "rides")
    assert (waits["ptk_id"], waits["waits_for"], waits["allowances"]) == ("taxi.trips", "new-window", [])


def test_the_queue_says_how_waits_ended(ptk: Line, tmp_path: Path) -> None:
    ptk.run(*CREATE, "--scheduler", "budgeting", *BOUNDS)
    (tmp_path / "team.toml").write_text('team = "taxi"')
    (tmp_path / "ptks.py").write_text(DECLARED)
    ptk.run("apply", str(tmp_path), "--yes")
    assert ptk.run("queue", "rides", "--ended").stdout == "no wait has ended\n"
    with connect(ptk.home) as store:
        store.deregister_ptk("taxi.trips")
    (over,) = ptk.json("queue", "rides", "--ended")
    assert (over["ptk_id"], over["end"], over["verdicts"]) == ("taxi.trips", "deregistered", [])
    shown = ptk.run("queue", "rides", "--ended").stdout
    assert all(
        word in shown for word in ("Ended waits on rides", "taxi.trips", over["until"], "deregistered")
    )
    assert ptk.json("queue", "rides") == []
