"""Times in documents."""

from __future__ import annotations

from datetime import datetime


def to_the_second(at: datetime) -> str:
    """Write a time to the second: smaller parts would tell of the machine (differences.md F6)."""
    return at.replace(microsecond=0).isoformat()
