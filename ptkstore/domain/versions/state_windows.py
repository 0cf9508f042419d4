"""The windows in a state, as its manifest says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptkstore.domain.streams.blocks import BlockRange, place_of
from ptkstore.domain.streams.policies import Policy, PrivacyUnit


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
