"""`ptk stream recommend`: rows and windows for the PTKs that are registered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.planned_stream import Line, ptk, taxi

__all__ = ["ptk", "taxi"]


def test_a_stream_without_ptks_is_told_so(ptk: Line) -> None:
    assert ptk.json("stream", "recommend", "taxi") == {
        "stream": "taxi",
        "rows": 0,
        "window_seconds": None,
        "rows_per_window": 1000,
        "refusals": {},
        "points": [],
    }
    assert "no PTK is registered yet" in ptk.run("stream", "recommend", "taxi").stdout


def test_rows_and_window_follow_from_what_the_ptks_declare(taxi: Line) -> None:
    told = taxi.json("stream", "recommend", "taxi", "--partitions", "2")
    # two PTKs at 0.4 share a partition of all train rows, 0.8 of a window; four need two partitions; more have no room
    assert (told["rows"], told["window_seconds"], told["refusals"]) == (800, 86_400.0, {})
    against = {p["ptks"]: (p["rows"], p["partitions"]) for p in told["points"] if p["against"] == "ptks"}
    assert against == {1: (800, 1), 2: (800, 1), 3: (1600, 2), 4: (1600, 2)}
    budget = {p["epsilon"]: p["rows"] for p in told["points"] if p["against"] == "budget"}
    assert (budget[0.25], budget[0.5], budget[1.0], budget[4.0]) == (None, 1600, 800, 800)
    said = taxi.run("stream", "recommend", "taxi", "--partitions", "2").stdout
    assert (
        "Recommended: 800 rows in all train partitions (N), so windows of at least 1 day (T), as the policy expects "
        in said
    )
    table, _, below = said.partition("Each row answers one question.")
    assert table.count("no plan") == sum(p["rows"] is None for p in told["points"]) > 0
    assert "no plan: no number of partitions was found" in below


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_chart_is_drawn(taxi: Line, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"rows.{ending}"
    assert (
        f"{file}: rows needed, drawn" in taxi.run("stream", "recommend", "taxi", "--figure", str(file)).stdout
    )
    assert file.stat().st_size > 1000
    if ending == "svg":
        text = file.read_text()
        assert all(word in text for word in ("first feasible K", "K chosen", "against budget"))
        assert "mathdefault" not in text
        assert "1,000" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["taxi", "--figure", "rows.txt"], "--figure must end in"),
        (["taxi", "--partitions", "0"], "between 1 and 64"),
        (["bikes"], "there is no stream 'bikes'"),
    ],
)
def test_a_wrong_question_is_refused(ptk: Line, words: list[str], says: str) -> None:
    assert says in ptk.run("stream", "recommend", *words, code=2).stderr
