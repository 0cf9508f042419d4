"""Durations as users write them, such as 6h."""

from __future__ import annotations

import re
from datetime import timedelta

from ptkstore.errors import InvalidRequest

_DURATION = re.compile(r"(\d{1,9})\s*([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def duration(text: str) -> timedelta:
    """Read a span such as '90s', '15m', '6h' or '1d'."""
    match = _DURATION.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    if match is None or not int(match[1]):
        raise InvalidRequest(f"{text!r} is no duration; write for example '15m', '6h' or '1d'")
    try:
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        raise InvalidRequest(f"{text!r} is too long") from None


def duration_text(span: timedelta) -> str:
    """Write a span as `duration` reads it, in its largest whole unit; one with parts of a second as Python does."""
    if span % timedelta(seconds=1):
        return str(span)
    seconds = span // timedelta(seconds=1)
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
