"""Rows for the experiments of the budgeting paper: a pool is the population, and blocks draw from it.

A pool has `ROWS` rows of a file, chosen once. Blocks draw from it with replacement, so the quality of a model on the
whole pool is its true quality. A row has L1 norm 1 at most, by public scales, so that noisy sums of it need little
noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ptklib.arrays import Floats, Ints

ROWS = 5_000


@dataclass(frozen=True)
class Pool:
    """A population.

    Parameters
    ----------
    name : str
    rows : ndarray of shape (n_rows, n_features)
        L1 norm at most 1.
    targets : ndarray of shape (n_rows, n_tasks)
        0 or 1 where tasks are classes, within [-1/2, 1/2] where they are numbers.
    groups : ndarray of shape (n_rows,), int64
        Blocks differ in how often they have each group. Where `in_time`, group g is the g-th span of time, and the task
        is to predict the last.
    """

    name: str
    rows: Floats
    targets: Floats
    groups: Ints
    in_time: bool

    @property
    def n_tasks(self) -> int:
        return self.targets.shape[1]

    @property
    def n_groups(self) -> int:
        return int(self.groups.max()) + 1

    @property
    def judged(self) -> Ints:
        """The rows that quality is about."""
        return np.flatnonzero(self.groups == self.n_groups - 1) if self.in_time else np.arange(len(self.rows))


def digits(path: Path) -> Pool:
    """Ten tasks on images of digits: is it a 0, ..., is it a 9? Features are the darkness of 7 by 7 squares."""
    table = _some(pd.read_parquet(path, columns=["label", "pixels"]))
    images = np.frombuffer(b"".join(table["pixels"]), dtype=np.uint8).reshape(-1, 7, 4, 7, 4)
    label = table["label"].to_numpy(dtype=np.int64)
    return Pool("digits", _scaled(images.mean(axis=(2, 4)).reshape(-1, 49)), _each(label, 10), label, False)


def clicks(path: Path) -> Pool:
    """Nine tasks on ad impressions: is it of group 0, ..., 8 of column cat1? Features are the other columns."""
    table = _some(pd.read_parquet(path))
    label = np.asarray(pd.Categorical(table["cat1"]).codes, dtype=np.int64)
    others = pd.get_dummies(table[["cat4", "cat6", "cat8", "cat9"]].astype(str)).to_numpy(dtype=np.float64)
    features = np.column_stack([others, table["click"].to_numpy(dtype=np.float64)])
    return Pool("clicks", _scaled(features), _each(label, 9), label, False)


def houses(path: Path) -> Pool:
    """The log price of houses in Seattle's county, in ten spans of time."""
    table = pd.read_parquet(path)
    features = {
        "area": np.log(table["sqft_living"] / 2000.0) / 2,
        "grade": (table["grade"] - 7.5) / 5,
        "north": (table["lat"] - 47.5) * 3,
        "view": table["view"] / 4.0,
    }
    price = (np.log(table["price"]) - 11.5) / 3.5
    return _in_time("houses", features, price, pd.to_datetime(table["sale_date"]), 10)


def trips(path: Path) -> Pool:
    """The log duration of green cab trips, by month, in eight months from January 2021 to March 2022."""
    columns = ["pickup_datetime", "trip_distance", "trip_duration", "file_month"]
    table = pd.read_parquet(path, columns=columns)
    plausible = table["trip_duration"].between(60, 9000) & table["trip_distance"].between(0.3, 40)
    table = _some(table[plausible])
    hour = table["pickup_datetime"].dt.hour + table["pickup_datetime"].dt.minute / 60
    weekend = table["pickup_datetime"].dt.dayofweek >= 5
    features = {
        "distance": np.log(table["trip_distance"] / 2.5) / 3,
        "day": -np.cos(2 * np.pi * hour / 24) / 2,
        "afternoon": -np.sin(2 * np.pi * hour / 24) / 2,
        "weekend": weekend.astype(float) / 2,
    }
    target = (np.log(table["trip_duration"]) - 4.0) / 5.2
    month = np.asarray(pd.Categorical(table["file_month"].astype(str)).codes, dtype=np.int64)
    return _numbers("trips", features, target, month)


def generated_classes(n_rows: int = ROWS, seed: int = 0) -> Pool:
    """Ten groups of rows around public centres; says nothing about the world."""
    draws = np.random.default_rng(seed)
    label = draws.integers(0, 10, n_rows)
    centres = draws.gamma(0.6, 1.0, (10, 30))
    return Pool("generated", _scaled(draws.gamma(2.0, 0.3 + centres[label])), _each(label, 10), label, False)


def generated_numbers(n_rows: int = ROWS, seed: int = 0) -> Pool:
    """A number whose relation to four features drifts over ten spans of time; says nothing about the world."""
    draws = np.random.default_rng(seed)
    span = np.sort(draws.integers(0, 10, n_rows))
    features = draws.uniform(-0.5, 0.5, (n_rows, 4))
    weights = np.array([0.4, -0.2, 0.2, 0.1]) + np.outer(span - 9, [-0.06, 0.05, 0.02, -0.03])
    target = 0.5 + (features * weights).sum(axis=1) + 0.02 * (span - 9) + draws.normal(0, 0.05, n_rows)
    columns = {f"x{i}": pd.Series(features[:, i]) for i in range(4)}
    return _numbers("generated drift", columns, pd.Series(target), span)


def _in_time(
    name: str, features: dict[str, pd.Series], target: pd.Series, when: pd.Series, spans: int
) -> Pool:
    days = (when - when.min()).dt.days.to_numpy()
    return _numbers(name, features, target, np.minimum(days * spans // (days.max() + 1), spans - 1))


def _numbers(name: str, features: dict[str, pd.Series], target: pd.Series, groups: Ints) -> Pool:
    """Features of L1 norm 1 at most beside a constant of 1, divided by 2; targets from -1/2 to 1/2."""
    table = np.column_stack([one.to_numpy(dtype=np.float64) for one in features.values()])
    table = table / np.maximum(1.0, np.abs(table).sum(axis=1, keepdims=True))
    rows = np.column_stack([np.ones(len(table)), table]) / 2
    targets = np.clip(target.to_numpy(dtype=np.float64), 0, 1)[:, np.newaxis] - 0.5
    return Pool(name, rows, targets, groups.astype(np.int64), True)


def _scaled(features: Floats) -> Floats:
    """Each row divided by its own sum, so that its L1 norm is 1 or 0."""
    sums = features.sum(axis=1, keepdims=True)
    return np.asarray(features / np.where(sums > 0, sums, 1.0))


def _each(label: Ints, n: int) -> Floats:
    return (label[:, np.newaxis] == np.arange(n)).astype(np.float64)


def _some(table: pd.DataFrame) -> pd.DataFrame:
    """At most `ROWS` rows, the same ones in each run."""
    return table.sample(ROWS, random_state=0) if len(table) > ROWS else table
