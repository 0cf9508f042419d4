"""Cab and bike trips: the public originals and a generated stand-in, in one set of columns.

Columns of a trip: ``time``, ``hour``, ``weekday`` (0 Monday), ``pickup_x``, ``pickup_y``, ``dropoff_x``,
``dropoff_y`` (longitude and latitude), ``pickup_zone``, ``dropoff_zone`` (TLC's numbers), ``pickup_cell``,
``dropoff_cell`` (of a public grid), ``east`` and ``north`` (how far the dropoff lies there), ``log_miles``
(straight line plus .3 miles), ``log_seconds``, ``pace`` (their difference: log seconds per mile) and, where the
file has it, ``log_fare``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from scipy.spatial import cKDTree

from ptklib.arrays import Floats, Ints

# Public parameters: the city's box, and paces from 60 miles an hour to walking, 3 miles an hour.
X_BOUNDS, Y_BOUNDS = (-74.05, -73.75), (40.6, 40.9)
CELLS = 6  # a side: cells of about 2.6 by 3.5 miles
ZONES = tuple(range(1, 266))
PACE_BOUNDS = (4.1, 7.1)  # log seconds per mile
SECONDS = (60.0, 9000.0)
MILES_MAX = 40.0
_MILES_PER_DEGREE = 69.0
_WEST_EAST = 0.76  # cosine of New York's latitude

_TIMES = ("pickup_datetime", "tpep_pickup_datetime", "lpep_pickup_datetime")
_ENDS = ("dropoff_datetime", "tpep_dropoff_datetime", "lpep_dropoff_datetime")
_ZONE_NAMES = {"pickup": ("pickup_zone_id", "PULocationID"), "dropoff": ("dropoff_zone_id", "DOLocationID")}
_FARES = ("fare", "fare_amount")


@dataclass(frozen=True)
class Zones:
    """TLC's taxi zones by centroid: column ``zone_id`` and a place for each."""

    ids: Ints
    x: Floats
    y: Floats

    @classmethod
    def load(cls, path: Path) -> Zones:
        """Read a Parquet table of ``zone_id``, ``centroid_longitude``, ``centroid_latitude``."""
        table = pd.read_parquet(path).dropna(subset=["centroid_longitude", "centroid_latitude"])
        return cls(
            table["zone_id"].to_numpy(dtype=np.int64),
            table["centroid_longitude"].to_numpy(dtype=np.float64),
            table["centroid_latitude"].to_numpy(dtype=np.float64),
        )

    @classmethod
    def generated(cls) -> Zones:
        """Make up 263 zones in the city's box."""
        rng = np.random.default_rng(1811)
        return cls(np.arange(1, 264), rng.uniform(-74.02, -73.78, 263), rng.uniform(40.63, 40.87, 263))

    def nearest(self, x: Floats, y: Floats) -> Ints:
        """Name the zone whose centroid is nearest."""
        places = cKDTree(np.column_stack([self.x * _WEST_EAST, self.y]))
        found: Ints = self.ids[places.query(np.column_stack([x * _WEST_EAST, y]))[1]]
        return found

    def places(self, ids: Ints) -> tuple[Floats, Floats]:
        """Return the centroids of zones, NaN for those without."""
        x, y = np.full(ZONES[-1] + 1, np.nan), np.full(ZONES[-1] + 1, np.nan)
        x[self.ids], y[self.ids] = self.x, self.y
        known = np.where((ids >= 1) & (ids <= ZONES[-1]), ids, 0)
        return x[known], y[known]


