"""The windows in a state, as its manifest says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ptkstore.domain.streams.blocks import BlockRange, place_of
from ptkstore.domain.streams.policies import Policy, PrivacyUnit
from ptkstore.domain.streams.windows import start_of

SPANS_TOLD = 5
"""Spans of windows that are written out."""


def charged_blocks(content: Mapping[str, Any]) -> tuple[BlockRange, ...]:
    """Return the blocks that were charged for a state and for those it continues, in the order of the charges."""
    numbers = ((one["number"], one.get("last", one["number"])) for one in content["blocks"])
    return tuple(BlockRange(first, last + 1) for first, last in numbers)


def opened_windows(content: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the windows whose rows the training of a state read, rising; without those of states it continues."""
    return tuple(content.get("windows", (content["newest_contributing_window"]["index"],)))


def windows_in(content: Mapping[str, Any], policy: Policy) -> frozenset[int]:
    """Return all windows that may be in a state, also by the states that it continues.

    For the unit `user` these are all between the oldest and the newest one, as blocks belong to no window.
    """
    if policy.privacy_unit is PrivacyUnit.USER:
        newest = content["newest_contributing_window"]["index"]
        oldest = content.get("oldest_contributing_window", {"index": newest})["index"]
        return frozenset(range(oldest, newest + 1))
    places = (place_of(one.lo, policy) for one in charged_blocks(content))
    return frozenset(place.window for place in places if place.window is not None)


def spans_in(content: Mapping[str, Any], policy: Policy) -> tuple[tuple[datetime, datetime], ...]:
    """Return the windows that may be in a state as spans of time without gaps, rising.

    After a rollback the next version continues an older one, so windows between the two are not in it.
    """
    if content.get("blocks"):
        windows = windows_in(content, policy)
    else:  # of devices, whose reports no block pays for
        ends = [content[f"{one}_contributing_window"]["index"] for one in ("oldest", "newest")]
        windows = frozenset(range(ends[0], ends[1] + 1))
    spans: list[tuple[int, int]] = []
    for index in sorted(windows):
        if spans and spans[-1][1] == index:
            spans[-1] = (spans[-1][0], index + 1)
        else:
            spans.append((index, index + 1))
    return tuple((start_of(policy, first), start_of(policy, end)) for first, end in spans)


def spans_in_words(spans: Sequence[tuple[datetime, datetime]]) -> str:
    """Write the last of these spans, in UTC; days alone where windows begin at midnight."""
    more = f"{len(spans) - SPANS_TOLD} earlier spans, " if len(spans) > SPANS_TOLD else ""
    return more + ", ".join(f"{_moment(start)} to {_moment(end)}" for start, end in spans[-SPANS_TOLD:])


def _moment(at: datetime) -> str:
    at = at.astimezone(UTC)
    return f"{at:%Y-%m-%d}" if (at.hour, at.minute, at.second) == (0, 0, 0) else f"{at:%Y-%m-%d %H:%M}"
