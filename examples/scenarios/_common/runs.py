"""What every scenario does with its tasks: measure, print, draw, save."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from itertools import groupby

from _common import plots, report
from _common.curves import Curves, Task, learning_curves, with_common_best


def measure(
    name: str,
    tasks: Iterable[Task],
    asked: argparse.Namespace,
    figures: Mapping[str, str] | None = None,
) -> int:
    """Measure the tasks of a scenario; print tables, save plots and the numbers.

    Parameters
    ----------
    figures : mapping, optional
        Name of the plot of each group of tasks; one plot of the scenario's name by default.
    """
    curves: list[Curves] = []
    for _, group in groupby(tasks, key=lambda task: task.group or task.name):
        judged = [task.without_test_rows() if asked.without_test_rows else task for task in group]
        measured: list[Curves] = []
        for task in judged:
            first = measured[0] if measured else None
            measured.append(learning_curves(task, asked.epsilons, asked.fractions, asked.seeds, first))
        curves += with_common_best(measured)
        for curve in curves[-len(measured) :]:
            print(report.table(curve), flush=True)
    drawn: dict[str, list[Curves]] = {}
    for curve in curves:
        drawn.setdefault((figures or {}).get(curve.task.group or "", name), []).append(curve)
    for figure, shown in drawn.items():
        plots.save_curves(shown, asked.out / f"{figure}.svg")
    report.save(curves, asked.out / f"{name}.json")
    print("written:", ", ".join(str(asked.out / f) for f in [f"{name}.json", *(f"{d}.svg" for d in drawn)]))
    return 0
