"""How many reports of devices were taken and refused: counted one by one, and told in steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

TAKEN: Final = "put"
"""What came of a report that was taken; everything else that is counted says why one was refused."""

LEAST_TOLD: Final = 16

REPORTS_STEP: Final = 128
"""A manifest says how many reports were taken in steps of so many: since a model began rounded down, since the version
before rounded up. The limit on drift needs the first number, and a coarser second one beside it would hide nothing."""

Counts = Mapping[str, int]
"""How many reports had each outcome."""


def counted_since(window: int | None, marks: Mapping[int, Counts], now: Counts) -> dict[str, int]:
    """Return what was counted since a window was read.

    Parameters
    ----------
    window : int or None
        None: since the epoch began. If the mark of a window is gone, the newest mark counts.
    marks : mapping of int to mapping
        The counts when windows were read.
    now : mapping
        The counts by now.
    """
    before: Counts = {}
    if window is not None and marks:
        before = marks.get(window, marks[max(marks)])
    return {outcome: count - before.get(outcome, 0) for outcome, count in now.items()}


def told(count: int) -> int:
    """Return the public number of refused reports: 0, or a power of two from `LEAST_TOLD` on, not below it."""
    return max(LEAST_TOLD, 1 << (count - 1).bit_length()) if count > 0 else 0


def reports_told(counts: Counts) -> dict[str, Any]:
    """Return how many reports were taken at most, and refused for each reason at most."""
    refused = {outcome: told(count) for outcome, count in sorted(counts.items()) if outcome != TAKEN}
    return {
        "taken": -(-counts.get(TAKEN, 0) // REPORTS_STEP) * REPORTS_STEP,
        "refused": {reason: count for reason, count in refused.items() if count},
    }
