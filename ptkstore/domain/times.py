"""Times as users write them, and as sentences say them: in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from ptkstore.errors import InvalidRequest


def utc(value: datetime | str) -> datetime:
    """Read a time in UTC; text is ISO 8601, and without an offset means UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidRequest(
                f"{value!r} is no ISO 8601 time, such as 2026-01-05 or 2026-01-05T06:00:00"
            ) from None
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise InvalidRequest("the time is outside the years 1 to 9999") from None


def utc_text(at: datetime) -> str:
    """Write a time as sentences say it, such as '2026-01-05 06:00 UTC': exactly, and no finer than it is."""
    at = utc(at)
    finest = "microseconds" if at.microsecond else "seconds" if at.second else "minutes"
    return f"{at.replace(tzinfo=None).isoformat(' ', finest)} UTC"
