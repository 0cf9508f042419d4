"""Plots in the form of Figure 5 of the PTK paper."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from _common.curves import EXACT, NO_PTK, Curves

STYLES = {NO_PTK: ("black", "-", "o"), EXACT: ("tab:green", "--", "s")}
SVG = {"svg.hashsalt": "scenarios", "svg.fonttype": "none"}  # the same curves make the same small file
COLOURS = ("tab:blue", "tab:orange", "tab:red", "tab:purple", "tab:brown", "tab:gray")


def save_curves(curves: Sequence[Curves], path: Path) -> None:
    """Draw one panel per task; bands are one standard deviation over seeds."""
    columns = len(curves) if len(curves) <= 3 else 2
    height = -(-len(curves) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.8 * height), layout="constrained")
    panels = figure.subplots(height, columns, squeeze=False).ravel()
    for axes, curve in zip(panels, curves, strict=False):
        size, normalised = len(curve.task.train), curve.normalised
        shares, colours = [n / size for n in curve.n_rows], iter(COLOURS)
        for line, losses in zip(curve.lines, normalised, strict=True):
            colour, dash, marker = STYLES.get(line) or (next(colours), "-", "^")
            mean, spread = losses.mean(axis=-1), losses.std(axis=-1)
            label = line.replace("PTK ", "PTK ε = ") if line not in STYLES and line[4:5].isdigit() else line
            axes.plot(shares, mean, dash, color=colour, marker=marker, markersize=3, lw=1.2, label=label)
            axes.fill_between(shares, mean - spread, mean + spread, color=colour, alpha=0.12, lw=0)
        for name, loss in curve.references.items():
            axes.axhline(loss / curve.best, color="0.5", linestyle=":", lw=1.2, label=name)
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xlabel(f"share of the task's {size:,} training rows")
        axes.set_ylabel(f"normalised {curve.task.loss}")
        axes.set_title(f"{curve.task.name}\n1.0 = {curve.best:.4f}", fontsize=9)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    _write(figure, path)


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


def _write(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(SVG):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
