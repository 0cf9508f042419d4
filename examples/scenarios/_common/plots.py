"""Plots in the form of Figure 5 of the PTK paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from _common.curves import EXACT, NO_PTK, Curves

STYLES = {NO_PTK: ("black", "-", "o"), EXACT: ("tab:green", "--", "s")}
IN_A_ROW = 3  # names in a panel's width
LETTERS = 60  # of a legend in a panel's width, with 6 for each line's sign
SVG = {"svg.hashsalt": "scenarios", "svg.fonttype": "none"}  # the same curves make the same small file
COLOURS = (
    "tab:blue",
    "tab:orange",
    "tab:red",
    "tab:purple",
    "tab:brown",
    "tab:gray",
    "tab:cyan",
    "tab:olive",
)


def save_curves(curves: Sequence[Curves], path: Path) -> None:
    """Draw one panel per task, those of one group with one scale; bands are one standard deviation over seeds."""
    columns = min(3, len(curves))
    height = -(-len(curves) // columns)
    figure = Figure(figsize=(4.4 * columns, 3.6 * height), layout="constrained")
    of_group: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    for i, curve in enumerate(curves, start=1):
        group = curve.task.group or curve.task.name
        axes = figure.add_subplot(height, columns, i, sharey=of_group.get(group))
        of_group.setdefault(group, axes)
        shown |= _draw(axes, curve)
    beside = min(len(shown), IN_A_ROW * columns)
    figure.set_figheight(figure.get_figheight() + 0.1 + 0.2 * -(-len(shown) // beside))
    figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=beside, fontsize=8)
    _write(figure, path)


def _draw(axes: Any, curve: Curves) -> dict[str, Any]:
    """Draw a panel; return what its legend would show."""
    size, colours, shown = len(curve.task.train), iter(COLOURS), {}
    for line, losses in zip(curve.lines, curve.normalised, strict=True):
        colour, dash, marker = STYLES.get(line) or (next(colours), "-", "^")
        mean, spread = losses.mean(axis=-1), losses.std(axis=-1)
        label = line.replace("PTK ", "PTK ε = ") if line not in STYLES and line[4:5].isdigit() else line
        (shown[label],) = axes.plot(
            curve.shares, mean, dash, color=colour, marker=marker, markersize=3, lw=1.2
        )
        axes.fill_between(curve.shares, mean - spread, mean + spread, color=colour, alpha=0.12, lw=0)
    for name, loss in curve.references.items():
        shown[name] = axes.axhline(loss / curve.best, color="0.5", linestyle=":", lw=1.2)
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(curve.shares, [f"{share:.2g}" for share in curve.shares])
    axes.set_xlabel(f"share of the task's {size:,} training rows", fontsize=8)
    axes.set_ylabel(f"normalised {curve.task.loss}", fontsize=8)
    axes.set_title(f"{curve.task.name}\n1.0 = {curve.best:.4f}", fontsize=9)
    axes.grid(alpha=0.3)
    return shown


def save_profiles(profiles: Sequence[Any], path: Path) -> None:
    """Draw the loss of each family against how many rows (or users) its PTK was trained on, in panels of two rows."""
    columns = min(3, len(profiles))
    rows = -(-len(profiles) // columns)
    figure = Figure(figsize=(3.8 * columns, 3.2 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[len(profiles) :]:
        axes.set_axis_off()
    for axes, profile in zip(panels, profiles, strict=False):
        for epsilon, losses, colour in zip(profile.epsilons, profile.losses, cycle(COLOURS), strict=False):
            mean, spread = losses.mean(axis=-1), losses.std(axis=-1)
            axes.plot(
                profile.sizes, mean, color=colour, marker="o", markersize=3, lw=1.2, label=f"ε = {epsilon:g}"
            )
            axes.fill_between(profile.sizes, mean - spread, mean + spread, color=colour, alpha=0.12, lw=0)
        axes.axhline(
            profile.family.exact, color="black", linestyle="--", lw=1, label="without noise, all rows"
        )
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xlabel("users" if profile.family.groups else "rows")
        axes.set_ylabel(profile.family.unit, fontsize=8)
        axes.set_title(profile.family.name, fontsize=10)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    _write(figure, path)


def save_rows(points: Mapping[str, Sequence[tuple[int, Any]]], path: Path) -> None:
    """Draw rows opened against the number of PTKs, one panel per accountant; what has no plan is left out."""
    figure = Figure(figsize=(4.6 * len(points), 3.8), layout="constrained")
    panels = figure.subplots(1, len(points), squeeze=False, sharey=True).ravel()
    for axes, (accountant, found) in zip(panels, points.items(), strict=True):
        lines = {
            "first feasible K": [(n, at.first_rows) for n, at in found],
            "K chosen": [(n, at.rows) for n, at in found],
            "lower bound": [(n, at.bound) for n, at in found],
        }
        for (name, line), style in zip(lines.items(), ("s:", "o-", "--"), strict=True):
            known = [(n, rows) for n, rows in line if rows]
            axes.plot(
                [n for n, _ in known], [rows for _, rows in known], style, markersize=3, lw=1.2, label=name
            )
        axes.set(
            xlabel="PTKs", ylabel="rows opened in a window", yscale="log", title=f"accountant {accountant}"
        )
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    _write(figure, path)


@dataclass(frozen=True)
class Panel:
    """Lines of means with 95 % intervals.

    Parameters
    ----------
    lines : mapping of str to sequence of (x, mean, half width)
    levels : mapping of str to float
        Horizontal lines.
    """

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float, float]]]
    levels: Mapping[str, float] = field(default_factory=dict)
    scales: tuple[str, str] = ("log", "log")


def save_panels(panels: Sequence[Panel], path: Path, columns: int = 3) -> None:
    """Draw panels in rows of `columns`, under one legend; a line has the same colour in all."""
    columns = min(columns, len(panels))
    height = -(-len(panels) // columns)
    figure = Figure(figsize=(4.4 * columns, 3.4 * height + 0.4), layout="constrained")
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colours = dict(zip(names, cycle(COLOURS), strict=False))
    shown: dict[str, Any] = {}
    for i, panel in enumerate(panels, start=1):
        axes = figure.add_subplot(height, columns, i)
        for name, points in panel.lines.items():
            if points:
                x, mean, half = zip(*points, strict=True)
                shown[name] = axes.errorbar(
                    x, mean, half, color=colours[name], marker="o", ms=3, lw=1.2, capsize=2, label=name
                )
        for name, level in panel.levels.items():
            shown[name] = axes.axhline(level, color="0.4", linestyle=":", lw=1)
        axes.set(xlabel=panel.x, ylabel=panel.y, xscale=panel.scales[0], yscale=panel.scales[1])
        _name_short_scales(axes)
        axes.set_title(panel.title, fontsize=10)
        axes.grid(alpha=0.3)
    longest = max(map(len, shown), default=0)
    beside = max(1, min(len(shown), LETTERS * columns // (longest + 6)))
    figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=beside, fontsize=8)
    _write(figure, path)


def _name_short_scales(axes: Any) -> None:
    """Name plain numbers on a log scale of less than two decades; those of matplotlib's choice overlap there."""
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        if axis.get_scale() == "log" and high < 100 * low:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
            axis.set_minor_formatter(NullFormatter())


def _write(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(SVG):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
