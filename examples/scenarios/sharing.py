"""Scenario 2, sharing: what cabs know starts tasks that have little data of their own.

A transport company runs yellow cabs. Newer services subscribe to the cabs' PTKs and predict with few rows of
their own:

- *green cabs*: the duration of a trip, with the pace of yellow cabs by time and place;
- *fares*: what a trip costs, with the same, in the same month;
- *bike durations*: with the pace of cabs by weekday, hour and distance. Places across the river are no places of cabs,
  and bikes do not wait in the cabs' traffic: here nothing should be expected;
- *bike demand*: rides of an hour in Jersey City, with how busy cabs are by weekday and hour;
- *bike destinations*: at which of some fifty stations a ride ends, with where cabs go: the PTK paper's task of
  Figure 5(b). Its 465 stations stood among the cabs; these stand across the river. So the same task is also
  given trees of the bike service's own earlier rides.

The first three have a panel each for PTKs of statistics, of trees, and of both with half of epsilon each.

PTKs are trained on yellow trips before the task's test rows; where a task's own rows are of the same days, trips
that begin in the same second are left out. Task rows and test rows come in the order of time: the last month tests
and the two before are the task's own (three weeks and the rest of the month for fares).

Epsilon is that of all PTKs of a task together. `PTKs of no trips` is a control: the same PTKs at epsilon 1, trained
on an empty table, that is on noise alone. What a line gains beyond it was learnt. The non-private PTKs are
scikit-learn's `TargetEncoder`, exact counts, `HistGradientBoostingRegressor` and `RandomForestClassifier`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
from _common import arguments, cab_ptks, destinations, losses, models, runs, trips
from _common.curves import Task
from _common.trips import X_BOUNDS, Y_BOUNDS
from feature_store import LABEL, PLACE_COLUMNS, TIME_COLUMNS, some

PATHS = {
    "yellow": "yellow cab trips with coordinates (Kaggle NYC Taxi Trip Duration): the PTKs",
    "zones": "table of taxi zones: zone_id, centroid_longitude, centroid_latitude",
    "green": "green cab trips of TLC, three months or more",
    "fares": "cab trips with coordinates and fares, one month",
    "bikes": "Citi Bike trips, three months or more",
}
SQUARED = "squared error of log seconds"
NOTHING = "PTKs of no trips"
FIGURES = {"green cabs": "sharing_cabs", "fares": "sharing_cabs"} | dict.fromkeys(
    ("bike demand", "bike durations", "bike destinations"), "sharing_bikes"
)


def _sets(
    statistics: Sequence[cab_ptks.Part], trees: cab_ptks.Part
) -> dict[str, tuple[str, Sequence[cab_ptks.Part]]]:
    counted = f"{len(statistics)} HistoricalStatistics" if len(statistics) > 1 else "HistoricalStatistics"
    return {
        "statistics": (counted, statistics),
        "trees": ("TreeFeaturizer", [trees]),
        "both": (f"{counted}, TreeFeaturizer", cab_ptks.half_each(statistics, [trees])),
    }


CAB_SETS = _sets(cab_ptks.statistics(), cab_ptks.trees())
BIKE_SETS = _sets(cab_ptks.statistics(("time",)), cab_ptks.trees(("log_miles", "hour", "weekday")))


def green_tasks(yellow: pd.DataFrame, green: pd.DataFrame) -> list[Task]:
    """Durations of green cabs."""
    own, later = last_months(green)
    past = yellow[yellow["time"] < later["time"].min()]
    return _tasks("green cabs", SQUARED, past, own, later, LABEL, CAB_SETS)


def fare_tasks(yellow: pd.DataFrame, fares: pd.DataFrame) -> list[Task]:
    """Fares of one month, from its third week on, as the log of dollars."""
    start = fares["time"].min().normalize() + pd.Timedelta(days=21)
    own, later = fares[fares["time"] < start], fares[fares["time"] >= start]
    past = yellow[(yellow["time"] < start) & ~yellow["time"].isin(fares["time"])]
    return _tasks("fares", "squared error of log fare", past, own, later, "log_fare", CAB_SETS)


def bike_duration_tasks(yellow: pd.DataFrame, rides: pd.DataFrame) -> list[Task]:
    """Durations of bike rides."""
    own, later = last_months(rides)
    past = yellow[yellow["time"] < later["time"].min()]
    return _tasks(
        "bike durations", SQUARED, past, own, later, LABEL, BIKE_SETS, numbers=("subscriber", "age")
    )


def bike_demand_tasks(yellow: pd.DataFrame, rides: pd.DataFrame) -> list[Task]:
    """Bike rides of an hour."""
    counted = rides.groupby(rides["time"].dt.floor("h")).size()
    hours = counted.reindex(pd.date_range(counted.index[0], counted.index[-1], freq="h"), fill_value=0)
    table = pd.DataFrame({"time": hours.index, "rides": hours.to_numpy()})
    table["hour"], table["weekday"] = table["time"].dt.hour, table["time"].dt.weekday
    table["weekend_hour"] = table["hour"] + 24 * (table["weekday"] >= 5)
    own, later = last_months(table)
    past = yellow[yellow["time"] < later["time"].min()]
    return [
        Task(
            "bike demand, by statistics", "Poisson deviance", "HistoricalStatistics: counts by weekday and hour",
            len(past), own, later, "rides", lambda names: models.demand(["weekday", "weekend_hour"], names),
            losses.poisson_deviance, partial(cab_ptks.train, [cab_ptks.rides_by_time()], past),
            {NOTHING: partial(cab_ptks.train, [cab_ptks.rides_by_time()], past.head(0), 1.0)},
            group="bike demand", order="time",
        )
    ]  # fmt: skip


def bike_destination_tasks(yellow: pd.DataFrame, rides: pd.DataFrame) -> list[Task]:
    """The station where a bike ride ends, with trees of where cabs go and with trees of where bikes went before."""
    stations = destinations.Stations.of(rides)
    own, later = (stations.to_a_station(part) for part in last_months(rides))
    cabs = stations.nearest(yellow[yellow["time"] < later["time"].min()])
    before = stations.to_a_station(rides[rides["time"] < own["time"].min()])
    city = {"pickup_x": (min(X_BOUNDS[0], stations.box["pickup_x"][0]), X_BOUNDS[1]), "pickup_y": Y_BOUNDS}
    sources = {
        "cabs": ("the station nearest to a cab's end", cabs, city),
        "earlier rides": ("the station where a ride ended", before, stations.box),
    }
    return [
        Task(
            f"bike destinations, by trees of {source}", "log loss", f"TreeFeaturizer: {learnt}, of {len(stations)}",
            len(past), some(own), some(later), destinations.LABEL,
            lambda names: destinations.DestinationModel(
                ["pickup_station", "hour", "weekday"], ["subscriber", "age"], len(stations), names
            ),
            losses.log_loss_of_many, partial(destinations.train, past, len(stations), box),
            {NOTHING: partial(destinations.train, past.head(0), len(stations), box, 1.0)},
            group="bike destinations", order="time",
        )
        for source, (learnt, past, box) in sources.items()
    ]  # fmt: skip


def _tasks(
    group: str,
    loss: str,
    past: pd.DataFrame,
    own: pd.DataFrame,
    later: pd.DataFrame,
    label: str,
    sets: Mapping[str, tuple[str, Sequence[cab_ptks.Part]]],
    numbers: Sequence[str] = (),
) -> list[Task]:
    """One task for each set of PTKs, each with all of epsilon."""
    return [
        Task(
            f"{group}, by {name}", loss, ptk, len(past), some(own), some(later), label,
            lambda names: models.Blend(TIME_COLUMNS, [*PLACE_COLUMNS, *numbers], names),
            losses.squared_error, partial(cab_ptks.train, parts, past),
            {NOTHING: partial(cab_ptks.train, parts, past.head(0), 1.0)}, group=group, order="time",
        )
        for name, (ptk, parts) in sets.items()
    ]  # fmt: skip


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
        rides = trips.generate_bikes(n, 150, 4, "2017-11-01")
    else:
        if asked.yellow is None or asked.zones is None:
            raise SystemExit("--yellow and --zones are needed")
        zones = trips.Zones.load(asked.zones)
        yellow = trips.load(asked.yellow, zones)
        green, fares = (None if p is None else trips.load(p, zones) for p in (asked.green, asked.fares))
        rides = None if asked.bikes is None else trips.load_bikes(asked.bikes)
    found = [
        (green_tasks, green),
        (fare_tasks, fares),
        (bike_duration_tasks, rides),
        (bike_demand_tasks, rides),
        (bike_destination_tasks, rides),
    ]
    return [task for tasks, rows in found if rows is not None for task in tasks(yellow, rows)]


def main(argv: list[str] | None = None) -> int:
    """Measure the tasks whose files are given; print tables, save a plot and the numbers."""
    asked = arguments.checked(arguments.parser(__doc__, PATHS), argv, PATHS)
    return runs.measure("sharing", read(asked), asked, FIGURES)


if __name__ == "__main__":
    sys.exit(main())
