"""Populations: pools of rows from which samples are drawn with replacement, so that expected losses are exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from _common import clicks, trips
from ptklib.arrays import Floats, Ints

MILES = (0.8, 1.05, 1.3, 1.8, 2.3, 2.8, 3.3, 4.3, 5.3, 6.3, 8.3, 10.3, 13.3, 16.3, 20.3)
SECONDS_MOST = 9000.0
SPEEDS = (0.0, 40.0)
PRICES = (30.0, 6000.0)
SIDE, CELL = 28, 4


@dataclass(frozen=True)
class Population:
    """Rows of features and a label in [0, 1].

    Parameters
    ----------
    features : ndarray of shape (n, p), float32
        Within [0, 1].
    label : ndarray of shape (n,), float64
        Within [0, 1]; a class number where the label is a class.
    norm : float
        Public bound of the norm of a row of features: the root of the number of categories that were made indicators.
    keys : mapping of str to ndarray of shape (n,), int64
        Public keys of rows, from 0.
    categories : mapping of str to int
        The keys whose indicators the features are, and how many values each has; empty if they are numbers.
    """

    name: str
    features: npt.NDArray[np.float32]
    label: Floats
    norm: float
    keys: dict[str, Ints]
    categories: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.label)

    @property
    def columns(self) -> list[str]:
        """Names of the features."""
        return [f"f{i}" for i in range(self.features.shape[1])]


def of_trips(rows: pd.DataFrame) -> Population:
    """Return trips with their duration in parts of 9000 s; indicators of hour, weekday and distance."""
    distance = np.searchsorted(np.log(MILES), rows["log_miles"])
    hour, weekday = rows["hour"].to_numpy(), rows["weekday"].to_numpy()
    sizes = {"hour": 24, "weekday": 7, "distance": len(MILES) + 1}
    seconds = np.exp(rows["log_seconds"].to_numpy())
    keys = {
        "hour": hour,
        "weekday": weekday,
        "distance": distance,
        "week": (rows["time"].dt.day.to_numpy() - 1) // 7,
        "cell": (distance * 24 + hour) * 7 + weekday,
    }
    return Population(
        "taxi trips",
        indicators([keys[name] for name in sizes], list(sizes.values())),
        seconds / SECONDS_MOST,
        len(sizes) ** 0.5,
        keys,
        sizes,
    )


def speeds(rows: pd.DataFrame) -> Floats:
    """Return miles an hour along the straight line, within `SPEEDS`."""
    return np.asarray(np.clip(3600 * np.exp(rows["log_miles"] - rows["log_seconds"]), *SPEEDS))


def of_clicks(found: clicks.Clicks) -> Population:
    """Return impressions with their click; indicators of the categories, the 50 most frequent values of each."""
    codes, sizes = {}, {}
    for name in found.categories:
        common = found.rows[name].value_counts().index[:50]
        codes[name] = pd.Categorical(found.rows[name], categories=common).codes.astype(np.int64) + 1
        sizes[name] = len(common) + 1
    features = indicators(list(codes.values()), list(sizes.values()))
    label = found.rows[clicks.LABEL].to_numpy(dtype=np.float64)
    return Population("ad clicks", features, label, len(sizes) ** 0.5, codes, sizes)


def load_houses(path: Path) -> Population:
    """Read the Beijing sales: the log price between public bounds, and ten columns in public ranges."""
    table = pd.read_parquet(path)
    ranges = {
        "square_m": (0, 200), "living_rooms": (0, 6), "drawing_rooms": (0, 4), "bath_rooms": (0, 4),
        "floors": (0, 40), "construction_year": (1970, 2016), "ladder_ratio": (0, 1),
    }  # fmt: skip
    columns = [_scaled(table[name], *between) for name, between in ranges.items()]
    columns += [table[name].to_numpy(dtype=np.float64) for name in ("elevator", "subway")]
    away = np.hypot((table["longitude"] - 116.4) * 0.77, table["latitude"] - 39.92)
    columns.append(_scaled(away, 0, 0.4))
    features = np.column_stack(columns).astype(np.float32)
    label = _scaled(np.log(table["total_price_wan"]), *np.log(PRICES))
    return Population("house prices", features, label, len(columns) ** 0.5, {})


def load_digits(path: Path) -> Population:
    """Read the digits: 49 means of 4 by 4 pixels, and the digit."""
    table = pd.read_parquet(path)
    pixels = np.frombuffer(b"".join(table["pixels"]), dtype=np.uint8).reshape(-1, SIDE, SIDE)
    side = SIDE // CELL
    means = pixels.reshape(-1, side, CELL, side, CELL).mean(axis=(2, 4)) / 255
    digit = table["label"].to_numpy(dtype=np.int64)
    features = means.reshape(-1, side * side).astype(np.float32)
    return Population("digits", features, digit.astype(np.float64), float(side), {"digit": digit})


def indicators(codes: Sequence[Any], sizes: Sequence[int]) -> npt.NDArray[np.float32]:
    """Return one column for each value of each category."""
    found = np.zeros((len(codes[0]), sum(sizes)), dtype=np.float32)
    start = 0
    for code, size in zip(codes, sizes, strict=True):
        found[np.arange(len(found)), start + np.asarray(code)] = 1
        start += size
    return found


def generated_trips(n_rows: int) -> pd.DataFrame:
    """Make up trips."""
    return trips.generate(n_rows, trips.Zones.generated(), 60, 1, "2016-01-01")


def _scaled(values: Any, low: float, high: float) -> Floats:
    return np.clip((np.asarray(values, dtype=np.float64) - low) / (high - low), 0.0, 1.0)
