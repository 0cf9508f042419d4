"""Time, and an eye on the steps of a job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

TellSteps = Callable[[int, int], None]
"""Hears how many steps of a long work are done, of how many: windows or upgrades, and nothing that rows decide."""


def tell_nobody(_done: int, _total: int) -> None:
    """Hear it for a caller who does not want to know."""


class Clock(Protocol):
    """The wall clock; no guarantee depends on it being right."""

    def now(self) -> datetime:
        """Return the present in UTC."""


class Steps(Protocol):
    """Told of every durable step; logs it, and lets fault tests strike between any two."""

    def reached(self, step: str, job_id: str) -> None:
        """Report that a job reached a step, one of a fixed set; nothing else about the work is reported."""
