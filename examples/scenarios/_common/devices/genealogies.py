"""What chance does to instances: their variance (the paper's Theorem 1), and whether a report is still in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from _common.intervals import mean_and_half
from _common.plots import Panel, save_panels
from ptklib.arrays import Floats
from ptklib.draw_discard import Devices, Numeric, Simulation, Specification

_MARK = 1_000
_AT_ONCE = 500
_SHARES = tuple(at / 20 for at in range(1, 20))


@dataclass(frozen=True)
class Chances:
    """How much is measured: runs of so many updates for the variance, and reports that are followed."""

    runs: int
    updates: int
    followed: int
    ks: Sequence[int] = (5, 20, 50)


FULL = Chances(200, 100_000, 2_000)
QUICK = Chances(20, 2_000, 100, (5, 20))


@cache
def _idle(k: int) -> Devices:
    """One device without a row: its reports are noise."""
    specification = Specification(features=[Numeric("x", 0, 1)], label=Numeric("y", 0, 1), epsilon=1.0, k=k)
    return Devices.of(specification, {"x": [0.0], "y": [None]}, np.zeros(1, dtype=np.int64))


def variances(k: int, chances: Chances) -> Floats:
    """Return the sample variance of the instances of each run after its updates, over ``k * sigma**2 / 2``, (runs,)."""
    devices = _idle(k)
    reports = np.zeros(chances.updates, dtype=np.int64)
    found = [Simulation(devices).run(reports).instances.var(axis=0, ddof=1) for _ in range(chances.runs)]
    return np.array(found).mean(axis=1) / devices.specification.instance_variance


def survivors(k: int, followed: int) -> int:
    """Return how many of the reports that are followed are in all instances in the end; the others are in none."""
    devices, left = _idle(k), 0
    one, more = np.zeros(1, dtype=np.int64), np.zeros(_AT_ONCE, dtype=np.int64)
    for _ in range(followed):
        start = np.zeros((k, devices.specification.n_weights), dtype=np.int32)
        marked = Simulation(
            devices, instances=start, noise=False, poisoned=1.0, poison=lambda drawn: drawn + _MARK
        )
        instances = marked.run(one).instances
        while len(set(instances[:, 0].tolist())) > 1:
            instances = Simulation(devices, instances=instances, noise=False).run(more).instances
        left += int(instances[0, 0] == _MARK)
    return left


def measure_chances(chances: Chances, out: Path) -> Iterator[dict[str, Any]]:
    """Yield the table of variances and survivors; draw how the variances of runs are spread."""
    rows, lines = [], {}
    for k in chances.ks:
        found = variances(k, chances)
        mean, half = mean_and_half(found)
        error = found.std(ddof=1) / len(found) ** 0.5
        survived = survivors(k, chances.followed)
        stayed, deviation = survived / chances.followed, (1 / k * (1 - 1 / k) / chances.followed) ** 0.5
        lines[f"k = {k}"] = [(float(np.quantile(found, share)), share, 0.0) for share in _SHARES]
        rows.append(
            [
                str(k),
                f"{mean:.3f} ± {half:.3f}",
                f"{(mean - 1) / error:+.1f}",
                f"{found.min():.2f} to {found.max():.2f}",
                f"{stayed:.4f}",
                f"{1 / k:.4f}",
                f"{(stayed - 1 / k) / deviation:+.1f}",
            ]
        )
    yield {
        "table": "variance of instances",
        "said": f"over kσ²/2, {chances.runs} runs of {chances.updates:,} reports without a row; "
        f"{chances.followed:,} reports that are followed until they are in all instances or in none",
        "header": [
            "k",
            "sample variance",
            "standard errors from 1",
            "least and greatest",
            "share of reports that stay",
            "1/k",
            "standard errors from 1/k",
        ],
        "rows": rows,
    }
    axes = "variance over kσ²/2", "share of runs below"
    panel = Panel("sample variance of the instances", *axes, lines, scales=("log", "linear"))
    save_panels([panel], out / "draw_discard_instances.svg")
