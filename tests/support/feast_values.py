"""Columns of every type, with values that are hard to keep."""

from datetime import UTC, date, datetime

import pyarrow as pa

MOMENT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


COLUMNS = {
    "big": pa.array([2**53 + 1, None], pa.int64()),
    "small": pa.array([1, 2], pa.uint8()),
    "half": pa.array([0.5, None], pa.float32()),
    "text": pa.array(["é:@", None], pa.large_string()),
    "coded": pa.array(["a", "b"]).dictionary_encode(),
    "flag": pa.array([True, None]),
    "day": pa.array([date(2026, 3, 1), None]),
    "moment": pa.array([MOMENT, None], pa.timestamp("ns", tz="Europe/Berlin")),
    "raw": pa.array([b"\x00\xff", None]),
    "vector": pa.array([[0.5, 0.25], None], pa.list_(pa.float32(), 2)),
    "counts": pa.array([[1, 2], []], pa.large_list(pa.int32())),
    "names": pa.array([["x"], None], pa.list_(pa.string())),
    "nothing": pa.nulls(2),
}
