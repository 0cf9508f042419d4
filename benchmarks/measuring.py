"""Rows of a benchmark: a measured number, what it is judged against, and whether the goal is met."""

import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

Row = dict[str, Any]

OUT = Path(__file__).resolve().parent / "out"
"""Where topics write their rows."""

_BOUND = {"min": "<=", "max": ">="}
"""The goal bounds what is made small from above, what is made large from below."""


@dataclass(frozen=True)
class Timed:
    """Median seconds of two functions that took turns, and the median of ours / theirs."""

    ours: float
    theirs: float
    ratio: float


def take_turns(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    rounds: int = 7,
    clock: Callable[[], float] = time.perf_counter,
    rest_seconds: float = 0.0,
) -> Timed:
    """Time two functions side by side, so that other work on the machine meets both; each runs once before.

    Parameters
    ----------
    clock
        ``time.process_time`` counts the CPU time of this process and its threads, and not what others do meanwhile.
    rest_seconds
        Pause before each call: BLAS threads spin on for 30 ms after their work, 100 ms where cores are busy.
    """

    def rested(work: Callable[[], object]) -> float:
        time.sleep(rest_seconds)
        return seconds(work, clock)

    ours(), theirs()
    pairs = [(rested(ours), rested(theirs)) for _ in range(rounds)]
    return Timed(
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how long one call takes."""
    start = clock()
    work()
    return clock() - start


def median_seconds(work: Callable[[], object], rounds: int = 7) -> float:
    """Return the median of several calls after one that does not count."""
    work()
    return statistics.median(seconds(work) for _ in range(rounds))


@dataclass(frozen=True)
class Measurement:
    """One row of the table."""

    id: str
    measure: str
    unit: str
    ours: float
    against: str
    theirs: float | None
    judged: float
    goal: float
    direction: Literal["min", "max"]

    def row(self) -> Row:
        """Return the row with its verdict."""
        met = self.judged <= self.goal if self.direction == "min" else self.judged >= self.goal
        return {**asdict(self), "met": bool(met)}


def measured(
    id: str,
    measure: str,
    *,
    unit: str,
    ours: float,
    goal: float,
    direction: Literal["min", "max"],
    against: str = "the goal",
    theirs: float | None = None,
    judged: float | None = None,
) -> Row:
    """Return a row; `judged` is the number the goal is about, `ours` when nothing else is said.

    Parameters
    ----------
    id : str
        Stable name, ``<family>-<what>``.
    ours, theirs : float
        In `unit`.
    """
    return Measurement(
        id,
        measure,
        unit,
        float(ours),
        against,
        theirs,
        float(ours if judged is None else judged),
        goal,
        direction,
    ).row()


def stamped(rows: list[Row]) -> list[Row]:
    """Return rows with the machine, the commit and the day of the measurement, as they are written and recorded."""
    stamp = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "commit": _commit(),
        "day": datetime.now(UTC).date().isoformat(),
    }
    return [{**row, **stamp} for row in rows]


def _commit() -> str | None:
    """Return the commit that is checked out, with a plus when files differ from it, and None outside of a clone."""
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"],
            cwd=OUT.parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return said.stdout.strip()


def verdict(rows: list[Row], written: object) -> int:
    """Tell where the rows are and which goals are missed; the exit code of a benchmark, 1 where one is."""
    missed = [row["id"] for row in rows if not row["met"]]
    print(f"\nwritten to {written}; goals missed: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


def report(topic: str, rows: list[Row]) -> int:
    """Print rows, write them to ``benchmarks/out/<topic>.json``, and return the exit code of `verdict`."""
    path = OUT / f"{topic}.json"
    print(table(rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stamped(rows), indent=1, sort_keys=True) + "\n")
    return verdict(rows, path.relative_to(OUT.parents[1]))


def table(rows: list[Row]) -> str:
    """Return rows as a table in Markdown, for the terminal and the README."""
    head = "| measurement | ours | peer | | judged | goal | met |\n|---|---|---|---|---|---|---|"
    lines = []
    for row in rows:
        theirs = "" if row["theirs"] is None else f"{row['theirs']:.4g}"
        lines.append(
            f"| {row['measure']} ({row['unit']}) | {row['ours']:.4g} | {theirs} | {row['against']} "
            f"| {row['judged']:.3g} | {_BOUND[row['direction']]} {row['goal']:g} | {'yes' if row['met'] else 'no'} |"
        )
    return "\n".join([head, *lines])
