"""Bars of budgets and waits as numbers that a template draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ptkstore.domain.scheduling.queues import WaitSpan

WIDTH, MARK = 400, 4
HEIGHT, BAR, GAP, MARGIN = 140, 10, 4, 36
LEAST_WIDTH = 260  # few bars are wider, so that the dates of the first and the last one stand below them


@dataclass(frozen=True, slots=True)
class Bar:
    """One block: heights are in the units of the chart, from its ground up."""

    x: float
    spent: float
    reserved: float
    label: str
    state: str


@dataclass(frozen=True, slots=True)
class BarChart:
    """Blocks side by side; the line above them is what a block may lose."""

    width: float
    bar_width: float
    bars: tuple[Bar, ...]
    capacity: str
    first: str
    last: str

    @property
    def empty(self) -> bool:
        """Whether nothing was lost or promised."""
        return not any(bar.spent or bar.reserved for bar in self.bars)


def budget_chart(rows: Sequence[dict[str, object]]) -> BarChart:
    """Draw spent and reserved shares of the capacity of each row of the budget table."""
    bars = []
    step = max(BAR + GAP, (LEAST_WIDTH - MARGIN - GAP) / max(len(rows), 1))
    for place, row in enumerate(rows):
        capacity = _number(row, "capacity_epsilon")
        spent, reserved = _number(row, "spent_epsilon"), _number(row, "reserved_epsilon")
        whole = max(capacity, spent + reserved, 1e-12)
        bars.append(
            Bar(
                x=round(MARGIN + place * step, 2),
                spent=round(HEIGHT * spent / whole, 2),
                reserved=round(HEIGHT * reserved / whole, 2),
                label=f"{row['label']}: {spent:g} spent, {reserved:g} reserved of {capacity:g}, {row['state']}",
                state=str(row["state"]),
            )
        )
    largest = max((_number(row, "capacity_epsilon") for row in rows), default=0.0)
    places = [str(row.get("place", "")) for row in rows] or [""]
    width = round(MARGIN + max(len(bars), 1) * step + GAP, 2)
    return BarChart(width, round(step - GAP, 2), tuple(bars), f"{largest:g}", places[0], places[-1])


SHARE_WIDTH = 100.0


@dataclass(frozen=True, slots=True)
class ShareBar:
    """How much of one capacity is used, of a width of `SHARE_WIDTH`."""

    spent: float
    reserved: float
    label: str


def share_bar(about: str, spent: float, reserved: float, capacity: float) -> ShareBar:
    """Draw what is spent and reserved of one capacity."""
    whole = max(capacity, spent + reserved, 1e-12)
    label = f"{about}: {spent:g} spent, {reserved:g} reserved of {capacity:g}"
    return ShareBar(round(SHARE_WIDTH * spent / whole, 2), round(SHARE_WIDTH * reserved / whole, 2), label)


@dataclass(frozen=True, slots=True)
class Span:
    """A wait on a line of `WIDTH` from the first wait to now; `marks` are its verdicts: place and decision."""

    x: float
    width: float
    marks: tuple[tuple[float, str], ...]


def wait_chart(waits: Sequence[WaitSpan], now: datetime) -> tuple[Span, ...]:
    """Draw waits on one scale of time. One of which nothing says when it ended goes to its last verdict."""
    first = min((one.since for one in waits), default=now)
    seconds = max((now - first).total_seconds(), 1.0)

    def place(at: datetime) -> float:
        return round(WIDTH * min(max((at - first).total_seconds() / seconds, 0.0), 1.0), 2)

    spans = []
    for one in waits:
        last = one.verdicts[-1][0] if one.verdicts else one.since
        end = now if one.end is None else one.until or last
        x = place(one.since)
        marks = tuple((min(place(at), WIDTH - MARK), decision) for at, decision in one.verdicts)
        spans.append(Span(x, max(place(end) - x, 1.0), marks))
    return tuple(spans)


def _number(row: dict[str, object], name: str) -> float:
    value = row[name]
    return float(value) if isinstance(value, int | float) else 0.0
