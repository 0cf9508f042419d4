"""A row with noise of its own says it; other rows have the noise of their columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ptklib import CountFeaturizer
from ptklib.row_noise import noise_of_column, noise_of_row, noise_ranges
from tests.support.families import rows

OWN = pa.table({"zone": ["a", "b"], "noise_std": [4.0, 2.0], "count": [100.0, 50.0], "share": [0.7, 0.3]})
TOLD = {"count": 4.0}


def test_each_row_has_its_own() -> None:
    assert [noise_of_row(row, TOLD) for row in OWN.to_pylist()] == [{"count": 4.0}, {"count": 2.0}]
    assert noise_of_column(OWN, "count", TOLD, ["zone"]) == [4.0, 2.0]
    assert noise_ranges(OWN, TOLD, ["zone"]) == {"count": (2.0, 4.0)}


def test_a_column_that_follows_from_others_has_none() -> None:
    assert noise_of_column(OWN, "share", TOLD, ["zone"]) is None


def test_other_rows_have_that_of_their_column() -> None:
    table = OWN.drop_columns(["noise_std"])
    assert noise_of_row(table.to_pylist()[1], TOLD) == TOLD
    assert noise_of_column(table, "count", TOLD, ["zone"]) == [4.0, 4.0]
    assert noise_ranges(table, TOLD, ["zone"]) == {"count": (4.0, 4.0)}


@pytest.mark.parametrize("told", [{}, {"count": 4.0, "noise_std": 1.0}])
def test_a_column_that_a_team_names_so_says_nothing_of_noise(told: dict[str, float]) -> None:
    assert noise_of_row(OWN.to_pylist()[1], told) == told
    assert noise_ranges(OWN, told, ["zone"]) == {column: (std, std) for column, std in told.items()}


def test_a_column_of_texts_is_no_noise() -> None:
    table = pa.table({"noise_std": ["loud", "quiet"], "count": [1.0, 2.0]})
    assert noise_of_row(table.to_pylist()[0], TOLD) == TOLD
    assert noise_of_column(table, "count", TOLD, ["zone"]) == [4.0, 4.0]


def test_a_key_that_is_called_so_is_no_noise() -> None:
    table = pa.table({"noise_std": [0, 1, 2], "count": [1.0, 2.0, 3.0]})
    assert noise_of_column(table, "count", TOLD, ["noise_std"]) == [4.0] * 3
    assert noise_ranges(table, TOLD, ["noise_std"]) == {"count": (4.0, 4.0)}


def test_a_table_without_rows_has_no_noise_of_its_rows() -> None:
    assert noise_ranges(OWN.slice(0, 0), TOLD, ["zone"]) == {}


def test_a_notebook_says_the_least_and_the_most() -> None:
    counts = CountFeaturizer(
        ["hour"], "long", classes=(False, True), select={"hour": "int64"}, epsilon=4.0, delta=1e-4
    )
    first = counts.fit(rows(4000)).to_state()
    more = rows(4000).assign(hour=lambda table: table["hour"] + 2)
    twice = counts.fit(more, previous_state=first)
    own = twice.tables_["hour"].column("noise_std").to_pylist()
    told = f"{min(own):.6g} to {max(own):.6g}, in the column noise_std"
    assert told in twice._repr_html_()
    assert told in twice.to_state()._repr_html_()
