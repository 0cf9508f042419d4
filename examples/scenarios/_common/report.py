"""Tables and files of measured curves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

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


def table(curves: Curves) -> str:
    """Return the losses by share and line, and what the PTK gains, as text."""
    task = curves.task
    seeds = curves.losses.shape[-1]
    text = [
        f"{task.name}",
        f"PTK: {task.ptk}, trained on {task.n_ptk_rows:,} rows; task: up to {len(task.train):,} rows of its own, "
        f"{len(task.test):,} test rows; {seeds} seeds",
        f"{task.loss}, over {curves.best:.4f} (the best non-private PTK run): mean ± standard deviation over seeds",
        "",
    ]
    normalised = curves.normalised
    mean, spread = normalised.mean(axis=-1), normalised.std(axis=-1)
    rows = [
        [f"{n / len(task.train):.3g}", f"{n:,}"]
        + [f"{mean[i, j]:.3f} ± {spread[i, j]:.3f}" for i in range(len(curves.lines))]
        for j, n in enumerate(curves.n_rows)
    ]
    text += lines_of_table(["share", "rows", *curves.lines], rows)
    for name, loss in curves.references.items():
        text.append(f"{name}: {loss / curves.best:.3f}")
    others = [line for line in curves.lines if line != NO_PTK]
    text += ["", f"gain over {NO_PTK} in percent ± standard error, over test rows and seeds", ""]
    gains = [
        [f"{n / len(task.train):.3g}", f"{n:,}"]
        + ["{:+.2f} ± {:.2f}".format(*curves.gain(line, j)) for line in others]
        for j, n in enumerate(curves.n_rows)
    ]
    return "\n".join([*text, *lines_of_table(["share", "rows", *others], gains), ""])


def save(curves: Sequence[Curves], path: Path) -> None:
    """Write the losses as JSON: per task, lines, rows, and losses by line, share and seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = [
        {
            "task": c.task.name,
            "loss": c.task.loss,
            "ptk": c.task.ptk,
            "n_ptk_rows": c.task.n_ptk_rows,
            "n_train_rows": len(c.task.train),
            "n_test_rows": len(c.task.test),
            "lines": list(c.lines),
            "rows": list(c.n_rows),
            "best": c.best,
            "losses": c.losses.tolist(),
            "references": c.references,
        }
        for c in curves
    ]
    path.write_text(json.dumps(content, indent=1) + "\n")
