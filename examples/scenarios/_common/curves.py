"""Learning curves: the loss of a task with and without a PTK, against how much data of its own it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from _common.models import predicted
from ptklib.arrays import Floats, Ints

Featurizer = Callable[[pd.DataFrame], pd.DataFrame]
"""Rows to the PTK's features, one row each, numbered columns of the PTK's own names."""

NO_PTK = "No PTK"
EXACT = "NP PTK"
LEAST_ROWS = 100  # below, a share says more about which rows it drew than about the line


def line_of(epsilon: float) -> str:
    """Name the line of a PTK as the paper does."""
    return f"PTK {epsilon:g}"


@dataclass(frozen=True)
class Task:
    """A predictive task with its own rows, and a PTK trained on other rows.

    `train_ptk(epsilon)` trains the PTK anew, with noise of its own, and returns how rows are featurized;
    ``None`` asks for the twin without noise. `model(names)` makes an unfitted estimator that reads the task's
    own columns and the PTK's columns `names`. `row_loss(y, prediction)` is the loss of each row. Tasks of one
    `group` are one task with different PTKs.
    """

    name: str
    loss: str
    ptk: str
    n_ptk_rows: int
    train: pd.DataFrame
    test: pd.DataFrame
    label: str
    model: Callable[[Sequence[str]], Any]
    row_loss: Callable[[Floats, Floats], Floats]
    train_ptk: Callable[[float | None], Featurizer]
    controls: Mapping[str, Callable[[], Featurizer]] | None = None
    references: Mapping[str, pd.DataFrame] | None = None
    group: str | None = None
    order: str | None = None

    def without_test_rows(self) -> Task:
        """Judge on the last quarter of the training rows instead: for whoever chooses what the task is to be.

        Last in `order`, a column, or in the order of the rows.
        """
        rows = self.train if self.order is None else self.train.sort_values(self.order, kind="stable")
        cut = round(0.75 * len(rows))
        return replace(self, train=rows.iloc[:cut], test=rows.iloc[cut:], references=None)


@dataclass(frozen=True)
class Curves:
    """Losses of a task by line, share and seed.

    `losses` has the shape (lines, shares, seeds). `row_losses` holds the losses of the test rows, averaged
    over seeds, in the shape (lines, shares, test rows): what the lines' differences are judged by. `best` is what
    all losses are divided by: the least mean of the non-private PTK over all shares, and over the task's group.
    """

    task: Task
    lines: tuple[str, ...]
    n_rows: tuple[int, ...]
    losses: Floats
    row_losses: Floats
    references: dict[str, float]
    best: float

    @property
    def normalised(self) -> Floats:
        """Losses over `best`."""
        return np.asarray(self.losses / self.best)

    @property
    def shares(self) -> list[float]:
        """Shares of the task's training rows."""
        return [n / len(self.task.train) for n in self.n_rows]

    def gain(self, line: str, share: int) -> tuple[float, float]:
        """Return by how many percent a line is below No PTK, and the standard error.

        The error adds the variance over test rows to that over seeds, which draw the task's rows and the noise.
        """
        i, without = self.lines.index(line), self.lines.index(NO_PTK)
        by_row = self.row_losses[without, share] - self.row_losses[i, share]
        by_seed = self.losses[without, share] - self.losses[i, share]
        variance = sum(d.var(ddof=1) / len(d) for d in (by_row, by_seed) if len(d) > 1)
        scale = 100 / float(self.row_losses[without, share].mean())
        return float(by_row.mean() * scale), float(np.sqrt(variance) * scale)


def nested_rows(n_train: int, n_rows: Sequence[int], seed: int) -> list[Ints]:
    """Draw which rows each share has: the same for all lines, smaller shares within larger ones."""
    order = np.random.default_rng(seed).permutation(n_train)
    return [order[:n] for n in n_rows]


def shares_of(n_train: int, fractions: Sequence[float]) -> tuple[int, ...]:
    """Turn fractions into numbers of rows, without those of fewer than `LEAST_ROWS`."""
    rows = sorted({round(fraction * n_train) for fraction in fractions})
    kept = tuple(n for n in rows if n >= LEAST_ROWS)
    if not kept:
        raise SystemExit(f"no fraction leaves {LEAST_ROWS} of {n_train} training rows")
    return kept


def learning_curves(
    task: Task,
    epsilons: Sequence[float],
    fractions: Sequence[float],
    seeds: int,
    without: Curves | None = None,
) -> Curves:
    """Fit the task's model for each line, share and seed; a PTK is trained once per line and seed.

    A seed decides which rows a share has. Noise has no seed: it comes from a cryptographic source, so two runs
    differ by it and the bands show it. `without` are curves of the same task with another PTK, whose line of No PTK
    is therefore the same.
    """
    n_rows = shares_of(len(task.train), fractions)
    exact = _joined(task, task.train_ptk(None))
    bare = (task.train, task.test, ())
    made: dict[str, Callable[[], Any]] = {NO_PTK: lambda: bare, EXACT: lambda: exact}
    made |= {line_of(e): lambda e=e: _joined(task, task.train_ptk(e)) for e in epsilons}
    made |= {name: lambda f=f: _joined(task, f()) for name, f in (task.controls or {}).items()}
    losses = np.zeros((len(made), len(n_rows), seeds))
    row_losses = np.zeros((len(made), len(n_rows), len(task.test)))
    for seed in range(seeds):
        drawn = nested_rows(len(task.train), n_rows, seed)
        for i, (line, make) in enumerate(made.items()):
            if line == NO_PTK and without is not None:
                losses[i], row_losses[i] = without.losses[0], without.row_losses[0]
                continue
            train, test, names = make()
            for j, rows in enumerate(drawn):
                loss = _row_losses(task, train.iloc[rows], test, names)
                losses[i, j, seed] = loss.mean()
                row_losses[i, j] += loss / seeds
    references = {
        name: float(_row_losses(task, rows, task.test, ()).mean())
        for name, rows in (task.references or {}).items()
    }
    best = float(losses[list(made).index(EXACT)].mean(axis=-1).min())
    return Curves(task, tuple(made), n_rows, losses, row_losses, references, best)


def with_common_best(curves: Sequence[Curves]) -> list[Curves]:
    """Divide all curves of a group by the best non-private run among them, so that their panels can be compared."""
    best: dict[str, float] = {}
    for curve in curves:
        group = curve.task.group or curve.task.name
        best[group] = min(best.get(group, np.inf), curve.best)
    return [replace(curve, best=best[curve.task.group or curve.task.name]) for curve in curves]


def _joined(task: Task, featurize: Featurizer) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
    features = [featurize(rows).set_axis(rows.index) for rows in (task.train, task.test)]
    names = tuple(features[0].columns)
    train, test = (
        pd.concat([rows, new], axis=1) for rows, new in zip((task.train, task.test), features, strict=True)
    )
    return train, test, names


def _row_losses(task: Task, train: pd.DataFrame, test: pd.DataFrame, names: Sequence[str]) -> Floats:
    model = task.model(names).fit(train, train[task.label].to_numpy())
    return task.row_loss(test[task.label].to_numpy(dtype=np.float64), predicted(model, test))
