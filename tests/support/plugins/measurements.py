"""A pytest plugin that keeps what long tests measured.

A test asks for the fixture ``measured`` and gives it a number with the goal it is held against; the test
fails when the goal is missed. With ``--measurements=FILE`` the rows of the run are written as JSON, in the
form of the benchmarks: ``[{id, measure, unit, ours, against, theirs, judged, goal, direction, met}, ...]``.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

Measured = Callable[..., "Measurement"]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One number beside its goal.

    Parameters
    ----------
    id : str
        Stable name of the row, for example ``"kill-9/second-versions"``.
    measure, unit : str
        What was measured, and in which unit.
    ours : float
        What this project reached.
    against, theirs : str and float, optional
        What it was compared with in the same run, and what that reached.
    judged : float, optional
        The number held against `goal`, for example a ratio; `ours` if left out.
    goal : float
        The bound: at most this for direction ``min``, at least this for ``max``.
    direction : "min" or "max"
        Whether less or more is better.
    """

    id: str
    measure: str
    unit: str
    ours: float
    goal: float
    direction: Literal["min", "max"]
    against: str | None = None
    theirs: float | None = None
    judged: float | None = None

    def __post_init__(self) -> None:
        if self.direction not in ("min", "max"):
            raise ValueError(f"direction must be 'min' or 'max', not {self.direction!r}")
        if (self.against is None) != (self.theirs is None):
            raise ValueError("against and theirs are given together: a peer and what it reached")
        if self.judged is None:
            object.__setattr__(self, "judged", self.ours)
        for name in ("ours", "theirs", "judged", "goal"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} of {self.id!r} must be a finite number")

    @property
    def met(self) -> bool:
        """Whether the judged number reaches the goal."""
        assert self.judged is not None
        return self.judged <= self.goal if self.direction == "min" else self.judged >= self.goal

    def to_json(self) -> dict[str, Any]:
        """Return the row as written to the report."""
        return {**asdict(self), "met": self.met}

    def __str__(self) -> str:
        relation = "at most" if self.direction == "min" else "at least"
        return f"{self.id}: {self.measure}: {self.judged} {self.unit}, goal {relation} {self.goal}"


class Collector:
    """Keeps the rows of one run by their id."""

    def __init__(self) -> None:
        self.rows: dict[str, Measurement] = {}

    def add(self, row: Measurement) -> None:
        """Keep a row; a second one of the same id is a mistake in the tests."""
        if row.id in self.rows:
            raise ValueError(f"two measurements are called {row.id!r}")
        self.rows[row.id] = row

    def write(self, path: Path) -> None:
        """Replace the report at `path` by the rows of this run."""
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f".{path.name}.{os.getpid()}")
        scratch.write_text(json.dumps([row.to_json() for row in self.rows.values()], indent=2) + "\n")
        scratch.replace(path)


COLLECTOR = pytest.StashKey[Collector]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--measurements", type=Path, metavar="FILE", help="write what tests measured to FILE")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--measurements") and getattr(config.option, "numprocesses", None):
        raise pytest.UsageError("--measurements needs one process: leave out -n")
    config.stash[COLLECTOR] = Collector()


def pytest_sessionfinish(session: pytest.Session) -> None:
    path: Path | None = session.config.getoption("--measurements")
    if path is not None:
        session.config.stash[COLLECTOR].write(path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash[COLLECTOR].rows.values()
    if rows:
        terminalreporter.section("measured")
    for row in rows:
        terminalreporter.write_line(f"{'met   ' if row.met else 'MISSED'}  {row}")


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Measured:
    """Return a function that keeps a `Measurement`, then fails the test if its goal is missed."""

    def keep(**fields: Any) -> Measurement:
        row = Measurement(**fields)
        request.config.stash[COLLECTOR].add(row)
        if not row.met:
            pytest.fail(str(row), pytrace=False)
        return row

    return keep
