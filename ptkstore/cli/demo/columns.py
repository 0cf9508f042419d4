"""The columns of the demo's stream of taxi trips."""

from __future__ import annotations

import calendar
from datetime import date
from typing import Final

import numpy as np
import pyarrow as pa

from ptklib.arrays import Floats, Ints
from ptkstore.application.ingest.event_tables import ARROW
from ptkstore.domain.streams.schemas import ColumnType
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

SCHEMA: Final = pa.schema([(name, ARROW[ColumnType(kind)]) for name, kind in COLUMNS.items()])


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
        NaN and infinities become 0. A trip whose duration is not positive has speed 0. Other nonsense is kept, because
        the PTKs clamp values to their public bounds.
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


def first_day(table: pa.Table) -> date:
    """Return the first day of a file that the demo streams.

    This reads the rows, which a service may never do to learn its windows: the demo plays the operator, who
    knows what period was exported. Files contain stray dates, such as a pickup of 2009 in a file of 2021.
    So this takes the earliest calendar month with at least 1 % of the rows, and in it the first day that is not nearly
    empty. Such a day has at least a tenth of the rows that an even spread over the month would give it.
    """
    if table.num_rows == 0:
        raise InvalidRequest("the file has no trip with a pickup time")
    times = table.column(TIME_COLUMN).to_numpy().astype("datetime64[us]")
    months, sizes = np.unique(times.astype("datetime64[M]"), return_counts=True)
    # a file of more than 100 months has no month with 1 % of the rows: take the fullest then
    month = months[sizes >= min(table.num_rows / 100, int(sizes.max()))][0]
    in_month = times[times.astype("datetime64[M]") == month].astype("datetime64[D]")
    dates, per_day = np.unique(in_month, return_counts=True)
    even = in_month.size / calendar.monthrange(month.item().year, month.item().month)[1]
    first: date = dates[per_day >= even / 10][0].item()
    return first
