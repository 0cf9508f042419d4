"""Draws rows needed against PTKs and against budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from ptkstore.domain.allocation.advice import Point, Recommendation

_STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rows",
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "legend.frameon": False,
}


def save_rows(lines: Mapping[str, Recommendation], rows_per_window: int, file: Path) -> None:
    """Write one row of charts for each line of the budget; the ending of `file` decides the format."""
    with rc_context(_STYLE):
        figure = Figure(figsize=(9.0, 3.6 * max(len(lines), 1)), layout="constrained")
        grid = figure.subplots(max(len(lines), 1), 2, squeeze=False)
        for (left, right), (line, advice) in zip(grid, lines.items(), strict=True):
            title = "" if len(lines) == 1 else f"{line}: "
            _draw(left, advice.by_ptks, [p.n_ptks for p in advice.by_ptks], rows_per_window)
            left.set(xlabel="PTKs (the present mix, repeated)", ylabel="rows", title=f"{title}against PTKs")
            _draw(right, advice.by_budget, [p.capacity.epsilon for p in advice.by_budget], rows_per_window)
            right.set(xlabel="epsilon of a block", xscale="log", title=f"{title}against budget")
            left.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            right.xaxis.set_major_locator(FixedLocator([p.capacity.epsilon for p in advice.by_budget]))
            for axis in (left.yaxis, right.yaxis):
                axis.set_major_locator(_locator(*axis.get_view_interval()))
            for axis in (left.yaxis, right.yaxis, right.xaxis):
                axis.set_major_formatter(FuncFormatter(_plain))
                axis.set_minor_formatter(NullFormatter())
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def _draw(axes: Axes, points: Sequence[Point], places: Sequence[float], rows_per_window: int) -> None:
    axes.plot(places, [_or_nan(p.first_feasible_rows) for p in points], ":", label="first feasible K")
    axes.plot(places, [_or_nan(p.n_rows) for p in points], "o-", markersize=3, label="K chosen")
    axes.plot(places, [_or_nan(p.bound) for p in points], "--", linewidth=1, label="lower bound")
    axes.axhline(rows_per_window, color="#999999", linewidth=1, label="rows of a window")
    axes.set_yscale("log")


def _locator(low: float, high: float) -> LogLocator:
    """Few labels, and more than one."""
    return LogLocator(subs=(1.0, 2.0, 5.0) if high < low * 100.0 else (1.0,))


def _plain(value: float, _: float | None) -> str:
    """A number without the mathematics that a chart whose names are text does not show."""
    return f"{value:,.4g}" if abs(value) < 1.0 else f"{value:,.10g}"


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
