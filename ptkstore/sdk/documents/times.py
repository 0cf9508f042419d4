"""Times in documents."""

from __future__ import annotations

from datetime import datetime


def to_the_second(at: datetime) -> str:
    """Write a time; what lies within a second tells of the machine, and is nobody's business (differences.md F6)."""
    return at.replace(microsecond=0).isoformat()
