"""The experiments of the budgeting paper: Figure 3 and Tables II to V.

Queries with costs ask blocks with budgets. Policies decide who gets what: Algorithms 2 and 3 with their noise, Sage's
blocks, streaming, and the offline optimum with exact significances, which is simulation only. All models train on the
same blocks with exact noise. Validation is on the population: the paper assumes public validation data.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from _common import arguments, budget_pools
from _common.budget_pools import Pool
from _common.budget_results import PIECES, SIZES, by_block_size, by_significance, cells, record, tables
from _common.budget_trials import Setting, setting
from _common.intervals import mean_and_half
from _common.plots import Panel, save_panels

from ptklib.arrays import Floats

READERS: Mapping[str, tuple[Callable[[Path], Pool], str]] = {
    "digits": (budget_pools.digits, "images of digits: label, pixels"),
    "clicks": (budget_pools.clicks, "Criteo attribution: cat1, cat4, cat6, cat8, cat9, click"),
    "houses": (budget_pools.houses, "King County sales: sale_date, price, sqft_living, grade, lat, view"),
    "trips": (
        budget_pools.trips,
        "green cab trips: pickup_datetime, trip_distance, trip_duration, file_month",
    ),
}


def pools(asked: argparse.Namespace) -> list[Pool]:
    """Read the files that were named, or make rows up."""
    if asked.generated:
        return [
            budget_pools.generated_classes(asked.generated),
            budget_pools.generated_numbers(asked.generated),
        ]
    return [read(path) for name, (read, _) in READERS.items() if (path := getattr(asked, name)) is not None]


def figure3(chosen: Setting, seeds: Sequence[int]) -> tuple[Panel, Panel]:
    """Return Figure 3 for a pool: quality by significance, and by the size of blocks."""
    pool = chosen.pool
    quality = "squared error" if pool.in_time else "accuracy"
    by_choice = by_significance(pool, chosen.n_blocks, chosen.n_rows, seeds)
    by_size = by_block_size(pool, 24_000, seeds)

    def lines(
        found: Mapping[str, Floats], places: Sequence[int]
    ) -> dict[str, list[tuple[float, float, float]]]:
        return {
            name: [(x, *mean_and_half(of_seeds)) for x, of_seeds in zip(places, values, strict=True)]
            for name, values in found.items()
        }

    scales = ("log", "linear")
    upper = Panel(pool.name, "blocks of a query", quality, lines(by_choice, SIZES), scales=scales)
    cut = {f"ε = {epsilon:g}": values for epsilon, values in by_size.items()}
    lower = Panel(
        pool.name, "blocks that 24,000 rows are cut into", quality, lines(cut, PIECES), scales=scales
    )
    return upper, lower


def main(argv: Sequence[str] | None = None) -> int:
    paths = {name: what for name, (_, what) in READERS.items()}
    parser = arguments.of_files(__doc__, paths)
    parser.add_argument("--figure-only", action="store_true", help="draw Figure 3, and leave the tables out")
    parser.add_argument("--seeds", type=int, default=20)
    asked = parser.parse_args(argv)
    arguments.check(parser, asked, paths, least_seeds=2)
    seeds, chosen = range(asked.seeds), [setting(pool) for pool in pools(asked)]
    asked.out.mkdir(parents=True, exist_ok=True)
    panels = [panel for one in chosen for panel in figure3(one, seeds)]
    save_panels([*panels[::2], *panels[1::2]], asked.out / "budgeting.svg", columns=len(chosen))
    if not asked.figure_only:
        found = [cell for one in chosen for cell in cells(one, seeds)]
        print(tables(found))
        (asked.out / "budgeting.json").write_text(json.dumps(record(found), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
