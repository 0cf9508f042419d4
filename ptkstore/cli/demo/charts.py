"""Draws the charts of the demo's page as inline SVG."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, time, timedelta
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from ptkstore.cli.demo.records import BlockBudget, ErrorPoint, Lookup, Report

# Stand-ins: the SVG refers to the page's CSS variables instead, so that one drawing reads in light, dark and
# print.
INK, MUTED, GRID = "#010101", "#020202", "#030303"
SERIES: Final = ("#040401", "#040402", "#040403", "#040404")
_VARIABLES: Final = {INK: "--ink", MUTED: "--muted", GRID: "--grid"} | {
    colour: f"--c{index}" for index, colour in enumerate(SERIES, 1)
}
_STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
}
MAX_BLOCKS: Final = 36
MAX_LABELLED_WINDOWS: Final = 10


def released_and_true(report: Report) -> str | None:
    """Draw released values beside true ones, where lookups walk along one number; None without any."""
    groups = [group for group in _walks(report.lookups) if len(group) >= 6][:2]
    if not groups:
        return None
    with _figure("lookups", 3.3 * len(groups)) as (figure, finish):
        for axes, group in zip(figure.subplots(len(groups), 1, squeeze=False).flat, groups, strict=True):
            (key,) = group[0].entity
            x = [float(lookup.entity[key]) for lookup in group]
            true, released = [_or_nan(g.true_value) for g in group], [_or_nan(g.value) for g in group]
            axes.plot(x, true, "--", color=MUTED, label="true (all rows)")
            axes.plot(x, released, "o", color=SERIES[0], markersize=5, label="released")
            axes.set(xlabel=key, ylabel=group[0].feature, title=group[0].ptk)
            axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))  # noisy counts may be negative
            axes.xaxis.set_major_locator(MaxNLocator(nbins=12, steps=[1, 2, 3, 5, 6, 10], integer=True))
            axes.legend(loc="lower right", ncols=2)
        return finish()


def error_against_epsilon(points: Sequence[ErrorPoint]) -> str | None:
    """Draw the measured error on logarithmic axes, one panel per unit, with the band of repeated fits."""
    if not points:
        return None
    units = list(dict.fromkeys(point.unit for point in points))
    statistics = dict.fromkeys(point.statistic for point in points)
    colours = dict(zip(statistics, itertools.cycle(SERIES), strict=False))
    with _figure("error", 3.5) as (figure, finish):
        for axes, unit in zip(figure.subplots(1, len(units), squeeze=False).flat, units, strict=True):
            mine = [point for point in points if point.unit == unit]
            for statistic in dict.fromkeys(point.statistic for point in mine):
                curve = sorted((p for p in mine if p.statistic == statistic), key=lambda p: p.epsilon)
                epsilons = [p.epsilon for p in curve]
                colour = colours[statistic]
                low, high = [p.low for p in curve], [p.high for p in curve]
                mean = [p.mean_absolute_error for p in curve]
                axes.fill_between(epsilons, low, high, color=colour, alpha=0.18, lw=0)
                axes.plot(epsilons, mean, "o-", color=colour, markersize=4, label=statistic)
            axes.set(xscale="log", yscale="log")
            axes.set(xlabel="epsilon of one release", ylabel=f"mean absolute error ({unit})")
            axes.xaxis.set_major_locator(FixedLocator(sorted({p.epsilon for p in mine})))
            axes.xaxis.set_minor_locator(NullLocator())
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.legend(loc="best")
        return finish()


def budget_per_block(blocks: Sequence[BlockBudget]) -> str | None:
    """Draw what each block has spent, reserved and left of its capacity; of many blocks, the newest."""
    if not blocks:
        return None
    shown = sorted(blocks, key=lambda block: block.window_start)[-MAX_BLOCKS:]
    windows = list(dict.fromkeys(block.window_start for block in shown))
    x = [index + 0.8 * windows.index(block.window_start) for index, block in enumerate(shown)]
    with _figure("budget", 3.6) as (figure, finish):
        axes: Axes = figure.subplots()
        spent, reserved = [b.spent for b in shown], [b.reserved for b in shown]
        below = [s + r for s, r in zip(spent, reserved, strict=True)]
        axes.bar(x, spent, color=SERIES[0], label="spent")
        axes.bar(x, reserved, bottom=spent, color=SERIES[1], label="reserved")
        axes.bar(x, [b.left for b in shown], bottom=below, color=GRID, label="left")
        for place, block in zip(x, shown, strict=True):
            axes.plot([place - 0.45, place + 0.45], [block.capacity] * 2, color=INK, linewidth=1.4)
        axes.plot([], [], color=INK, linewidth=1.4, label="capacity")
        axes.set_xticks(x, [block.part for block in shown], rotation=90, fontsize=8)
        axes.tick_params(axis="x", length=0)
        for window in windows:
            places = [place for place, block in zip(x, shown, strict=True) if block.window_start == window]
            label = f"{window:%a} {window.day} {window:%b}"
            axes.text(
                sum(places) / len(places),
                1.01,
                label,
                transform=axes.get_xaxis_transform(),
                ha="center",
                va="bottom",
            )
        axes.set_ylim(0, 1.08 * max(block.capacity for block in shown))
        axes.set_ylabel("epsilon")
        axes.grid(axis="x", visible=False)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
        return finish()


def versions_over_time(report: Report) -> str | None:
    """Draw when each version could be looked up against the window that ends its data, one line per PTK."""
    if not report.versions:
        return None
    ends = sorted({version.window_end for version in report.versions})
    ptk_ids = sorted({version.ptk_id for version in report.versions})
    dodge = 0.6 / len(ptk_ids)  # beside each other within a window, so that nothing hides
    with _figure("versions", 3.8) as (figure, finish):
        axes: Axes = figure.subplots()
        for lane, (ptk_id, colour) in enumerate(zip(ptk_ids, itertools.cycle(SERIES), strict=False)):
            mine = sorted((v for v in report.versions if v.ptk_id == ptk_id), key=lambda v: v.version)
            shift = dodge * (lane - (len(ptk_ids) - 1) / 2)
            x = [ends.index(version.window_end) + shift for version in mine]
            y = [(version.published - report.started).total_seconds() for version in mine]
            axes.plot(x, y, "o-", color=colour, markersize=5, label=ptk_id)
            if len(ends) <= MAX_LABELLED_WINDOWS:
                for place, version in zip(zip(x, y, strict=True), mine, strict=True):
                    label = f"v{version.version}"
                    axes.annotate(label, place, (0, 7), textcoords="offset points", ha="center", fontsize=8)
        shown = range(0, len(ends), 1 + (len(ends) - 1) // MAX_LABELLED_WINDOWS)
        axes.set_xticks(list(shown), [_last_day(ends[index]) for index in shown])
        axes.set(xlabel="newest window in the version", ylabel="published (s after the run began)")
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.margins(y=0.12)
        figure.legend(
            *axes.get_legend_handles_labels(), loc="outside lower center", ncols=min(4, len(ptk_ids))
        )
        return finish()


def _last_day(end: datetime) -> str:
    """Name a window by its end: the day it closes, or the time within a day."""
    if end.time() != time(0):
        return f"until {end.day} {end:%b} {end:%H:%M}"
    last = end - timedelta(days=1)
    return f"{last:%a} {last.day} {last:%b}"


def _walks(lookups: Sequence[Lookup]) -> Iterator[list[Lookup]]:
    """Lookups of one feature over one number as the key, in its order; means first, as they read best."""
    groups: dict[tuple[str, str, str], list[Lookup]] = {}
    for lookup in lookups:
        if len(lookup.entity) == 1:
            ((key, place),) = lookup.entity.items()
            if isinstance(place, int) and not isinstance(place, bool):
                groups.setdefault((lookup.ptk, lookup.feature, key), []).append(lookup)
    for name in sorted(groups, key=lambda n: (not n[1].endswith("_mean"), n)):
        yield sorted(groups[name], key=lambda lookup: float(next(iter(lookup.entity.values()))))


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


@contextmanager
def _figure(name: str, height: float) -> Iterator[tuple[Figure, Callable[[], str]]]:
    """A figure in the page's style, and what turns it into SVG."""
    with rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(9.0, height), layout="constrained")

        def finish() -> str:
            buffer = io.StringIO()
            figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
            return _inline(buffer.getvalue(), name)

        yield figure, finish


def _inline(svg: str, name: str) -> str:
    """Keep what HTML needs: no prologue, metadata or addresses; ids of their own; colours from the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:xlink)?="[^"]*"', "", svg)
    svg = re.sub(r'<svg width="[^"]*" height="[^"]*"', "<svg", svg)
    svg = re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg
