"""Values with their errors as numbers that a template draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640.0, 160.0
LEAST_HEIGHT = 2.0


@dataclass(frozen=True, slots=True)
class Value:
    """One value to draw: from `low` to `high` is where it may be without the noise."""

    name: str
    value: float
    low: float
    high: float
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """One value as drawn: its place, the height of its value, and the span of its error."""

    x: float
    width: float
    y: float
    top: float
    height: float
    label: str


@dataclass(frozen=True, slots=True)
class ValueChart:
    """Values side by side between `bottom` and `top`; `lines` are the heights of a zero and of a target."""

    marks: tuple[Mark, ...]
    top: str
    bottom: str
    zero: float | None
    target: float | None
    first: str
    last: str


def value_chart(values: Sequence[Value], target: float | None = None) -> ValueChart | None:
    """Draw values with their errors on one scale; None without a finite one."""
    values = [one for one in values if all(map(math.isfinite, (one.value, one.low, one.high)))]
    if not values:
        return None
    ends = [*(one.low for one in values), *(one.high for one in values)]
    ends += [] if target is None or not math.isfinite(target) else [target]
    low, high = min(ends), max(ends)
    if 0.0 <= low <= (high - low) * 2 or low <= 0.0 <= high or -(high - low) * 2 <= high <= 0.0:
        low, high = min(low, 0.0), max(high, 0.0)  # near zero: show it
    if high == low:
        low, high = low - 1.0, high + 1.0
    step = WIDTH / max(len(values), 8)

    def place(value: float) -> float:
        return round(HEIGHT * (high - value) / (high - low), 2)

    marks = tuple(
        Mark(
            x=round(number * step + step * 0.15, 2),
            width=round(step * 0.7, 2),
            y=round(min(max(place(one.value) - LEAST_HEIGHT / 2, 0.0), HEIGHT - LEAST_HEIGHT), 2),
            top=place(one.high),
            height=round(max(place(one.low) - place(one.high), 0.0), 2),
            label=one.text,
        )
        for number, one in enumerate(values)
    )
    return ValueChart(
        marks,
        f"{high:.4g}",
        f"{low:.4g}",
        place(0.0) if low <= 0.0 <= high else None,
        None if target is None else place(target),
        values[0].name,
        values[-1].name,
    )
