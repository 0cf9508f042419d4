"""The PTK paper's Table 3: what the taxi team's 13 PTKs are granted, and what a model of durations loses by it.

The green cabs' past is one window, cut by a keyed hash into a profile set and train partitions. Each PTK is profiled
(`_common/profiled.py`), gets epsilon, rows and a partition so that as few rows as possible are opened
(`_common/allocated.py`), and is trained on its sample. The team's model of log durations is then trained with the
features of all 13, on a share of the month after the past, and tested on the last month. Its lines:

- *NP PTK*: the twins without noise, on all rows of the past;
- *PTK 1*: each PTK alone with an epsilon of 1, on all rows: 13 of epsilon in all;
- *loose* and *tight*: the targets; *basic* and *renyi*: how losses add up. All 13 together lose (1, 1e-6) per block;
- *PTKs of no trips*: a control, at epsilon 1 on an empty table.

A second plot shows the rows that 1 to 200 PTKs open, drawn from the 13 with targets between tight and loose.
`--service` registers the 13 in a service of its own in a temporary home, and reads what it granted off the manifests.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
from _common import allocation_tables as tables
from _common import arguments, losses, models, plots, report, trips
from _common.allocated import Allocation, featurizer
from _common.curves import Featurizer, Task, learning_curves
from _common.served import Served, served
from _common.team import PARTITIONS, Team
from _common.thirteen import LEVELS, with_keys
from feature_store import LABEL, PLACE_COLUMNS, TIME_COLUMNS, by_month, some

from ptklib.exceptions import InvalidParameterError
from ptkstore.domain.allocation.model import Infeasible

PATHS = {
    "green": "green cab trips of TLC, three months or more: the team's own",
    "yellow": "yellow cab trips with coordinates: the same for another team",
    "zones": "table of taxi zones: zone_id, centroid_longitude, centroid_latitude",
}
COUNTS = (1, 2, 5, 10, 13, 20, 30, 50, 70, 100, 120, 150, 200)


def measure(name: str, rows: pd.DataFrame, asked: Any) -> list[dict[str, Any]]:
    """Measure one team; print tables, save its plots, return what is saved of it."""
    try:
        past, own, later = (with_keys(part).reset_index(drop=True) for part in by_month(rows))
        team = Team.of(name, past)
    except InvalidParameterError as error:  # told by public numbers alone, before any row is read
        return [_shown(tables.refusals(name, {"loose and tight": str(error)}))]
    saved = [_shown(tables.profiles(team))]
    allocations = team.allocations()
    if why := _refused(allocations):
        saved.append(_shown(tables.refusals(name, why)))
    task = task_of(team, own, later, allocations)
    if asked.service:
        outcomes = {
            f"{level}, service": served(team.ptks, level, team.window, PARTITIONS) for level in LEVELS
        }
        published = {line: found for line, found in outcomes.items() if not isinstance(found, str)}
        saved += [_shown(tables.of_service(team, line, found)) for line, found in published.items()]
        if no := {line: found for line, found in outcomes.items() if isinstance(found, str)}:
            saved.append(_shown(tables.refusals(f"{name}, service", no)))
        states = {line: partial(_features, team, found) for line, found in published.items()}
        task = replace(task, controls={**states, **(task.controls or {})})
    curves = learning_curves(
        task.without_test_rows() if asked.without_test_rows else task,
        asked.epsilons,
        asked.fractions,
        asked.seeds,
    )
    for line, found in allocations.items():
        if line not in why and isinstance(found, Allocation):
            saved.append(_shown(tables.allotments(team, line, found)))
    saved += [_shown(tables.penalties(team, curves)), report.record_of(curves)]
    print(report.table(curves), flush=True)
    word = name.split()[0]
    plots.save_curves([curves], asked.out / f"table3_{word}.svg")
    points = team.rows_by_count(asked.counts)
    saved += [_shown(tables.by_count(team, accountant, found)) for accountant, found in points.items()]
    plots.save_rows(points, asked.out / f"table3_{word}_rows.svg")
    return saved


def task_of(
    team: Team, own: pd.DataFrame, later: pd.DataFrame, allocations: Mapping[str, Allocation | str]
) -> Task:
    """Return the team's task, with a line for each plan."""
    past = team.window.rows
    return Task(
        name=f"{team.name}, by 13 PTKs of their own past",
        loss="squared error of log seconds",
        ptk="9 HistoricalStatistics, 2 Clustering, 2 CovarianceMatrix",
        n_ptk_rows=len(past),
        train=some(own),
        test=some(later),
        label=LABEL,
        model=lambda names: models.Blend(TIME_COLUMNS, PLACE_COLUMNS, names),
        row_loss=losses.squared_error,
        train_ptk=partial(team.alone, past),
        order="time",
        controls={**team.plans(allocations), "PTKs of no trips": team.nothing},
    )


def _features(team: Team, found: Mapping[str, Served]) -> Featurizer:
    return featurizer(team.ptks, {name: one.fitted for name, one in found.items()})


def _refused(allocations: Mapping[str, Allocation | str]) -> dict[str, str]:
    """Return why lines have no plan."""
    return {
        line: found if isinstance(found, str) else str(found.plan)
        for line, found in allocations.items()
        if isinstance(found, str) or isinstance(found.plan, Infeasible)
    }


def _shown(table: dict[str, Any]) -> dict[str, Any]:
    print(
        "\n".join(
            [
                f"{table['table']} ({table['said']})",
                "",
                *report.lines_of_table(table["header"], table["rows"]),
            ]
        )
    )
    print(flush=True)
    return table


def teams(asked: Any) -> dict[str, pd.DataFrame]:
    """Return the rows of the files that were named, or generated ones."""
    if asked.generated is not None:
        return {
            "generated cabs": trips.generate(asked.generated, trips.Zones.generated(), 150, 1, "2016-01-01")
        }
    if asked.zones is None or (asked.green is None and asked.yellow is None):
        raise SystemExit("--zones and one of --green and --yellow are needed")
    zones = trips.Zones.load(asked.zones)
    given = {"green cabs": asked.green, "yellow cabs": asked.yellow}
    return {name: trips.load(path, zones) for name, path in given.items() if path is not None}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the teams whose files are given; print tables, save plots and the numbers."""
    parser = arguments.parser(__doc__, PATHS)
    parser.add_argument(
        "--counts", type=int, nargs="+", default=COUNTS, help="numbers of PTKs of the second plot"
    )
    parser.add_argument("--service", action="store_true", help="also run the 13 through a service of its own")
    parser.set_defaults(epsilons=(1.0,))
    asked = arguments.checked(parser, None if argv is None else list(argv), PATHS)
    if min(asked.counts) < 1:
        parser.error("--counts are at least 1")
    saved = [record for name, rows in teams(asked).items() for record in measure(name, rows, asked)]
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "table3.json").write_text(json.dumps(saved, indent=1) + "\n")
    print(f"written: {asked.out / 'table3.json'} and plots beside it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
