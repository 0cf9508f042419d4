"""The plot of a table whose rows have different noise shows that of each row."""

from __future__ import annotations

import pytest

from ptkstore.application.states.state_tables import StateTable
from ptkstore.console.pages.states import shown_table


def table(noise_std: dict[str, float]) -> StateTable:
    return StateTable(
        name="zone",
        tables=("zone",),
        keys=("zone",),
        columns=("zone", "noise_std", "count_true", "share_true"),
        numeric=frozenset({"noise_std", "count_true", "share_true"}),
        noise_std=noise_std,
        n_rows=2,
        n_found=2,
        rows=(("a", 4.0, 100.0, 0.5), ("b", 2.0, 100.0, 0.5)),
        column="",
        descending=False,
    )


def test_rows_with_noise_of_their_own_are_drawn_with_it() -> None:
    shown = shown_table(table({"count_true": 4.0}), "")
    assert (shown["plotted"], shown["noise_by_row"]) == ("count_true", "noise_std")
    assert [one.label for one in shown["chart"].marks] == [
        "a: 100, noise of standard deviation 4",
        "b: 100, noise of standard deviation 2",
    ]
    first, second = shown["chart"].marks
    assert first.height == pytest.approx(2 * second.height, abs=0.02)
    assert [one["noise"] for one in shown["columns"]] == [None] * 4  # no one number is that of all rows


def test_a_column_that_follows_from_others_has_none() -> None:
    shown = shown_table(table({"count_true": 4.0}), "share_true")
    assert (shown["noise"], shown["noise_by_row"]) == (None, "")
    assert [one.label for one in shown["chart"].marks] == ["a: 0.5", "b: 0.5"]


def test_a_column_of_a_team_says_nothing_of_its_noise() -> None:
    shown = shown_table(table({}), "count_true")
    assert [one.label for one in shown["chart"].marks] == ["a: 100", "b: 100"]