def load(path: Path, zones: Zones) -> pd.DataFrame:
    """Read a Parquet file of cab trips with coordinates, or with zones as TLC publishes them since 2016.

    Rows of implausible duration or distance, without place, or dated outside the months the file mostly holds are
    left out; the others come in the order of pickup.
    """
    names = pq.read_schema(path).names
    time, end = _one_of(_TIMES, names, path), _one_of(_ENDS, names, path)
    points = [f"{side}_{axis}" for side in _ZONE_NAMES for axis in ("longitude", "latitude")]
    wanted = {"time": time, "end": end}
    by_points = set(points) <= set(names)
    wanted |= dict(zip(points, points, strict=True)) if by_points else {
        side: _one_of(_ZONE_NAMES[side], names, path) for side in _ZONE_NAMES
    }  # fmt: skip
    wanted |= dict(zip(("fare",), (name for name in _FARES if name in names), strict=False))
    table = pd.read_parquet(path, columns=list(wanted.values())).set_axis(list(wanted), axis=1)
    trips = pd.DataFrame({"time": table["time"]})
    for side in _ZONE_NAMES:
        if by_points:
            x, y = (table[f"{side}_{a}"].to_numpy(dtype=np.float64) for a in ("longitude", "latitude"))
            zone = zones.nearest(np.nan_to_num(x), np.nan_to_num(y))
        else:
            zone = table[side].fillna(0).to_numpy(dtype=np.int64)
            x, y = zones.places(zone)
        trips[f"{side}_zone"], trips[f"{side}_x"], trips[f"{side}_y"] = zone, x, y
    seconds = (table["end"] - table["time"]).dt.total_seconds().to_numpy()
    return _finished(trips, seconds, table["fare"].to_numpy() if "fare" in table else None)


def load_bikes(path: Path) -> pd.DataFrame:
    """Read a Parquet file of Citi Bike trips into the columns of a trip, without zones and cells.

    Further columns: ``pickup_station``, ``dropoff_station``, ``subscriber`` (0 or 1) and ``age`` (in years, NaN where
    unknown).
    """
    points = [
        f"{side}_station_{axis}" for side in ("start", "end") for axis in ("longitude", "latitude", "id")
    ]
    columns = ["start_time", "trip_duration", "user_type", "birth_year", *points]
    names = {"starttime": "start_time", "tripduration": "trip_duration", "usertype": "user_type"}
    found = {names.get(n, n): n for n in (name for name in pq.read_schema(path).names)}
    missing = [column for column in columns if column not in found]
    if missing:
        raise SystemExit(f"{path} is no file of bike trips known here: it lacks {', '.join(missing)}")
    table = pd.read_parquet(path, columns=[found[c] for c in columns]).set_axis(columns, axis=1)
    rides = pd.DataFrame({"time": table["start_time"]})
    for side, end in (("pickup", "start"), ("dropoff", "end")):
        rides[f"{side}_x"] = table[f"{end}_station_longitude"].to_numpy(dtype=np.float64)
        rides[f"{side}_y"] = table[f"{end}_station_latitude"].to_numpy(dtype=np.float64)
        rides[f"{side}_station"] = table[f"{end}_station_id"].to_numpy(dtype=np.int64)
    rides["subscriber"] = (table["user_type"] == "Subscriber").astype(np.int64)
    rides["age"] = table["start_time"].dt.year - table["birth_year"]
    return _finished(rides, table["trip_duration"].to_numpy(dtype=np.float64), None)


def generate_bikes(n_rows: int, days: int, seed: int, start: str) -> pd.DataFrame:
    """Make up bike trips across the river: short, more of them in commuting hours, fewer at weekends."""
    zones = Zones(np.arange(1, 41), *np.random.default_rng(1814).uniform(0, 0.03, (2, 40)))
    rides = generate(
        3 * n_rows, Zones(zones.ids, zones.x - 74.06, zones.y + 40.71), days, seed, start, slower=1.5
    )
    rng = np.random.default_rng(seed)
    busy = 0.2 + np.exp(-((rides["hour"] - 8.5) ** 2) / 4) + np.exp(-((rides["hour"] - 18) ** 2) / 6)
    busy *= np.where(rides["weekday"] < 5, 1.0, 0.5)
    kept = rides[rng.random(len(rides)) < busy / busy.max()].head(n_rows)
    stations = {f"{side}_station": kept[f"{side}_zone"] for side in _ZONE_NAMES}
    people = {"subscriber": rng.integers(0, 2, len(kept)), "age": rng.integers(18, 70, len(kept)) * 1.0}
    return kept.assign(**stations, **people)


