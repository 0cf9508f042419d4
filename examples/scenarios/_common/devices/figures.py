"""Figures 2 to 4 of the paper: a model of digits, and what its devices and its server do differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from _common.devices.measured import ACCURACY, LOSS, KeptTrials
from _common.devices.tasks import DeviceTask
from _common.devices.trials import LN, Trial
from _common.intervals import mean_and_half, shown
from _common.plots import Panel, save_panels
from ptklib.arrays import Floats
from ptklib.draw_discard.simulation import Scheme


@dataclass(frozen=True)
class Group:
    """Trials that share a plot; `file` names it."""

    file: str
    title: str
    trials: Mapping[str, Trial]


SCHEMES: Mapping[str, Scheme] = {
    "draw and discard": "discard",
    "same instance": "same",
    "accept one in k": "accept",
    "average": "average",
    "average, same instance": "average-same",
}


def groups(slow: float = 0.1) -> tuple[Group, ...]:
    """Return the trials of Figures 2, 3 and 4; `slow` is the smaller learning rate over the larger."""
    plain = Trial()
    of_k = {f"k = {k}": replace(plain, k=k) for k in (1, 5, 10, 20, 50, 100)}
    batches = {f"batches of {n:,}": replace(plain, scheme="batch", batch=n) for n in (10, 100, 1_000, 10_000)}
    epsilons = {f"ε = ln {n}": replace(plain, k=10, epsilon=LN[n]) for n in (32, 16, 8, 3)}
    found = [
        Group("instances", "instances", of_k),
        Group(
            "batches", "batches on the server", {name: of_k[name] for name in ("k = 10", "k = 20")} | batches
        ),
        Group("epsilons", "ε of a weight, k = 10", {"no noise": of_k["k = 10"]} | epsilons),
        Group(
            "schemes",
            "other schemes, k = 20",
            {name: replace(plain, scheme=of) for name, of in SCHEMES.items()},
        ),
    ]
    rate = plain.learning_rate * slow
    for k in (5, 20, 100):
        trial = replace(plain, k=k, learning_rate=rate)
        schemes = {name: replace(trial, scheme=of) for name, of in SCHEMES.items()}
        found.append(Group(f"schemes_slow_{k}", f"other schemes, k = {k}, learning rate {rate:g}", schemes))
    return tuple(found)


def measure_digits(
    task: DeviceTask, passes: Sequence[float], seeds: int, out: Path
) -> Iterator[dict[str, Any]]:
    """Yield the table of each group; draw loss and accuracy of each against rows."""
    reports = [round(task.n_devices * some) for some in passes]
    of_a_report = task.n_rows / task.n_devices
    kept = KeptTrials(out)
    # A seed of all groups, and then the next: what is shared is measured once.
    for so_far in range(1, seeds + 1):
        found = [(group, kept.of_seeds(task, group.trials, reports, so_far)) for group in groups()]
    rows = [round(n * of_a_report) for n in reports]
    for group, curves in found:
        yield _table(f"{task.name}, {group.title}", curves, rows, seeds)
        panels = [
            Panel(group.title, "rows", unit, _lines(curves, rows, place), scales=("log", scale))
            for unit, place, scale in (("log loss", LOSS, "log"), ("accuracy", ACCURACY, "linear"))
        ]
        save_panels(panels, out / f"draw_discard_digits_{group.file}.svg", columns=2)


def _lines(
    curves: Mapping[str, Floats], rows: Sequence[int], place: int
) -> dict[str, list[tuple[float, float, float]]]:
    return {
        name: [(x, *mean_and_half(values)) for x, values in zip(rows, found[:, place], strict=True)]
        for name, found in curves.items()
    }


def _table(name: str, curves: Mapping[str, Floats], rows: Sequence[int], seeds: int) -> dict[str, Any]:
    return {
        "table": name,
        "said": f"after {rows[len(rows) // 2]:,} and {rows[-1]:,} rows; {seeds} seeds, 95 % intervals",
        "header": ["", "loss", "accuracy", "loss, all rows", "accuracy, all rows"],
        "rows": [
            [
                name,
                *(
                    shown(found[at, place], ".3f")
                    for at in (len(rows) // 2, -1)
                    for place in (LOSS, ACCURACY)
                ),
            ]
            for name, found in curves.items()
        ],
    }
