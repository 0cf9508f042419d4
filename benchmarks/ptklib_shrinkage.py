"""Means of real trips per group: how much drawing sparse groups to their parents gains on the plain ratio."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.measuring import Row, measured
from ptklib import HistoricalStatistics

DATA = Path(os.environ.get("PTK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
FITS = 20
ZONES, HOURS = {"zone": range(1, 266)}, {"hour": range(24)}
VALUES = {"fare": (0.0, 60.0), "minutes": (0.0, 60.0), "miles": (0.0, 20.0)}
KEYS: dict[str, dict[str, Any]] = {"hour": HOURS, "zone": ZONES, "zone and hour": {**ZONES, **HOURS}}
SIZES = ((3_000, 0.1), (30_000, 0.1), (30_000, 1.0), (300_000, 0.1), (300_000, 1.0))
NOT_WORSE = 1.05
"""1, and what the means of twenty fits vary by."""


def rows() -> list[Row]:
    trips = load_trips()
    if trips is None:
        return []
    found = []
    for name, domains in KEYS.items():
        for n_rows, epsilon in SIZES:
            errors = np.array([_errors(trips, domains, n_rows, epsilon, fit) for fit in range(FITS)])
            ours, plain = errors.mean(axis=0)
            found.append(
                measured(
                    f"shrinkage-{name.replace(' ', '-')}-{n_rows}-{epsilon:g}",
                    f"green cabs per {name}, {n_rows:,} rows, epsilon {epsilon:g}: mean miss of means",
                    unit="% of bounds",
                    ours=100 * ours,
                    against="plain ratio",
                    theirs=100 * plain,
                    judged=ours / plain,
                    goal=NOT_WORSE,
                    direction="min",
                )
            )
    return found


def load_trips() -> pd.DataFrame | None:
    """Return zone, hour, fare, minutes and miles of green cab trips, or None where they are not at hand."""
    path = DATA / "nyc_green_taxi.parquet"
    if not path.exists():
        print(f"shrinkage is skipped: no {path.name} in PTK_DATA", file=sys.stderr)
        return None
    columns = ["pickup_zone_id", "pickup_datetime", "fare_amount", "trip_duration", "trip_distance"]
    trips = pd.read_parquet(path, columns=columns)
    return pd.DataFrame(
        {
            "zone": trips.pickup_zone_id.astype("int64"),
            "hour": trips.pickup_datetime.dt.hour.astype("int64"),
            "fare": trips.fare_amount,
            "minutes": trips.trip_duration / 60,
            "miles": trips.trip_distance,
        }
    )


def _errors(
    trips: pd.DataFrame, domains: dict[str, Any], n_rows: int, epsilon: float, seed: int
) -> list[float]:
    """Return the mean miss over rows and values of the released means and of noisy sum over noisy count."""
    sample = trips.sample(n_rows, random_state=seed)
    keys = list(domains)
    misses = []
    for value, bounds in VALUES.items():
        estimator = HistoricalStatistics(
            keys, [value], domains=domains, bounds={value: bounds}, epsilon=epsilon
        ).fit(sample)
        found = estimator.tables_["statistics"].to_pandas().set_index(keys)
        groups = sample.assign(**{value: sample[value].clip(*bounds)}).groupby(keys)[value]
        true, share = groups.mean(), groups.size() / n_rows
        found = found.loc[true.index]
        middle = sum(bounds) / 2
        centred = found[f"{value}_sum"] - middle * found["count"]
        ratio = (middle + centred / found["count"].clip(lower=1.0)).clip(*bounds)
        misses.append(
            [
                float((np.abs(guess - true) * share).sum() / (bounds[1] - bounds[0]))
                for guess in (found[f"{value}_mean"], ratio)
            ]
        )
    return [float(miss) for miss in np.mean(misses, axis=0)]
