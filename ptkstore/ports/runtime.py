"""Time, and an eye on the steps of a job."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The wall clock; no guarantee depends on it being right."""

    def now(self) -> datetime:
        """Return the present in UTC."""


class Steps(Protocol):
    """Told of every durable step; logs it, and lets fault tests strike between any two."""

    def reached(self, step: str, job_id: str) -> None:
        """Report that a job reached a step, one of a fixed set; nothing else about the work is reported."""
