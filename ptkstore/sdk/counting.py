"""Numbers of things in words; a room of its own, since pages of reports load nothing of a terminal."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number of things: `1 window`, `2 windows`; `many` where it is more than another letter."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def spoken(seconds: float, most: int = 4) -> str:
    """Return a duration in words, such as `1 day 6 hours`, in no more than so many of its largest units."""
    rest, units = int(seconds), []
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, rest = divmod(rest, size)
        if count:
            units.append(counted(count, unit))
    return " ".join(units[:most]) or "0 seconds"
