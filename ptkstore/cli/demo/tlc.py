"""Reads files of real taxi trips into the columns of the demo's stream.

It knows the monthly files of the New York taxi commission (TLC), yellow and green, also the older ones with
coordinates instead of zones. Columns have their own names (`tpep_pickup_datetime`, `PULocationID`, ...) or snake case
(`pickup_datetime`, `pickup_zone_id`, ...). Letter case does not matter. Only the columns needed are
read.

Odd values are treated so:

- times are wall clocks of the city; the stream takes them as they are and calls them UTC;
- a row without pickup time is left out, as no window could hold it; every other row is kept;
- a missing zone is 264, "unknown" in TLC's table; ids outside 1..265 stay and are dropped by the PTKs, whose
  domains are public;
- a missing or infinite distance or duration is 0; negative and absurd ones stay and are clamped by the PTKs;
- coordinates become cells of a public grid, see `grid_cell`; without a distance, the way is the straight line
  between the two points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ptklib.arrays import Floats, Ints
from ptkstore.cli.demo.columns import OUTSIDE_ZONE, UNKNOWN_ZONE, assemble
from ptkstore.errors import InvalidRequest

_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "pickup time": ("tpep_pickup_datetime", "lpep_pickup_datetime", "pickup_datetime"),
    "dropoff time": ("tpep_dropoff_datetime", "lpep_dropoff_datetime", "dropoff_datetime"),
    "pickup zone": ("PULocationID", "pickup_zone_id"),
    "dropoff zone": ("DOLocationID", "dropoff_zone_id"),
    "distance": ("trip_distance",),
    "pickup longitude": ("pickup_longitude",),
    "pickup latitude": ("pickup_latitude",),
    "dropoff longitude": ("dropoff_longitude",),
    "dropoff latitude": ("dropoff_latitude",),
}
_TIMES: Final = ("pickup time", "dropoff time")
_ZONES: Final = ("pickup zone", "dropoff zone")
_POINTS: Final = ("pickup longitude", "pickup latitude", "dropoff longitude", "dropoff latitude")

GRID_CELLS: Final = 16
GRID_LONGITUDE: Final = (-74.26, -73.70)
GRID_LATITUDE: Final = (40.49, 40.92)
_EARTH_RADIUS_MILES: Final = 3958.8


def load(path: str | Path) -> pa.Table:
    """Read a Parquet file of trips into exactly the columns of the stream.

    Raises
    ------
    InvalidRequest
        When the file is no readable Parquet file or lacks columns; the message lists what was looked for.
    """
    file = Path(path)
    try:
        names = pq.read_schema(file).names
        by_role = _match(names)
        _check(by_role, names, file)
        table = pq.read_table(file, columns=list(by_role.values()), partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise InvalidRequest(f"{file} cannot be read as a Parquet file ({type(error).__name__})") from None
    columns = {role: table.column(name) for role, name in by_role.items()}
    for role in _TIMES:
        if not pa.types.is_timestamp(columns[role].type):
            raise InvalidRequest(
                f"column {by_role[role]!r} of {file} must hold timestamps, not {columns[role].type}"
            )
    has_pickup = pc.is_valid(columns["pickup time"])
    columns = {role: column.filter(has_pickup) for role, column in columns.items()}
    numbers = {role: _floats(column, by_role[role]) for role, column in columns.items() if role not in _TIMES}

    pickup_us, dropoff_us = (_wall_clock(columns[role]) for role in _TIMES)
    duration = (dropoff_us - pickup_us) / 1e6
    if set(_ZONES) <= by_role.keys():
        pickup_zone, dropoff_zone = (_zone(numbers[role]) for role in _ZONES)
    else:
        pickup_zone = grid_cell(numbers["pickup longitude"], numbers["pickup latitude"])
        dropoff_zone = grid_cell(numbers["dropoff longitude"], numbers["dropoff latitude"])
    distance = (
        numbers["distance"] if "distance" in by_role else straight_miles(*(numbers[role] for role in _POINTS))
    )
    return assemble(
        _wall_clock(columns["pickup time"]).astype(np.int64), pickup_zone, dropoff_zone, distance, duration
    )


def grid_cell(longitude: Floats, latitude: Floats) -> Ints:
    """Name places by a grid of 16 by 16 cells over the city's bounding box.

    The box is public: longitude -74.26 to -73.70, latitude 40.49 to 40.92. Cells are numbered 1 to 256, from the
    south-west corner eastwards, then northwards. A place outside the box is 265 and one without coordinates 264, as in
    TLC's table of zones.
    """
    is_finite = np.isfinite(longitude) & np.isfinite(latitude)
    column = _step(np.where(is_finite, longitude, GRID_LONGITUDE[0]), GRID_LONGITUDE)
    row = _step(np.where(is_finite, latitude, GRID_LATITUDE[0]), GRID_LATITUDE)
    inside = (column >= 0) & (column < GRID_CELLS) & (row >= 0) & (row < GRID_CELLS)
    cell = np.where(inside, 1 + GRID_CELLS * row + column, OUTSIDE_ZONE)
    return np.where(is_finite, cell, UNKNOWN_ZONE).astype(np.int64)


def straight_miles(
    longitude_a: Floats, latitude_a: Floats, longitude_b: Floats, latitude_b: Floats
) -> Floats:
    """Great-circle distance (haversine): a lower bound of the way driven."""
    phi_a, phi_b = np.radians(latitude_a), np.radians(latitude_b)
    half_turn = np.sin(np.radians(longitude_b - longitude_a) / 2) ** 2
    chord = np.sin((phi_b - phi_a) / 2) ** 2 + np.cos(phi_a) * np.cos(phi_b) * half_turn
    miles: Floats = 2 * _EARTH_RADIUS_MILES * np.arcsin(np.sqrt(np.clip(chord, 0.0, 1.0)))
    return miles


def _match(names: Sequence[str]) -> dict[str, str]:
    """Role to the column that plays it."""
    by_lower = {name.lower(): name for name in reversed(names)}
    return {
        role: next(by_lower[c.lower()] for c in candidates if c.lower() in by_lower)
        for role, candidates in _NAMES.items()
        if any(c.lower() in by_lower for c in candidates)
    }


def _check(by_role: Mapping[str, str], names: Sequence[str], file: Path) -> None:
    has_points = set(_POINTS) <= by_role.keys()
    lacking = [role for role in _TIMES if role not in by_role]
    if not has_points:
        lacking += [role for role in (*_ZONES, "distance") if role not in by_role]
    if lacking:
        wanted = "; ".join(f"{role}: {' or '.join(_NAMES[role])}" for role in lacking)
        raise InvalidRequest(
            f"{file} is no file of trips known here. Looked for {wanted}. Pickup and dropoff coordinates "
            f"({', '.join(_NAMES[role][0] for role in _POINTS)}) can stand for zones and distance. "
            f"The file has: {', '.join(names[:40])}"
        )


def _wall_clock(column: pa.ChunkedArray) -> Floats:
    """Microseconds since 1970 on the local clock, NaN where unknown; float64 is exact for 285 years."""
    if column.type.tz is not None:
        column = pc.local_timestamp(column)
    micros = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64()).cast(pa.float64())
    return _floats(micros, "time")


def _floats(column: pa.ChunkedArray, name: str) -> Floats:
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InvalidRequest(f"column {name!r} must hold numbers, not {column.type}")
    values: Floats = column.cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
    return values


def _zone(values: Floats) -> Ints:
    usable = np.isfinite(values) & (np.abs(values) < 2**53)
    return np.where(usable, values, UNKNOWN_ZONE).astype(np.int64)


def _step(values: Floats, interval: tuple[float, float]) -> Floats:
    low, high = interval
    return np.floor((values - low) / (high - low) * GRID_CELLS)
