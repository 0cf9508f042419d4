"""Which windows are in a state, as its manifest says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.streams.blocks import BlockRange, part_blocks
from ptkstore.domain.streams.policies import PrivacyUnit
from ptkstore.domain.streams.windows import WindowId, start_of
from ptkstore.domain.versions.state_windows import (
    SPANS_TOLD,
    charged_blocks,
    opened_windows,
    spans_in,
    spans_in_words,
    windows_in,
)
from tests.support.builders import STREAM, stream_named

POLICY = stream_named().policy
USERS = replace(POLICY, privacy_unit=PrivacyUnit.USER, unit_column="hour", user_shards=4)


def charged(*blocks: tuple[int, int | None]) -> dict[str, Any]:
    """What a manifest says of blocks, those of a range that has one block without its last."""
    return {"blocks": [{"number": n, **({} if last is None else {"last": last})} for n, last in blocks]}


def test_blocks_are_those_of_each_charge_in_their_order() -> None:
    assert charged_blocks(charged((130, None), (2, 5))) == (BlockRange(130, 131), BlockRange(2, 6))


def test_a_state_of_one_window_names_that_one_alone() -> None:
    newest = {"newest_contributing_window": {"index": 7}}
    assert opened_windows(newest) == (7,)
    assert opened_windows({**newest, "windows": [5, 7]}) == (5, 7)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=8))
def test_windows_are_those_behind_all_charged_blocks(windows: list[int]) -> None:
    behind = [part_blocks(2, WindowId(STREAM, window), POLICY, range(1)) for window in windows]
    content = charged(*((one.lo, None) for one in behind))
    assert windows_in(content, POLICY) == set(windows)


@given(st.integers(0, 50), st.integers(0, 50))
def test_shards_of_users_may_hold_all_windows_between_the_oldest_and_the_newest(
    oldest: int, more: int
) -> None:
    newest = oldest + more
    content = {
        **charged((8, 11)),
        "oldest_contributing_window": {"index": oldest},
        "newest_contributing_window": {"index": newest},
    }
    assert windows_in(content, USERS) == set(range(oldest, newest + 1))
    del content["oldest_contributing_window"]  # as manifests of before have it
    assert windows_in(content, USERS) == {newest}


def test_spans_leave_out_the_windows_that_a_rollback_took_away() -> None:
    behind = [part_blocks(2, WindowId(STREAM, window), POLICY, range(1)) for window in (0, 1, 2, 5)]
    spans = spans_in(charged(*((one.lo, None) for one in behind)), POLICY)
    ends = [(0, 3), (5, 6)]
    assert spans == tuple((start_of(POLICY, first), start_of(POLICY, end)) for first, end in ends)
    days = [f"{start_of(POLICY, window):%Y-%m-%d}" for window in (0, 3, 5, 6)]
    assert spans_in_words(spans) == "{} to {}, {} to {}".format(*days)


def test_a_state_of_devices_has_all_windows_between_its_ends() -> None:
    content = {
        f"{end}_contributing_window": {"index": index} for end, index in (("oldest", 2), ("newest", 4))
    }
    assert spans_in(content, POLICY) == ((start_of(POLICY, 2), start_of(POLICY, 5)),)


def test_of_many_spans_the_last_are_written_out() -> None:
    spans = [
        (start_of(POLICY, 2 * number), start_of(POLICY, 2 * number + 1)) for number in range(SPANS_TOLD + 2)
    ]
    assert spans_in_words(spans).startswith("2 earlier spans, ")
    assert spans_in_words(spans).count(" to ") == SPANS_TOLD
