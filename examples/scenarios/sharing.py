"""Scenario 2, sharing: what cabs know starts tasks that have little data of their own.

A transport company runs yellow cabs. Newer services subscribe to the cabs' PTKs and predict with few rows of
their own:

- *green cabs*: the duration of a trip, with the pace of yellow cabs by time and place, and with their trees;
- *fares*: what a trip costs, with the same, in the same month;
- *bike demand*: rides of an hour in Jersey City, with how busy cabs are by weekday and hour;
- *bike durations*: with the pace of cabs by weekday and hour. Places across the river are no places of cabs, and
  bikes do not wait in the cabs' traffic: here nothing should be expected.

PTKs are trained on yellow trips before the task's test rows; where a task's own rows are of the same days, trips
that begin in the same second are left out. Task rows and test rows come in the order of time: the last month tests
and the two before are the task's own (three weeks and the rest of the month for fares).

Epsilon is that of all PTKs of a task together. The non-private PTKs are scikit-learn's `TargetEncoder`, exact
counts and `HistGradientBoostingRegressor`.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import pandas as pd
from _common import arguments, cab_ptks, losses, models, plots, report, trips
from _common.curves import Task, learning_curves
from feature_store import LABEL, PLACE_COLUMNS, TIME_COLUMNS, some

PATHS = {
    "yellow": "yellow cab trips with coordinates (Kaggle NYC Taxi Trip Duration): the PTKs",
    "zones": "table of taxi zones: zone_id, centroid_longitude, centroid_latitude",
    "green": "green cab trips of TLC, three months or more",
    "fares": "cab trips with coordinates and fares, one month",
    "bikes": "Citi Bike trips, three months or more",
}
CAB_PTKS = "4 HistoricalStatistics, TreeFeaturizer"
SQUARED = "squared error of log seconds"


def green_task(yellow: pd.DataFrame, green: pd.DataFrame) -> Task:
    """Durations of green cabs."""
    own, later = last_months(green)
    past = yellow[yellow["time"] < later["time"].min()]
    parts = cab_parts()
    return Task(
        "green cabs", SQUARED, CAB_PTKS, len(past), some(own), some(later), LABEL,
        lambda names: models.Blend(TIME_COLUMNS, [*PLACE_COLUMNS, *names]),
        losses.squared_error, partial(cab_ptks.train, parts, past),
    )  # fmt: skip


def fare_task(yellow: pd.DataFrame, fares: pd.DataFrame) -> Task:
    """Fares of one month, from its third week on, as the log of dollars."""
    start = fares["time"].min().normalize() + pd.Timedelta(days=21)
    own, later = fares[fares["time"] < start], fares[fares["time"] >= start]
    past = yellow[(yellow["time"] < start) & ~yellow["time"].isin(fares["time"])]
    parts = cab_parts()
    return Task(
        "fares", "squared error of log fare", CAB_PTKS, len(past), some(own), some(later), "log_fare",
        lambda names: models.Blend(TIME_COLUMNS, [*PLACE_COLUMNS, *names]),
        losses.squared_error, partial(cab_ptks.train, parts, past),
    )  # fmt: skip


def bike_demand_task(yellow: pd.DataFrame, rides: pd.DataFrame) -> Task:
    """Bike rides of an hour."""
    counted = rides.groupby(rides["time"].dt.floor("h")).size()
    hours = counted.reindex(pd.date_range(counted.index[0], counted.index[-1], freq="h"), fill_value=0)
    table = pd.DataFrame({"time": hours.index, "rides": hours.to_numpy()})
    table["hour"], table["weekday"] = table["time"].dt.hour, table["time"].dt.weekday
    table["weekend_hour"] = table["hour"] + 24 * (table["weekday"] >= 5)
    own, later = last_months(table)
    past = yellow[yellow["time"] < later["time"].min()]
    return Task(
        "bike demand", "Poisson deviance", "HistoricalStatistics: counts by weekday and hour", len(past),
        own, later, "rides", lambda names: models.poisson(["weekday", "weekend_hour"], names),
        losses.poisson_deviance, partial(cab_ptks.train, [cab_ptks.rides_by_time()], past),
    )  # fmt: skip


def bike_duration_task(yellow: pd.DataFrame, rides: pd.DataFrame) -> Task:
    """Durations of bike rides."""
    own, later = last_months(rides)
    past = yellow[yellow["time"] < later["time"].min()]
    return Task(
        "bike durations", SQUARED, "HistoricalStatistics: pace by weekday and hour", len(past),
        some(own), some(later), LABEL,
        lambda names: models.Blend(TIME_COLUMNS, [*PLACE_COLUMNS, "subscriber", "age", *names]),
        losses.squared_error, partial(cab_ptks.train, cab_ptks.statistics(("time",)), past),
    )  # fmt: skip


def cab_parts() -> list[cab_ptks.Part]:
    """Return the PTKs that a task of cab trips subscribes to: half of epsilon each for statistics and trees."""
    return [*cab_ptks.statistics(), cab_ptks.trees()]


def last_months(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the two months before the last, and the last."""
    month = rows["time"].dt.to_period("M")
    months = sorted(month.unique())
    if len(months) < 3:
        raise SystemExit("rows of three months or more are needed")
    return rows[month.isin(months[-3:-1])], rows[month == months[-1]]


def read(asked: Any) -> list[Task]:
    """Return the tasks of the files that were named, or of generated rows."""
    if asked.generated is not None:
        n, zones = asked.generated, trips.Zones.generated()
        yellow = trips.generate(n, zones, 150, 1, "2016-01-01")
        green = trips.generate(n, zones, 90, 2, "2021-01-01", slower=1.2)
        fares = trips.generate(n, zones, 31, 3, "2016-01-01")
        rides = trips.generate_bikes(n, 90, 4, "2018-01-01")
    else:
        if asked.yellow is None or asked.zones is None:
            raise SystemExit("--yellow and --zones are needed")
        zones = trips.Zones.load(asked.zones)
        yellow = trips.load(asked.yellow, zones)
        green, fares = (None if p is None else trips.load(p, zones) for p in (asked.green, asked.fares))
        rides = None if asked.bikes is None else trips.load_bikes(asked.bikes)
    found = [
        (green_task, green),
        (fare_task, fares),
        (bike_demand_task, rides),
        (bike_duration_task, rides),
    ]
    return [task(yellow, rows) for task, rows in found if rows is not None]


def main(argv: list[str] | None = None) -> int:
    """Measure the tasks whose files are given; print tables, save a plot and the numbers."""
    asked = arguments.checked(arguments.parser(__doc__, PATHS), argv, PATHS)
    curves = []
    for task in read(asked):
        curves.append(learning_curves(task, asked.epsilons, asked.fractions, asked.seeds))
        print(report.table(curves[-1]), flush=True)
    plots.save_curves(curves, asked.out / "sharing.svg")
    report.save(curves, asked.out / "sharing.json")
    print(f"written: {asked.out / 'sharing.svg'}, {asked.out / 'sharing.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
