"""What an epsilon of each weight, of the whole report, and of a central release are worth for the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from _common.devices.measured import ACCURACY, LOSS, KeptTrials
from _common.devices.tasks import DeviceTask
from _common.devices.trials import LN, Trial, trained
from _common.intervals import mean_and_half, shown
from _common.plots import Panel, save_panels
from ptklib import DPSGDClassifier
from ptklib.arrays import Floats
from ptklib.draw_discard import Hashed
from ptklib.draw_discard.encoding import FINE, encode_columns

TUNING_SEED = 1_000
CENTRAL_EPSILON, CENTRAL_DELTA = 1.0, 1e-6

Levels = Mapping[str, tuple[Trial, Sequence[tuple[float, float]]]]
"""By name: a trial, and the learning rates and norms to choose from."""


def levels(rates: Sequence[float], epsilons: Sequence[int] = (32,), k: int = 20) -> Levels:
    """Return no noise, and each epsilon for one weight and for the whole report."""
    found: dict[str, tuple[Trial, Sequence[tuple[float, float]]]] = {
        "no noise": (Trial(k=k, start=LN[32]), [(rate, 1.0) for rate in (*rates, 2 * rates[-1])])
    }
    settings = list(product(rates, (0.25, 1.0)))
    for n in epsilons:
        found[f"ln {n} of each weight"] = Trial(k=k, epsilon=LN[n], clip="coordinate"), settings
        found[f"ln {n} of the report"] = Trial(k=k, epsilon=LN[n], clip="l1"), settings
    return found


def tuned(
    kept: KeptTrials, task: DeviceTask, trial: Trial, settings: Sequence[tuple[float, float]], reports: int
) -> Trial:
    """Return the trial with the learning rate and norm of the least loss, for a seed that measures nothing else."""
    tried = [replace(trial, learning_rate=rate, max_norm=norm) for rate, norm in settings]
    losses = [kept.judged(task, one, [reports], TUNING_SEED)[-1, LOSS] for one in tried]
    return tried[int(np.argmin(losses))]


def measure_levels(
    task: DeviceTask, some: Levels, reports: Sequence[int], seeds: int, out: Path
) -> Iterator[dict[str, Any]]:
    """Yield the table of levels; draw loss against reports."""
    kept = KeptTrials(out)
    trials = {
        name: tuned(kept, task, trial, settings, reports[-1]) for name, (trial, settings) in some.items()
    }
    found = kept.of_seeds(task, trials, reports, seeds)
    yield {
        "table": f"{task.name}, losses of reports",
        "said": f"{task.specification(epsilon=1.0).n_weights:,} weights, {_rows_of(task)} a device, {seeds} seeds, "
        "95 % intervals; learning rate and norm are the best of a seed that is not among them",
        "header": [
            "ε of Laplace noise",
            "learning rate",
            "norm",
            *(_after(n) for n in reports[-2:]),
            "accuracy",
        ],
        "rows": [
            [
                name,
                f"{trials[name].learning_rate:g}",
                f"{trials[name].max_norm:g}",
                *(shown(curve[at, LOSS], ".3f") for at in (-2, -1)),
                shown(curve[-1, ACCURACY], ".3f"),
            ]
            for name, curve in found.items()
        ],
    }
    lines = {
        name: [(n, *mean_and_half(values)) for n, values in zip(reports, curve[:, LOSS], strict=True)]
        for name, curve in found.items()
    }
    save_panels(
        [Panel(task.name, "reports", "log loss", lines, scales=("log", "linear"))],
        out / f"draw_discard_{task.name.replace(' ', '_')}.svg",
    )


def measure_known(
    task: DeviceTask, truth: Floats, reports: int, seeds: int, out: Path
) -> Iterator[dict[str, Any]]:
    """Yield how far estimated weights are from the known ones; draw them against each other (the paper's Figure 5)."""
    trials = {
        "k = 30, no noise": Trial(k=30, learning_rate=0.1, start=LN[32]),
        "k = 30, ε = ln 32 of each weight": Trial(k=30, learning_rate=0.02, max_norm=0.25, epsilon=LN[32]),
    }
    lines, rows = {}, []
    for name, trial in trials.items():
        weights = np.array([trained(task, trial, reports, seed) for seed in range(seeds)])
        errors = np.sqrt(((weights - truth) ** 2).mean(axis=1))
        rows.append([name, shown(errors, ".3f"), f"{np.corrcoef(weights.mean(axis=0), truth)[0, 1]:.3f}"])
        lines[name] = [(float(truth[at]), *mean_and_half(weights[:, at])) for at in np.argsort(truth)]
    yield {
        "table": "known weights",
        "said": f"after {reports:,} reports of {_rows_of(task)} each, {seeds} seeds",
        "header": ["", "root mean square error of a weight", "correlation of means with the truth"],
        "rows": rows,
    }
    panel = Panel("33 known weights", "true weight", "estimated weight", lines, scales=("linear", "linear"))
    save_panels([panel], out / "draw_discard_known.svg")


def measure_vanishing(
    task: DeviceTask, reports: Sequence[int], seeds: int, out: Path
) -> Iterator[dict[str, Any]]:
    """Yield the loss where all devices put what they drew, and where half of them vanish and a tenth is late."""
    all_put = Trial(epsilon=LN[32], learning_rate=0.05, max_norm=0.25)
    faults = {"vanished": 0.5, "stale": 0.1, "delay": 1000}
    trials = {"all put": all_put, "half vanish, 10 % are late": replace(all_put, simulated=faults)}
    found = {
        name: curve[:, LOSS] for name, curve in KeptTrials(out).of_seeds(task, trials, reports, seeds).items()
    }
    clean, faulty = (curve.mean(axis=-1) for curve in found.values())
    rows = [[name, *(shown(values, ".3f") for values in curve)] for name, curve in found.items()]
    yield {
        "table": "devices that vanish",
        "said": f"{task.name}, {task.n_devices:,} devices, ε = ln 32 of each weight, late by up to 1,000 draws, "
        f"{seeds} seeds, 95 % intervals",
        "header": ["", *(_after(n, "draws") for n in reports)],
        "rows": [*rows, ["ratio", *(f"{ratio:.3f}" for ratio in faulty / clean)]],
    }


def measure_sides(
    task: DeviceTask, some: Levels, shares: Sequence[float], seeds: int, out: Path
) -> Iterator[dict[str, Any]]:
    """Yield loss and accuracy of devices and of a central model at equal rows; each row is used once."""
    reports = [round(task.n_devices * share) for share in shares]
    kept = KeptTrials(out)
    local = {
        name: tuned(kept, task, trial, settings, reports[-1]) for name, (trial, settings) in some.items()
    }
    found = kept.of_seeds(task, local, reports, seeds)
    central = f"central, ε = {CENTRAL_EPSILON:g}"
    found = {f"devices, {name}": curve for name, curve in found.items()}
    of_seeds = [[_central(task, n, seed) for n in reports] for seed in range(seeds)]
    found[central] = np.moveaxis(np.array(of_seeds), 0, -1)
    yield {
        "table": f"{task.name}, central and local",
        "said": f"each row once, {seeds} seeds, 95 % intervals; a constant has {_constant(task):.3f}",
        "header": ["", *(_after(n, "rows") for n in reports), "accuracy"],
        "rows": [
            [name, *(shown(values, ".4f") for values in curve[:, LOSS]), shown(curve[-1, ACCURACY], ".4f")]
            for name, curve in found.items()
        ],
    }
    lines = {
        name: [(n, *mean_and_half(values)) for n, values in zip(reports, curve[:, LOSS], strict=True)]
        for name, curve in found.items()
    }
    panel = Panel(task.name, "rows", "log loss", lines, {"a constant": _constant(task)}, ("log", "linear"))
    save_panels([panel], out / "draw_discard_sides.svg")


def _central(task: DeviceTask, n_rows: int, seed: int) -> tuple[float, float]:
    """Log loss and accuracy of `DPSGDClassifier` on some rows, with the same hashed columns."""
    specification = task.specification(epsilon=1.0)
    names = [feature.column for feature in specification.features]
    label = specification.label.column
    some = np.random.default_rng(seed).permutation(task.n_rows)[:n_rows]

    def table(rows: Any) -> pd.DataFrame:
        return pd.DataFrame(encode_columns(specification, rows), columns=names).assign(label=rows[label])

    model = DPSGDClassifier(
        label="label",
        classes=(0, 1),
        domains={f.column: range(len(f)) for f in specification.features if isinstance(f, Hashed)},
        epsilon=CENTRAL_EPSILON,
        delta=CENTRAL_DELTA,
        clip_norm=(1 + len(names)) ** 0.5,  # no gradient is longer
    ).fit(table(task.rows).iloc[some])
    chances = np.clip(model.predict_proba(table(task.test))[:, 1], 1e-9, 1 - 1e-9)
    clicked = np.asarray(task.test[label]) > 0
    losses = -np.where(clicked, np.log(chances), np.log1p(-chances))
    return float(losses.mean()), float(((chances > 0.5) == clicked).mean())


def _constant(task: DeviceTask) -> float:
    share = float(np.mean(task.judge.labels / FINE))
    return -share * np.log(share) - (1 - share) * np.log(1 - share)


def _rows_of(task: DeviceTask) -> str:
    rows = task.n_rows // task.n_devices
    return "one row" if rows == 1 else f"{rows} rows"


def _after(n: int, what: str = "reports") -> str:
    return f"loss, {n:,} {what}"
