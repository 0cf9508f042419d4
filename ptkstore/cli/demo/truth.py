"""Computes true values from the demo's own input, to show how far the released ones are off.

They have no privacy protection: they go into the demo's report and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ptklib import HistoricalStatistics
from ptklib.arrays import Floats
from ptkstore.cli.demo.columns import OUTSIDE_ZONE, TIME_COLUMN
from ptkstore.cli.demo.records import ErrorPoint, Lookup
from ptkstore.errors import InvalidRequest

__all__ = ["error_by_epsilon", "true_values"]

Rows = Mapping[str, npt.NDArray[Any]]

EPSILONS: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
REPETITIONS: Final = 20
_SPEED: Final = "speed_mph"
_SPEED_BOUNDS: Final = (0.0, 60.0)
_GROUPINGS: Final = (
    ("hour", "by hour of day", range(24)),
    ("pickup_zone_id", "by pickup zone", range(1, OUTSIDE_ZONE + 1)),
)


def true_values(
    table: pa.Table,
    lookups: Iterable[Lookup],
    *,
    estimator: Mapping[str, Any],
    start: datetime,
    end: datetime,
    train_share: float,
) -> list[Lookup]:
    """Set beside each looked-up value of one PTK what its rows say without noise.

    ``true_value`` is None for features that are no statistic of rows, and for means and shares of none.

    Parameters
    ----------
    estimator : mapping
        Spec of the PTK's estimator: its public bounds, to which values are clamped, and its label.
    start, end : datetime
        Event time ``[start, end)`` of the windows that contribute to the version looked up.
    train_share : float
        Public share of the hash range that the PTK was trained on.

    Notes
    -----
    Taken over **all** rows of the windows. The released state knows only those that the keyed hash put into
    the granted train part. So its counts and sums estimate ``train_share`` times the true ones, and are compared with
    that. Means and shares estimate the true ones as they are. In both, the luck of the split remains:
    about ``sqrt(n * share * (1 - share))`` rows for a count.
    """
    if not 0 < train_share <= 1:
        raise InvalidRequest("the train share must be in (0, 1]")
    rows = _rows_between(table, start, end)
    params = estimator["params"]
    return [replace(lookup, true_value=_true_value(rows, lookup, params, train_share)) for lookup in lookups]


def error_by_epsilon(
    table: pa.Table, epsilons: Sequence[float] = EPSILONS, repetitions: int = REPETITIONS
) -> list[ErrorPoint]:
    """Measure the error of counts and mean speeds at several epsilons by releasing them again and again.

    Spends nothing of any block: the rows are the demo's own input, and the results go into its report. The
    error of a group is the distance between the released value and the one of the same rows without noise. The
    mean over groups weighs each by its number of trips. Speeds are clamped to 0..60 mph in both. Exact sums are
    taken once, as one estimator's partial statistics serve every epsilon.
    """
    points = []
    for key, title, domain in _GROUPINGS:
        counts, means = _exact(table, key, domain)
        weights = counts / max(1, counts.sum())
        parts = [_statistics(key, domain, epsilons[0]).partial_statistics(table)]
        for epsilon in epsilons:
            off = [
                _released(_statistics(key, domain, epsilon).finalize(parts), counts, means)
                for _ in range(repetitions)
            ]
            speed, trips = np.array([[weights @ error for error in errors] for errors in off]).T
            points.append(_point(epsilon, f"mean speed {title}", "mph", speed))
            if key == "hour":  # a count's noise is the same for every grouping: one curve says it
                points.append(_point(epsilon, "trips in a group", "trips", trips))
    return points


def _rows_between(table: pa.Table, start: datetime, end: datetime) -> Rows:
    if start.tzinfo is not UTC or end.tzinfo is not UTC or start >= end:
        raise InvalidRequest("windows need start < end, both in UTC")
    low, high = (np.datetime64(time.replace(tzinfo=None), "us") for time in (start, end))
    times = table.column(TIME_COLUMN).to_numpy().astype("datetime64[us]")
    inside = (times >= low) & (times < high)
    return {name: table.column(name).to_numpy()[inside] for name in table.column_names if name != TIME_COLUMN}


def _true_value(rows: Rows, lookup: Lookup, params: Mapping[str, Any], train_share: float) -> float | None:
    """Read the feature's name as the PTK families write it."""
    if not set(lookup.entity) <= set(rows):
        return None
    mine = np.ones(len(next(iter(rows.values()))), dtype=bool)
    for key, value in lookup.entity.items():
        mine &= rows[key] == value
    n = int(mine.sum())
    if lookup.feature == "count":
        return n * train_share
    kind, _, label_class = lookup.feature.partition("_")
    label = params.get("label")
    if isinstance(label, str) and label in rows and kind in ("count", "p"):
        hits = sum(_class_name(value) == label_class for value in rows[label][mine].tolist())
        if kind == "count":
            return hits * train_share
        return hits / n if n else None
    column, _, kind = lookup.feature.rpartition("_")
    bounds = _bounds(params.get("bounds"), column)
    if column in rows and bounds is not None and kind in ("sum", "mean"):
        total = float(np.clip(rows[column][mine], *bounds).sum())
        if kind == "sum":
            return total * train_share
        return total / n if n else None
    return None


def _class_name(value: object) -> str:
    """Write a class as `CountFeaturizer` does in names of columns."""
    return str(value).lower() if isinstance(value, bool) else str(value).replace("-", "minus_")


def _bounds(bounds: Any, column: str) -> tuple[float, float] | None:
    pair = bounds.get(column) if isinstance(bounds, Mapping) else bounds
    return None if pair is None else (float(pair[0]), float(pair[1]))


def _statistics(key: str, domain: range, epsilon: float) -> Any:
    return HistoricalStatistics(
        keys=[key],
        values=[_SPEED],
        domains={key: list(domain)},
        bounds={_SPEED: _SPEED_BOUNDS},
        epsilon=epsilon,
    )


def _exact(table: pa.Table, key: str, domain: range) -> tuple[Floats, Floats]:
    codes = table.column(key).to_numpy() - domain.start
    in_domain = (codes >= 0) & (codes < len(domain))
    speeds = np.clip(table.column(_SPEED).to_numpy()[in_domain], *_SPEED_BOUNDS)
    counts = np.bincount(codes[in_domain], minlength=len(domain)).astype(np.float64)
    sums = np.bincount(codes[in_domain], weights=speeds, minlength=len(domain))
    return counts, sums / np.maximum(counts, 1.0)


def _released(state: Any, counts: Floats, means: Floats) -> tuple[Floats, Floats]:
    """Absolute error per group of mean speed and count."""
    (released,) = state.to_state().tables.values()
    mean, count = released.column(f"{_SPEED}_mean").to_numpy(), released.column("count").to_numpy()
    return np.abs(mean - means), np.abs(count - counts)


def _point(epsilon: float, statistic: str, unit: str, errors: Floats) -> ErrorPoint:
    low, high = np.quantile(errors, (0.1, 0.9))
    return ErrorPoint(epsilon, statistic, unit, float(errors.mean()), float(low), float(high))
