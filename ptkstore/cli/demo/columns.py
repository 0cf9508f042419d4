"""The columns of the demo's stream of taxi trips."""

from __future__ import annotations

import calendar
from datetime import date, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ptklib.arrays import Floats, Ints
from ptkstore.errors import InvalidRequest

TIME_COLUMN: Final = "pickup_time"

COLUMNS: Final[dict[str, str]] = {
    TIME_COLUMN: "timestamp",
    "pickup_zone_id": "int64",
    "dropoff_zone_id": "int64",
    "hour": "int64",
    "distance_miles": "float64",
    "duration_seconds": "float64",
    "speed_mph": "float64",
    "long_trip": "bool",
}
"""Name to type, as ``ptk stream create --schema`` takes them."""

LONG_TRIP_SECONDS: Final = 15 * 60.0
UNKNOWN_ZONE: Final = 264
"""The id of TLC's zone table for a place nobody knows."""
OUTSIDE_ZONE: Final = 265
"""The id of TLC's zone table for a place outside the city."""

_ARROW: Final[dict[str, Any]] = {
    "timestamp": pa.timestamp("us", tz="UTC"),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
}
SCHEMA: Final = pa.schema([(name, _ARROW[kind]) for name, kind in COLUMNS.items()])


def assemble(
    pickup_us: Ints,
    pickup_zone: Ints,
    dropoff_zone: Ints,
    distance_miles: Floats,
    duration_seconds: Floats,
) -> pa.Table:
    """Build a table of the stream from what was measured; hour, speed and length class are derived.

    Parameters
    ----------
    pickup_us : ndarray of int64
        Microseconds since 1970 of the local clock at pickup. The stream calls it UTC: windows are then the
        city's days.
    distance_miles, duration_seconds : ndarray of float64
        NaN and infinities become 0. A trip whose duration is not positive has speed 0; other nonsense is
        kept,
        because the PTKs clamp values to their public bounds.
    """
    distance = np.where(np.isfinite(distance_miles), distance_miles, 0.0)
    duration = np.where(np.isfinite(duration_seconds), duration_seconds, 0.0)
    moved = duration > 0
    speed = np.divide(distance * 3600.0, duration, out=np.zeros_like(distance), where=moved)
    values = {
        TIME_COLUMN: pickup_us,
        "pickup_zone_id": pickup_zone,
        "dropoff_zone_id": dropoff_zone,
        "hour": pickup_us // 3_600_000_000 % 24,
        "distance_miles": distance,
        "duration_seconds": duration,
        "speed_mph": np.where(np.isfinite(speed), speed, 0.0),
        "long_trip": duration > LONG_TRIP_SECONDS,
    }
    return pa.table([pa.array(values[f.name], type=f.type) for f in SCHEMA], schema=SCHEMA)


def period(table: pa.Table, days: int = 5) -> tuple[date, int]:
    """Say which days of a file the demo streams: the first day, and how many from there.

    This reads the rows, which a service may never do to learn its windows: the demo plays the operator, who
    knows what period was exported. Files hold stray dates (a pickup of 2009 in a file of 2021), hence the
    earliest calendar month with at least 1 % of the rows, and in it the first day that is not nearly empty:
    it has at least a tenth of the rows that an even spread over the month would give it. `days` days follow,
    or fewer where the last such month ends earlier.
    """
    if days < 1:
        raise InvalidRequest("the demo needs at least one day")
    if table.num_rows == 0:
        raise InvalidRequest("the file holds no trip with a pickup time")
    times = table.column(TIME_COLUMN).to_numpy().astype("datetime64[us]")
    months, sizes = np.unique(times.astype("datetime64[M]"), return_counts=True)
    # a file of more than 100 months has no month with 1 % of the rows: take the fullest then
    threshold = min(table.num_rows / 100, int(sizes.max()))
    plausible = months[sizes >= threshold]
    first_month, last_month = plausible[0].item(), plausible[-1].item()
    in_first = times[times.astype("datetime64[M]") == plausible[0]].astype("datetime64[D]")
    dates, per_day = np.unique(in_first, return_counts=True)
    even = in_first.size / calendar.monthrange(first_month.year, first_month.month)[1]
    first: date = dates[per_day >= even / 10][0].item()
    month_end = last_month.replace(day=calendar.monthrange(last_month.year, last_month.month)[1])
    return first, min(days, (month_end - first + timedelta(days=1)).days)
