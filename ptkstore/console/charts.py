"""Bars of budgets and waits as numbers that a template draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ptkstore.domain.ledger.odometers import LossPart
from ptkstore.domain.scheduling.queues import WaitSpan

WIDTH, MARK = 400, 4
CHART_WIDTH, HEIGHT = 600.0, 140
PARTS_TOLD = 6  # by colours that can be told apart; all others are one


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar: its lower and upper edge above the ground, and its colour, numbered from 0."""

    y: float
    height: float
    colour: int
    label: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One block: heights are in the units of the chart, from its ground up.

    `room` is what is left; of a block that is `closed` to losses nobody will use it. `parts` split `spent`; none unless
    they were asked for.
    """

    x: float
    spent: float
    reserved: float
    room: float
    closed: bool
    label: str
    state: str
    parts: tuple[Segment, ...] = ()


@dataclass(frozen=True, slots=True)
class BarChart:
    """Blocks side by side; the line at `limit` above the ground is what a block may lose."""

    width: float
    bar_width: float
    bars: tuple[Bar, ...]
    limit: float
    capacity: str
    first: str
    last: str

    @property
    def empty(self) -> bool:
        """Whether nothing was lost or promised."""
        return not any(bar.spent or bar.reserved for bar in self.bars)


def budget_chart(
    rows: Sequence[dict[str, object]],
    parts: Sequence[Sequence[LossPart]] = (),
    colours: Mapping[str, int] | None = None,
) -> BarChart:
    """Draw spent and reserved shares of the capacity of each row of the budget table, on one scale.

    Parameters
    ----------
    parts : sequence, optional
        For each row, who spent what of it.
    colours : mapping, optional
        The colours of those who are told apart, by name.
    """
    numbers = [
        tuple(_number(row, f"{name}_epsilon") for name in ("capacity", "spent", "reserved")) for row in rows
    ]
    most = max((max(capacity, spent + reserved) for capacity, spent, reserved in numbers), default=0.0)
    scale = HEIGHT / max(most, 1e-12)
    step = CHART_WIDTH / max(len(rows), 1)
    gap = min(4.0, step / 4)
    bars = []
    for place, (row, (capacity, spent, reserved)) in enumerate(zip(rows, numbers, strict=True)):
        state, high = str(row["state"]), round(scale * spent, 2)
        held = round(scale * reserved, 2)
        split = _segments(parts[place], high, colours or {}) if parts else ()
        told = "".join(f"; {one.label}" for one in split)
        bars.append(
            Bar(
                round(place * step + gap / 2, 2),
                high,
                held,
                round(max(0.0, scale * capacity - high - held), 2),
                state != "active",
                f"{row['label']}: {spent:g} spent, {reserved:g} reserved of {capacity:g}, {state}{told}",
                state,
                split,
            )
        )
    largest = max((capacity for capacity, _, _ in numbers), default=0.0)
    places = [str(row.get("place", "")) for row in rows] or [""]
    return BarChart(
        CHART_WIDTH,
        round(step - gap, 2),
        tuple(bars),
        round(scale * largest, 2),
        f"{largest:g}",
        places[0],
        places[-1],
    )


def part_colours(parts: Iterable[Sequence[LossPart]]) -> dict[str, int]:
    """Give a colour to each of those with the largest shares of all blocks together."""
    shares: dict[str, float] = {}
    for some in parts:
        for one in some:
            shares[one.name] = shares.get(one.name, 0.0) + one.share
    largest = sorted(shares, key=lambda name: (-shares[name], name))
    return {name: colour for colour, name in enumerate(largest[:PARTS_TOLD])}


def _segments(parts: Sequence[LossPart], high: float, colours: Mapping[str, int]) -> tuple[Segment, ...]:
    """A bar from its ground up, in the order of the colours; those without a colour are one segment at the top."""
    told = sorted((one for one in parts if one.name in colours), key=lambda one: colours[one.name])
    shares = [(one.share, colours[one.name], f"{one.name} {one.share:.0%}") for one in told]
    rest = [one for one in parts if one.name not in colours]
    if rest:
        share = sum(one.share for one in rest)
        shares.append((share, PARTS_TOLD, f"{len(rest)} more {share:.0%}"))
    segments, ground = [], 0.0
    for share, colour, label in shares:
        segments.append(Segment(round(ground, 2), round(high * share, 2), colour, label))
        ground += high * share
    return tuple(segments)


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
