"""What notebooks show of PTKs, versions and budgets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import matplotlib
import pytest

from ptkstore.errors import InvalidRequest
from ptkstore.sdk import Store
from ptkstore.sdk.documents.listings import Budget, PtkListing
from tests.support.world import STREAM, World

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _closed_figures() -> Iterator[None]:
    with matplotlib.rc_context({"backend": "agg"}):
        yield
        from matplotlib import pyplot

        pyplot.close("all")


@pytest.fixture
def published(world: World) -> World:
    world.stream()
    world.register(description=HOSTILE)
    world.publish(0)
    world.publish(1)
    return world


def test_lists_are_shown_as_tables_and_stay_lists(published: World, store: Store) -> None:
    ptks, versions, budget = store.ptks(), store.versions("taxi.speed"), store.budget(STREAM)

    for listing in (ptks, versions, budget):
        assert isinstance(listing, list)
        assert json.loads(json.dumps(listing)) == [dict(row) for row in listing]
        assert listing._repr_html_().count("<tr>") == len(listing) + 1
    assert "taxi.speed" in ptks._repr_html_()
    assert HOSTILE not in ptks._repr_html_()
    assert "&lt;script&gt;" in ptks._repr_html_()
    assert versions[1]["guarantee"]["privacy_unit"] in versions._repr_html_()
    assert "train-0" in budget._repr_html_()


def test_a_version_is_shown_with_its_guarantee_and_its_state(published: World, store: Store) -> None:
    ptk = store.ptk("taxi.speed")

    html = ptk._repr_html_()

    assert "PTK taxi.speed, version 2" in html
    assert ptk.model_state._repr_html_() in html
    assert ptk.plot().ax_.get_title() == "statistics: count, with 95 % of the noise"


def test_a_version_is_printed_in_short_lines(published: World, store: Store) -> None:
    assert repr(store.ptk("taxi.speed")).splitlines() == [
        "<PTK taxi.speed, version 2>",
        "  guarantee: epsilon 0.1, delta 0.0, privacy unit record, assurance library",
        "  windows: 2026-01-05T00:00:00+00:00 to 2026-01-07T00:00:00+00:00",
        "  target: 0.1",
        "  model: HistoricalStatistics",
        "  table statistics: 24 rows by hour: count, speed_sum, speed_mean",
    ]


def test_no_text_of_a_version_leaves_its_line(published: World, store: Store) -> None:
    made = store.ptk("taxi.speed")
    unit = f"record\n\x1b[2J{'x' * 200}"
    lines = repr(replace(made, guarantee={**made.guarantee, "privacy_unit": unit})).splitlines()
    assert len(lines) == 6
    assert lines[1].startswith("  guarantee: epsilon 0.1, delta 0.0, privacy unit record??[2Jxxx")
    assert max(map(len, lines)) == 100


def test_a_budget_is_drawn_window_by_window(published: World, store: Store) -> None:
    budget = store.budget(STREAM)

    display = budget.plot()

    rows = [row for row in budget if row["part"] == "train-0"]
    assert display.windows == ["0", "1"]
    assert list(display.spent) == [row["spent_epsilon"] for row in rows]
    assert min(display.spent) > 0
    assert list(display.capacity) == [row["capacity_epsilon"] for row in rows]
    assert budget.plot("test").spent == [0.0, 0.0]
    with pytest.raises(InvalidRequest, match="no window has a block of part train-7: its parts are "):
        budget.plot("train-7")


def test_of_several_blocks_of_a_window_the_fullest_is_drawn() -> None:
    row = {"part": "train-0", "capacity_epsilon": 1.0, "reserved_epsilon": 0.0}
    budget = Budget(
        [
            {**row, "window": 3, "spent_epsilon": 0.1},
            {**row, "window": 3, "spent_epsilon": 0.7},
            {**row, "window": 2, "spent_epsilon": 0.2},
        ]
    )

    display = budget.plot()

    assert display.windows == ["2", "3"]
    assert display.spent == [0.2, 0.7]


def test_long_lists_are_cut() -> None:
    listing = PtkListing({"ptk_id": f"team.ptk_{i}"} for i in range(150))

    assert "150 rows, first 100" in listing._repr_html_()
    assert "team.ptk_99" in listing._repr_html_()
    assert "team.ptk_100" not in listing._repr_html_()
