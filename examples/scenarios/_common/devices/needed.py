"""How many reports models of several sizes need at several losses, beside the estimate of the library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from _common.devices.levels import tuned
from _common.devices.measured import LOSS, KeptTrials
from _common.devices.tasks import DeviceTask
from _common.devices.trials import LN, Trial
from _common.intervals import shown
from _common.plots import Panel, save_panels
from ptklib.arrays import Floats
from ptklib.draw_discard import reports_needed

TIMES = (1 / 4, 1, 4)
"""Where a model is judged, over the estimate."""

RATES, NORM = (0.03, 0.06, 0.12), 0.25
"""Learning rates that are tried, over the square of epsilon and times the number of weights; and the longest gradient.

Fewer reports, which a larger epsilon allows, have to take longer steps.
"""

Cases = Sequence[tuple[DeviceTask, Sequence[tuple[int, int]]]]
"""Tasks, and of each: k, and n of an epsilon of ln n."""


def measure_needed(cases: Cases, seeds: int, out: Path) -> Iterator[dict[str, Any]]:
    """Yield the table of estimates and of what was gained then; draw the gain against reports over the estimate."""
    kept, rows, lines = KeptTrials(out), [], {}
    for task, levels in cases:
        for k, n in levels:
            trial = Trial(k=k, epsilon=LN[n], clip="l1")
            specification = task.specification(epsilon=LN[n], k=k, clip="l1", learning_rate=0.01)
            p, needed = specification.n_weights, reports_needed(specification)
            reports = [round(needed * times) for times in TIMES]
            best = tuned(kept, task, trial, [(rate * LN[n] ** 2 / p, NORM) for rate in RATES], needed)
            name = f"{task.name}, k = {k}, ε = ln {n}"
            gains = gain(task, kept.of_seeds(task, {name: best}, reports, seeds)[name][:, LOSS])
            means = gains.mean(axis=-1)
            lines[name] = [(times, float(at), 0.0) for times, at in zip(TIMES, means, strict=True)]
            rows.append(
                [
                    task.name,
                    str(p),
                    str(k),
                    f"ln {n}",
                    f"{needed:,}",
                    *(shown(values, ".2f") for values in gains),
                ]
            )
    yield {
        "table": "reports that are needed",
        "said": f"share of the possible gain in log loss over a constant; {seeds} seeds, 95 % intervals; the "
        "learning rate is the best, at the estimate, of a seed that is not among them",
        "header": ["model", "weights", "instances", "ε of a report", "estimate", *map(_at, TIMES)],
        "rows": rows,
    }
    panel = Panel("reports that are needed", "reports over the estimate", "share of the gain", lines)
    save_panels([replace(panel, scales=("log", "linear"))], out / "draw_discard_needed.svg")


def gain(task: DeviceTask, losses: Floats) -> Floats:
    """Return log losses as shares of the possible gain: 0 for a constant, 1 for the true chances."""
    known = task.test["probability"]
    share = known.mean()
    constant, least = _entropy(share), _entropy(known).mean()
    return np.asarray((constant - losses) / (constant - least))


def _entropy(share: Any) -> Any:
    return -share * np.log(share) - (1 - share) * np.log1p(-share)


def _at(times: float) -> str:
    return "there" if times == 1 else f"at 1/{round(1 / times)}" if times < 1 else f"at {times} times"