def generate(
    n_rows: int, zones: Zones, days: int, seed: int, start: str, slower: float = 1.0
) -> pd.DataFrame:
    """Make up trips between zones: slower in rush hours and in the centre, with a log-normal spread."""
    rng = np.random.default_rng(seed)
    popular = np.random.default_rng(1812).lognormal(0.0, 1.0, len(zones.ids))
    slow = np.random.default_rng(1813).lognormal(0.0, 0.25, len(zones.ids)) * slower
    trips = pd.DataFrame(
        {"time": pd.Timestamp(start) + pd.to_timedelta(rng.uniform(0, days * 86400, n_rows), "s")}
    )
    ends = {s: rng.choice(len(zones.ids), n_rows, p=popular / popular.sum()) for s in _ZONE_NAMES}
    for side, at in ends.items():
        trips[f"{side}_zone"] = zones.ids[at]
        trips[f"{side}_x"], trips[f"{side}_y"] = zones.x[at], zones.y[at]
    hour = trips["time"].dt.hour.to_numpy()
    rush = 1 + 0.4 * np.exp(-((hour - 8.5) ** 2) / 6) + 0.5 * np.exp(-((hour - 17.5) ** 2) / 8)
    pace = 300 * rush * np.sqrt(slow[ends["pickup"]] * slow[ends["dropoff"]]) * rng.lognormal(0, 0.25, n_rows)
    miles = _miles(trips) + 0.3
    return _finished(trips, pace * miles**0.85, 3 + 2.5 * miles + 0.005 * pace * miles)


def _finished(trips: pd.DataFrame, seconds: Floats, fare: Floats | None) -> pd.DataFrame:
    miles = _miles(trips)
    kept = (seconds >= SECONDS[0]) & (seconds <= SECONDS[1]) & np.isfinite(miles) & (miles <= MILES_MAX)
    month = trips["time"].dt.to_period("M")
    kept &= month.map(month.value_counts()).to_numpy() > len(trips) * 1e-3
    if fare is not None:
        kept &= (fare >= 2.5) & (fare <= 250)
    trips = trips.assign(
        hour=trips["time"].dt.hour.astype(np.int64),
        weekday=trips["time"].dt.weekday.astype(np.int64),
        east=(trips["dropoff_x"] - trips["pickup_x"]) * _WEST_EAST,
        north=trips["dropoff_y"] - trips["pickup_y"],
        log_miles=np.log(miles + 0.3),
        log_seconds=np.log(np.maximum(seconds, 1.0)),
        **{f"{s}_cell": cell_of(trips[f"{s}_x"].to_numpy(), trips[f"{s}_y"].to_numpy()) for s in _ZONE_NAMES},
    )
    trips["pace"] = trips["log_seconds"] - trips["log_miles"]
    if fare is not None:
        trips["log_fare"] = np.log(np.maximum(fare, 1.0))
    return trips[kept].sort_values("time", kind="stable").reset_index(drop=True)


def _miles(trips: pd.DataFrame) -> Floats:
    west_east = (trips["dropoff_x"] - trips["pickup_x"]) * _WEST_EAST
    distance: Floats = np.hypot(west_east, trips["dropoff_y"] - trips["pickup_y"]).to_numpy(dtype=np.float64)
    return distance * _MILES_PER_DEGREE


def cell_of(x: Floats, y: Floats) -> Ints:
    """Name the cell of the public grid that a place lies in, or is nearest to."""
    steps = [
        np.clip(np.nan_to_num((v - low) / (high - low)) * CELLS, 0, CELLS - 1).astype(np.int64)
        for v, (low, high) in ((x, X_BOUNDS), (y, Y_BOUNDS))
    ]
    return np.asarray(steps[0] * CELLS + steps[1])


def _one_of(candidates: tuple[str, ...], names: list[str], path: Path) -> str:
    found = [name for name in candidates if name in names]
    if not found:
        raise SystemExit(f"{path} is no file of trips known here: it has none of {', '.join(candidates)}")
    return found[0]
