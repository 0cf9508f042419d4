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
class Tick:
    """A round number on the scale, at its height."""

    y: float
    text: str


@dataclass(frozen=True, slots=True)
class ValueChart:
    """Values side by side on a scale with ticks; `zero` and `target` are heights, `zero` None if it is not drawn."""

    marks: tuple[Mark, ...]
    top: str
    bottom: str
    zero: float | None
    target: float | None
    first: str
    last: str
    ticks: tuple[Tick, ...] = ()


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
        around = max(1.0, abs(low) / 10)  # 1 is lost beside a large number
        low, high = low - around, high + around
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
        tuple(Tick(place(one), f"{one:,.10g}") for one in _round_numbers(low, high)),
    )


def _round_numbers(low: float, high: float) -> list[float]:
    """Three to eight round numbers between two, rising; none where floats are too coarse or too large for them."""
    rough = (high - low) / 5
    if not 1e-300 < rough < math.inf:
        return []
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(one for one in (1, 2, 5, 10) if one * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) + 0.0 for number in range(first, last + 1)]
