"""Scenario 3, a feature store in use: one cab service's PTKs serve its own task and the other service's.

The yellow cab team turns what helps it to predict durations into PTKs: statistics of the pace by time and place,
clusters and principal axes of where trips start and end. Both teams predict the log of a trip's duration from
time and places, with or without these features.

Rows in the order of time: of the yellow trips the last month tests, the month before is the task's own data, and all
earlier ones train the PTKs. The green team's first three months serve in the same way: two of its own, one to test.
The green team, which has more trips, does likewise with PTKs from its own past: its last month tests, the month
before is its own data, all earlier months train. Distances are straight lines: a meter's is known only afterwards.

Epsilon is that of all eight PTKs together. The non-private PTKs are scikit-learn's `TargetEncoder`, `KMeans` and
`PCA`. `PTKs of no trips` is a control: the same PTKs at epsilon 1, trained on an empty table. What that line gains
is due to the form of the features, such as distances to evenly spread centres, and not to any trip.
"""

from __future__ import annotations

import sys
from functools import partial

import pandas as pd
from _common import arguments, cab_ptks, losses, models, runs, trips
from _common.curves import Task

PATHS = {
    "yellow": "yellow cab trips with coordinates, January to May 2016 (Kaggle NYC Taxi Trip Duration)",
    "green": "green cab trips of TLC, three months or more",
    "zones": "table of taxi zones: zone_id, centroid_longitude, centroid_latitude",
}
TIME_COLUMNS = ("weekday", "hour")
PLACE_COLUMNS = ("pickup_x", "pickup_y", "dropoff_x", "dropoff_y", "east", "north", "log_miles")
MOST_ROWS = 10_000
LABEL = "log_seconds"


def tasks(yellow: pd.DataFrame, green: pd.DataFrame | None) -> list[Task]:
    """Return the yellow team's task and, when there are green trips, two of the green team's."""
    past, own, later = by_month(yellow)
    found = [_task("yellow cabs, by their own past", past, own, later)]
    if green is not None:
        first = green[green["time"].dt.to_period("M") <= _months(green)[2]]
        months = first["time"].dt.to_period("M")
        begun, tested = first[months < months.max()], first[months == months.max()]
        found += [
            _task("green cabs, by yellow cabs' past", past, begun, tested),
            _task("green cabs, by their own past", *by_month(green)),
        ]
    return found


def _task(name: str, past: pd.DataFrame, own: pd.DataFrame, later: pd.DataFrame) -> Task:
    parts = [*cab_ptks.statistics(), *cab_ptks.clusters_and_axes()]
    return Task(
        name=name,
        loss="squared error of log seconds",
        ptk="4 HistoricalStatistics, 2 Clustering, 2 CovarianceMatrix",
        n_ptk_rows=len(past),
        train=some(own),
        test=some(later),
        label=LABEL,
        model=lambda names: models.Blend(TIME_COLUMNS, PLACE_COLUMNS, names),
        row_loss=losses.squared_error,
        train_ptk=partial(cab_ptks.train, parts, past),
        order="time",
        controls={"PTKs of no trips": partial(cab_ptks.train, parts, past.head(0), 1.0)},
    )


def by_month(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Split into all months but two, the last but one, the last."""
    months, month = _months(rows), rows["time"].dt.to_period("M")
    return rows[month < months[-2]], rows[month == months[-2]], rows[month == months[-1]]


def _months(rows: pd.DataFrame) -> list[pd.Period]:
    months = sorted(rows["time"].dt.to_period("M").unique())
    if len(months) < 3:
        raise SystemExit("trips of three months or more are needed")
    return months


def some(rows: pd.DataFrame) -> pd.DataFrame:
    """Draw at most `MOST_ROWS` rows, always the same."""
    return rows.sample(min(MOST_ROWS, len(rows)), random_state=0)


def main(argv: list[str] | None = None) -> int:
    """Measure both teams' tasks; print tables, save a plot and the numbers."""
    asked = arguments.checked(arguments.parser(__doc__, PATHS), argv, PATHS)
    if asked.generated is not None:
        zones = trips.Zones.generated()
        yellow = trips.generate(asked.generated, zones, 150, 1, "2016-01-01")
        green = trips.generate(asked.generated, zones, 90, 2, "2021-01-01", slower=1.2)
    else:
        if asked.yellow is None or asked.zones is None:
            raise SystemExit("--yellow and --zones are needed")
        zones = trips.Zones.load(asked.zones)
        yellow = trips.load(asked.yellow, zones)
        green = None if asked.green is None else trips.load(asked.green, zones)
    return runs.measure("feature_store", tasks(yellow, green), asked)


if __name__ == "__main__":
    sys.exit(main())
