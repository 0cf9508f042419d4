"""Tables and files of measured curves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _common.curves import NO_PTK, Curves


def lines_of_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out a Markdown table with columns of equal width."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    laid = [
        " | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in [header, *rows]
    ]
    rule = " | ".join("-" * (width - 1) + ":" for width in widths)
    return [f"| {line} |" for line in (laid[0], rule, *laid[1:])]


def record_of(curves: Curves) -> dict[str, Any]:
    """Return what is saved of a task: losses by line, share and seed, and gains in percent with their errors."""
    task = curves.task
    return {
        "task": task.name,
        "group": task.group,
        "loss": task.loss,
        "ptk": task.ptk,
        "n_ptk_rows": task.n_ptk_rows,
        "n_train_rows": len(task.train),
        "n_test_rows": len(task.test),
        "lines": list(curves.lines),
        "rows": list(curves.n_rows),
        "best": curves.best,
        "losses": curves.losses.tolist(),
        "gains": {
            line: [curves.gain(line, j) for j in range(len(curves.n_rows))]
            for line in curves.lines
            if line != NO_PTK
        },
        "references": curves.references,
    }


def gains(record: dict[str, Any]) -> list[str]:
    """Lay out by how many percent each line's loss is below No PTK's."""
    lines = list(record["gains"])
    rows = [
        [f"{n / record['n_train_rows']:.2g}", f"{n:,}"]
        + ["{:+.2f} ± {:.2f}".format(*record["gains"][line][j]) for line in lines]
        for j, n in enumerate(record["rows"])
    ]
    return lines_of_table(["share", "rows", *lines], rows)


def table(curves: Curves) -> str:
    """Return the losses by share and line, and what the PTK gains, as text."""
    task = curves.task
    normalised = curves.normalised
    mean, spread = normalised.mean(axis=-1), normalised.std(axis=-1)
    rows = [
        [f"{share:.2g}", f"{n:,}"]
        + [f"{mean[i, j]:.3f} ± {spread[i, j]:.3f}" for i in range(len(curves.lines))]
        for j, (share, n) in enumerate(zip(curves.shares, curves.n_rows, strict=True))
    ]
    text = [
        f"{task.name}",
        f"PTK: {task.ptk}, trained on {task.n_ptk_rows:,} rows; task: up to {len(task.train):,} rows of its own, "
        f"{len(task.test):,} test rows; {curves.losses.shape[-1]} seeds",
        f"{task.loss}, over {curves.best:.4f} (the best non-private PTK run): mean ± standard deviation over seeds",
        "",
        *lines_of_table(["share", "rows", *curves.lines], rows),
        *(f"{name}: {loss / curves.best:.3f}" for name, loss in curves.references.items()),
        "",
        f"gain over {NO_PTK} in percent ± standard error, over test rows and seeds",
        "",
        *gains(record_of(curves)),
        "",
    ]
    return "\n".join(text)


def save(curves: Sequence[Curves], path: Path) -> None:
    """Write a record per task as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([record_of(c) for c in curves], indent=1) + "\n")
