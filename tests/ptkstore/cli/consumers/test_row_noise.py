"""Where rows have noise of their own, the commands of a consumer show that of each row."""

from __future__ import annotations

import io
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.command_line import Line
from tests.support.selected import PTK, publish_selected
from tests.support.world import World

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Line, dict[str, float]]:
    """The command line of a home, and the noise of each zone in its newest version."""
    world = World(tmp_path_factory.mktemp("selected") / "home")
    publish_selected(world)
    _, files = world.service.ptk_version(PTK, 2)
    rows = pq.read_table(io.BytesIO(next(iter(files.values())))).to_pylist()
    line = Line(world.service.settings.home)
    world.service.close()
    noises = {row["zone"]: row["noise_std"] for row in rows}
    assert noises["early"] > noises["late"] > 0
    return line, noises


def shown(line: Line, *words: str) -> dict[str, list[str]]:
    """Rows of a table by their first cell."""
    cells = [
        [cell.strip() for cell in row.split("│")[1:-1]]
        for row in line.run(*words).stdout.splitlines()
        if row.startswith("│")
    ]
    return {row[0]: row[1:] for row in cells}


@pytest.mark.parametrize("zone", ["early", "late"])
@pytest.mark.parametrize("features", ["", ":count_true"])
def test_a_lookup_shows_that_of_the_key(home: Any, zone: str, features: str) -> None:
    line, noises = home
    found = shown(line, "lookup", PTK + features, f"zone={zone}")
    assert found["count_true"][1] == f"{noises[zone]:.6g}"
    assert ("noise_std" in found) is (not features)


def test_values_name_the_column_that_says_it(home: Any) -> None:
    line, noises = home
    output = line.run("show", PTK, "--values").stdout
    assert "noise_std is one standard deviation of the noise in the row's count_false, count_true" in output
    assert "±" not in output
    values = line.json("show", PTK, "--values")["values"]
    assert values["noise_by_row"] == "noise_std"
    assert {row["zone"]: row["noise_std"] for row in values["rows"]} == noises


def test_a_comparison_has_that_of_the_rows_it_compares(home: Any) -> None:
    line, noises = home
    (table,) = line.json("diff", PTK, "1", "2")["tables"]
    (count,) = (one for one in table["columns"] if one["column"] == "count_true")
    early = [noises["early"]] * 2
    assert count["noise"][1] == pytest.approx(early)
    assert shown(line, "diff", PTK, "1", "2")["count_true"][-1] == f"{noises['early']:.6g}"
