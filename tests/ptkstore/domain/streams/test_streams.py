"""Streams, policies, windows and blocks: names, limits, half-open intervals, shares of the keyed hash."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.durations import duration
from ptkstore.domain.names import checked_name, ptk_id_of, split_ptk_id
from ptkstore.domain.ptks.ptks import windows_between
from ptkstore.domain.streams.blocks import (
    HASH_RANGE,
    BlockRange,
    BlockSet,
    part_bounds,
    parts_of,
    share_of,
)
from ptkstore.domain.streams.policies import BLOCKS_MAX, Policy, PrivacyUnit, present_origin
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import closable_before, expired_before, index_of, start_of
from ptkstore.errors import InvalidRequest

ORIGIN = datetime(2026, 1, 5, tzinfo=UTC)
DAY = timedelta(days=1)
TICK = timedelta(microseconds=1)
POLICY = Policy(Loss.capacity(1), DAY, ORIGIN)
AT = ("at", ColumnType.TIMESTAMP)
SHARES = st.decimals(0, "0.49", places=9)


@pytest.mark.parametrize("name", ["a", "taxi", "t_1", "a" * 63, "x9_y"])
def test_good_names_pass(name: str) -> None:
    assert checked_name("stream", name) == name


@pytest.mark.parametrize(
    "name",
    ["", "A", "1a", "_a", "a__b", "a-b", "a.b", "a b", "a/b", "../a", "a\n", "ä", "a" * 64, "a\x00", None, 7],
)
def test_other_names_are_refused(name: Any) -> None:
    with pytest.raises(InvalidRequest):
        checked_name("stream", name)


def test_a_ptk_id_is_team_and_name() -> None:
    assert ptk_id_of("taxi", "speed") == "taxi.speed"
    assert split_ptk_id("taxi.speed") == ("taxi", "speed")


@pytest.mark.parametrize("ptk_id", ["taxi", "taxi.", ".speed", "taxi.a.b", "taxi.a__b", "../x.y", ""])
def test_what_is_no_ptk_id_is_refused(ptk_id: str) -> None:
    with pytest.raises(InvalidRequest):
        split_ptk_id(ptk_id)


@pytest.mark.parametrize(
    ("columns", "time_column"),
    [
        ((), "at"),
        ((AT, AT), "at"),
        ((AT, ("Hour", ColumnType.INT64)), "at"),
        ((AT, ("ptk_row", ColumnType.INT64)), "at"),
        ((AT,), "when"),
        ((("at", ColumnType.INT64),), "at"),
    ],
    ids=["none", "twice", "name", "reserved", "unknown time", "time of another type"],
)
def test_a_schema_that_cannot_work_is_refused(columns: Any, time_column: str) -> None:
    with pytest.raises(InvalidRequest):
        Schema(columns, time_column)


IN_WINDOW = {"privacy_unit": PrivacyUnit.USER_IN_WINDOW, "unit_column": "user"}
USER = {"privacy_unit": PrivacyUnit.USER, "unit_column": "user"}
CITIES = {"attribute": "city", "attribute_values": ("berlin", "paris")}


@pytest.mark.parametrize(
    "change",
    [
        {"capacity": Loss(0)},
        {"capacity": Loss(10**10 + 1)},
        {"window": timedelta(0)},
        {"window": timedelta(milliseconds=1500)},
        {"window": timedelta(days=999_999_999)},
        {"origin": datetime(2026, 1, 5)},
        {"origin": datetime(2026, 1, 5, tzinfo=timezone(timedelta(hours=1)))},
        {"lateness": -TICK},
        {"lateness": DAY},
        {"lateness": timedelta(days=999_999_999), "retention_windows": 10_000},
        {"future_skew": -TICK},
        {"future_skew": timedelta(days=999_999_999)},
        {"retention_windows": 0},
        {"retention_windows": 10**30},
        {"retention_windows": True},
        {"retention_windows": 1.5},
        {"n_max": 10**30},
        {"n_max": 5, "rows_per_window": 6},
        {"rows_per_window": 0},
        {"rows_per_window": "10"},
        {"profile_share": Decimal("0.5"), "test_share": Decimal("0.5")},
        {"profile_share": Decimal("-0.1")},
        {"train_partitions": 0},
        {"max_cell_bytes": 0},
        {"asserted_text": 1},
        {"max_cell_bytes": 2**20 + 1},
        {"train_partitions": 65},
        {"unit_column": "user"},
        {"max_rows_per_unit": 2},
        {"user_shards": 2},
        {**IN_WINDOW, "unit_column": None},
        {**IN_WINDOW, "user_shards": 2},
        {**IN_WINDOW, "max_rows_per_unit": 0},
        {**IN_WINDOW, "max_rows_per_unit": 10_001},
        {**IN_WINDOW, "max_rows_per_unit": True},
        {**USER, "user_shards": 0},
        {**USER, "user_shards": 257},
        {**USER, "user_shards": 256, "train_partitions": 15},
        {**USER, **CITIES},
        {"attribute": "city"},
        {"attribute_values": ("berlin",)},
        {"attribute": "city", "attribute_values": ("berlin", "berlin")},
        {"attribute": "city", "attribute_values": tuple(range(257))},
        {"attribute": "city", "attribute_values": tuple(range(256)), "train_partitions": 15},
    ],
    ids=str,
)
def test_a_policy_that_cannot_be_kept_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        replace(POLICY, **change)


def test_a_policy_at_its_limits_is_kept() -> None:
    replace(POLICY, capacity=Loss.capacity(10), lateness=DAY - TICK, train_partitions=64, n_max=10**12)
    replace(POLICY, capacity=Loss.capacity(1e-6), window=timedelta(seconds=1), rows_per_window=1_000_000)


def test_units_and_attributes_at_their_limits_are_kept() -> None:
    replace(POLICY, **IN_WINDOW, **CITIES, max_rows_per_unit=10_000)
    shards = replace(POLICY, **USER, user_shards=256, train_partitions=14)
    values = replace(POLICY, attribute="city", attribute_values=tuple(range(256)), train_partitions=14)
    assert parts_of(shards) * 256 == parts_of(values) * 256 == BLOCKS_MAX


COLUMNS = (
    AT,
    ("user", ColumnType.STRING),
    ("city", ColumnType.STRING),
    ("zone", ColumnType.INT64),
    ("long", ColumnType.BOOL),
    ("speed", ColumnType.FLOAT64),
)


def stream_with(**changes: Any) -> Stream:
    return Stream("taxi", "taxi", Schema(COLUMNS, "at"), replace(POLICY, **changes))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({**IN_WINDOW, "unit_column": "rider"}, "'rider' must be a declared int64 or string"),
        ({**IN_WINDOW, "unit_column": "speed"}, "'speed' must be a declared int64 or string"),
        ({**IN_WINDOW, "unit_column": "at"}, "'at' must be a declared int64 or string"),
        ({**IN_WINDOW, "attribute": "user", "attribute_values": ("ann",)}, "publish a list of users"),
        ({"attribute": "town", "attribute_values": ("a",)}, "'town': it must be a declared"),
        ({"attribute": "speed", "attribute_values": (1,)}, "'speed': it must be a declared"),
        ({"attribute": "zone", "attribute_values": ("7",)}, "'7' is no int64"),
        ({"attribute": "zone", "attribute_values": (True,)}, "True is no int64"),
        ({"attribute": "zone", "attribute_values": (2**63,)}, "is no int64"),
        ({"attribute": "long", "attribute_values": (1,)}, "1 is no bool"),
        ({"attribute": "city", "attribute_values": (7,)}, "7 is no string"),
        ({"attribute": "city", "attribute_values": ("a\nb",)}, "is no string"),
        ({"attribute": "city", "attribute_values": ("a" * 201,)}, "is no string"),
    ],
    ids=str,
)
def test_columns_of_units_and_attributes_must_be_able_to_serve(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(says)):
        stream_with(**changes)


def test_columns_that_can_serve_do() -> None:
    stream_with(**IN_WINDOW)
    stream_with(**{**IN_WINDOW, "unit_column": "zone"})
    stream_with(attribute="zone", attribute_values=(-(2**63), 0, 2**63 - 1))
    stream_with(attribute="long", attribute_values=(True, False))
    stream_with(attribute="city", attribute_values=("", "São Paulo"))


def test_streams_and_teams_have_good_names() -> None:
    schema = Schema((AT,), "at")
    for name, team in (("Taxi", "taxi"), ("taxi", "ta__xi")):
        with pytest.raises(InvalidRequest):
            Stream(name, team, schema, POLICY)


def test_assurances_are_ordered() -> None:
    weak, middle, strong = Assurance.ASSERTED, Assurance.COMPOSED, Assurance.LIBRARY
    assert [a.at_least(middle) for a in (weak, middle, strong)] == [False, True, True]


# durations


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("6h", timedelta(hours=6)),
        (" 1 D ", DAY),
    ],
)
def test_durations_are_read(text: str, span: timedelta) -> None:
    assert duration(text) == span


@pytest.mark.parametrize(
    "text",
    ["", "1", "d", "0d", "-1d", "1.5h", "1w", "1d1h", "inf", "9" * 5000 + "d", None, 5, ["1d"]],
    ids=lambda text: repr(text)[:9],
)
def test_what_is_no_duration_is_refused(text: Any) -> None:
    with pytest.raises(InvalidRequest):
        duration(text)


def test_a_training_frequency_is_a_whole_number_of_windows() -> None:
    assert windows_between(POLICY, "48h") == 2
    for wrong in ("36h", "12h"):
        with pytest.raises(InvalidRequest, match="multiple"):
            windows_between(POLICY, wrong)


# windows


@pytest.mark.parametrize(
    ("window", "at"),
    [
        ("10s", "2026-01-07T13:25:40"),
        ("15m", "2026-01-07T13:15"),
        ("1h", "2026-01-07T13:00"),
        ("5h", "2026-01-07T10:00"),
        ("1d", "2026-01-07"),
        ("7d", "2026-01-07"),
    ],
)
def test_a_stream_begins_with_the_window_of_the_present(window: str, at: str) -> None:
    now = datetime(2026, 1, 7, 13, 25, 47, 123, tzinfo=UTC)
    assert present_origin(now, duration(window)) == datetime.fromisoformat(at).replace(tzinfo=UTC)


def test_windows_are_half_open() -> None:
    assert [index_of(POLICY, ORIGIN + d) for d in (-TICK, TICK * 0, DAY - TICK, DAY)] == [-1, 0, 0, 1]
    assert start_of(POLICY, 3) == ORIGIN + 3 * DAY


@given(index=st.integers(-1000, 1000), inside=st.integers(0, 86_399_999_999))
def test_each_instant_lies_in_the_window_between_two_starts(index: int, inside: int) -> None:
    assert index_of(POLICY, start_of(POLICY, index) + inside * TICK) == index


@pytest.mark.parametrize(
    ("reached", "lateness", "closable"),
    [
        (DAY - TICK, 0, 0),
        (DAY, 0, 1),
        (DAY, 6, 0),
        (DAY + timedelta(hours=6) - TICK, 6, 0),
        (DAY + timedelta(hours=6), 6, 1),
        (-3 * DAY, 0, 0),
        (timedelta(0), 6, 0),
    ],
)
def test_a_window_can_close_once_its_end_and_lateness_have_passed(
    reached: timedelta, lateness: int, closable: int
) -> None:
    policy = replace(POLICY, lateness=timedelta(hours=lateness))
    assert closable_before(policy, ORIGIN + reached) == closable


@pytest.mark.parametrize(
    ("reached", "retention", "expired"),
    [(2 * DAY - TICK, 1, 0), (2 * DAY, 1, 1), (3 * DAY, 2, 1), (3 * DAY - TICK, 2, 0), (-DAY, 1, 0)],
)
def test_a_window_expires_when_its_retention_has_passed_after_its_end(
    reached: timedelta, retention: int, expired: int
) -> None:
    policy = replace(POLICY, retention_windows=retention)
    assert expired_before(policy, ORIGIN + reached) == expired


@given(
    reached=st.integers(0, 10**12),
    lateness=st.integers(0, 3 * 86_400_000_000 - 1),
    retention=st.integers(1, 5),
)
def test_no_window_expires_before_it_could_close(reached: int, lateness: int, retention: int) -> None:
    retention = max(retention, lateness // (86_400 * 10**6) + 1)
    policy = replace(POLICY, lateness=lateness * TICK, retention_windows=retention)
    at = ORIGIN + reached * TICK
    assert expired_before(policy, at) <= closable_before(policy, at)


# blocks


@pytest.mark.parametrize(("lo", "hi"), [(1, 1), (2, 1), (-1, 1)])
def test_a_block_range_is_half_open_and_never_empty(lo: int, hi: int) -> None:
    assert list(BlockRange(3, 5).numbers()) == [3, 4]
    with pytest.raises(InvalidRequest):
        BlockRange(lo, hi)


@given(st.lists(st.sets(st.integers(0, 12), min_size=1), min_size=1, max_size=4))
def test_a_block_set_holds_the_numbers_of_its_ranges_once_in_order(some: list[set[int]]) -> None:
    ranges = [BlockRange(min(numbers), max(numbers) + 1) for numbers in some]
    blocks = BlockSet.of(*ranges)
    assert list(blocks) == sorted({number for one in ranges for number in one})
    assert len(blocks) == len(list(blocks))
    assert all(one.hi < other.lo for one, other in pairwise(blocks.ranges))
    assert BlockSet.of(*reversed(ranges)) == blocks == BlockSet(blocks.edges)


@pytest.mark.parametrize("edges", [(), (1,), (1, 1), (2, 1), (-1, 1), (0, 1, 1, 2), (0, 1, 2), (4, 5, 0, 1)])
def test_ranges_that_do_not_rise_or_leave_no_gap_are_no_block_set(edges: tuple[int, ...]) -> None:
    with pytest.raises(InvalidRequest):
        BlockSet(edges)


@given(profile=SHARES, test=SHARES, partitions=st.integers(1, 64))
def test_parts_cover_the_hash_range_once_in_their_shares(
    profile: Decimal, test: Decimal, partitions: int
) -> None:
    policy = replace(POLICY, profile_share=profile, test_share=test, train_partitions=partitions)
    bounds = part_bounds(policy)
    assert list(bounds) == sorted(bounds)
    assert (len(bounds), bounds[-1]) == (parts_of(policy), HASH_RANGE)
    sizes = [high - low for low, high in zip((0, *bounds), bounds, strict=False)]
    assert sum(sizes) == HASH_RANGE
    assert abs(sizes[0] - profile * HASH_RANGE) <= 1
    assert abs(sizes[1] - test * HASH_RANGE) <= 1
    assert max(sizes[2:]) - min(sizes[2:]) <= 1
    assert abs(sum(share_of(policy, part) for part in range(len(bounds))) - 1) < Decimal("1e-20")


def part_of(policy: Policy, keyed_hash: int) -> int:
    """The first part whose bound lies above the hash."""
    return next(part for part, bound in enumerate(part_bounds(policy)) if keyed_hash < bound)


@given(
    units=st.sets(st.integers(0, HASH_RANGE - 1), min_size=1, max_size=40),
    partitions=st.integers(1, 8),
    data=st.data(),
)
def test_adding_or_removing_one_unit_changes_exactly_one_part(
    units: set[int], partitions: int, data: st.DataObject
) -> None:
    policy = replace(POLICY, train_partitions=partitions)
    gone = data.draw(st.sampled_from(sorted(units)))

    def parts(members: set[int]) -> Counter[tuple[int, int]]:
        return Counter((part_of(policy, unit), unit) for unit in members)

    assert parts(units) - parts(units - {gone}) == Counter([(part_of(policy, gone), gone)])
    assert not parts(units - {gone}) - parts(units)
