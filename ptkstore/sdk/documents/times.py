"""Times in documents."""

from __future__ import annotations

from datetime import datetime

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))


def to_the_second(at: datetime) -> str:
    """Write a time to the second: smaller parts would tell of the machine (differences.md F6)."""
    return at.replace(microsecond=0).isoformat()


def age_in_words(at: datetime, now: datetime) -> str:
    """Write how long ago a time is, in its largest whole unit."""
    seconds = int((now - at).total_seconds())
    for word, length in _UNITS:
        if number := max(seconds, 0) // length:
            return f"{number} {word}{'' if number == 1 else 's'}"
    return "under a minute"
