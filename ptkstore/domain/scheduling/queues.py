"""The public view of a PTK that waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Awaited(StrEnum):
    """The event that a PTK waits for; a fixed code.

    `scheduler`: its next look is covered, and the scheduler is yet to run.

    Under `budgeting`, `significance`: no other window teaches it enough for what that has left. `budget`: none has its
    loss left. `comparison`: a noisy threshold is to say whether a window teaches it enough.
    """

    VERDICT = "verdict"
    ALLOWANCE = "allowance"
    NEW_WINDOW = "new-window"
    TEST_BLOCK = "test-block"
    SCHEDULER = "scheduler"
    SIGNIFICANCE = "significance"
    COMPARISON = "comparison"
    BUDGET = "budget"
    MORE_THAN_IT_MAY_HAVE = "more-than-it-may-have"


@dataclass(frozen=True, slots=True)
class BlockShare:
    """The part of a block of a window that a PTK may use, as a share of the line's capacity."""

    window: int
    group: int
    share: float


@dataclass(frozen=True, slots=True)
class QueuedPtk:
    """A PTK that waits; `looks` and the decision of the last `verdict` count from when it began to wait."""

    ptk_id: str
    since: datetime
    looks: int
    verdict: str | None
    waits_for: Awaited
    allowances: tuple[BlockShare, ...]


WAITS_TOLD = 60
"""Of how many waits of a stream is told at once: those that began last."""


@dataclass(frozen=True, slots=True)
class WaitSpan:
    """A time that a PTK waited; `verdicts` are those that it got meanwhile, each with its time.

    `end` is None while it waits, and otherwise as of `EndedWait`. `until` is None where nothing says when that was.
    `registered` tells whether the PTK is by now.
    """

    ptk_id: str
    since: datetime
    until: datetime | None
    end: str | None
    verdicts: tuple[tuple[datetime, str], ...]
    registered: bool = True
