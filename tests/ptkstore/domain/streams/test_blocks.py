"""Blocks: a number for each part and group or shard, side by side where a training charges, and the rows behind."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.streams.blocks import (
    FIRST_TRAIN,
    HASH_RANGE,
    STRIDE_MIN,
    BlockPlace,
    BlockRange,
    BlockSet,
    Rows,
    blocks_of,
    created_with,
    erased_with,
    groups_of,
    groups_where,
    part_bounds,
    parts_of,
    place_of,
    rows_behind,
    rows_by_window,
    shard_bounds,
    share_of,
    stride_of,
    train_blocks,
)
from ptkstore.domain.streams.policies import Policy, PrivacyUnit
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import InvalidRequest

RECORDS = Policy(Loss.capacity(1), timedelta(days=1), datetime(2026, 1, 5, tzinfo=UTC), rows_per_window=1_000)
CITIES = replace(RECORDS, attribute="city", attribute_values=("berlin", "paris", "rome"))
IN_WINDOW = replace(RECORDS, privacy_unit=PrivacyUnit.USER_IN_WINDOW, unit_column="user")
USERS = replace(RECORDS, privacy_unit=PrivacyUnit.USER, unit_column="user", user_shards=8)
POLICIES = st.one_of(
    st.builds(
        lambda k, n: replace(
            RECORDS, train_partitions=k, attribute="city" if n else None, attribute_values=tuple(range(n))
        ),
        st.integers(1, 64),
        st.integers(0, 62),
    ),
    st.builds(
        lambda k, n: replace(USERS, train_partitions=k, user_shards=n),
        st.integers(1, 14),
        st.integers(1, 256),
    ),
)


def window(index: int = 0) -> WindowId:
    return WindowId("taxi", index)


def test_without_attribute_and_users_a_window_has_one_block_per_part() -> None:
    assert stride_of(RECORDS) == STRIDE_MIN == 128
    assert blocks_of(window(6), RECORDS) == BlockRange(768, 771)
    assert train_blocks(window(6), RECORDS, 0) == BlockRange(770, 771)
    assert train_blocks(window(6), IN_WINDOW, 0) == BlockRange(770, 771)
    assert place_of(770, RECORDS) == BlockPlace(6, FIRST_TRAIN)


def test_an_attribute_gives_each_part_a_block_for_each_value_side_by_side() -> None:
    policy = replace(CITIES, train_partitions=2)
    assert blocks_of(window(1), policy) == BlockRange(128, 128 + 12)
    assert train_blocks(window(1), policy, 1) == BlockRange(128 + 9, 128 + 12)
    assert train_blocks(window(1), policy, 1, groups=range(1, 2)) == BlockRange(138, 139)
    assert place_of(138, policy) == BlockPlace(1, 3, group=1)


def test_numbers_of_a_window_grow_by_powers_of_two() -> None:
    policy = replace(RECORDS, train_partitions=14, attribute="city", attribute_values=tuple(range(256)))
    assert stride_of(policy) == 4096
    assert blocks_of(window(1), policy) == BlockRange(4096, 8192)


@given(policy=POLICIES, index=st.integers(0, 1000))
def test_each_block_of_a_window_has_a_place_of_its_own(policy: Policy, index: int) -> None:
    numbers = blocks_of(window(index), policy).numbers()
    places = [place_of(number, policy) for number in numbers]
    assert len(set(places)) == len(places) == parts_of(policy) * max(groups_of(policy), policy.user_shards)
    assert {place.window for place in places} == {None if policy.privacy_unit is PrivacyUnit.USER else index}
    assert places == sorted(places, key=lambda p: (p.part, p.group, p.shard))


@given(policy=POLICIES, index=st.integers(0, 1000))
def test_windows_share_no_block_but_shards_of_users(policy: Policy, index: int) -> None:
    one, other = (set(blocks_of(window(i), policy).numbers()) for i in (index, index + 1))
    assert (one == other) if policy.privacy_unit is PrivacyUnit.USER else not one & other


def test_shards_of_users_are_made_with_the_first_window_and_outlive_them_all() -> None:
    assert created_with(window(0), USERS) == BlockRange(0, 24)
    assert created_with(window(1), USERS) is None
    assert erased_with(window(0), USERS) is None
    for policy in (RECORDS, CITIES, IN_WINDOW):
        for index in (0, 1):
            assert created_with(window(index), policy) == blocks_of(window(index), policy)
            assert erased_with(window(index), policy) == blocks_of(window(index), policy)


@pytest.mark.parametrize(
    ("policy", "number"), [(RECORDS, 3), (RECORDS, 127), (RECORDS, -1), (CITIES, 9), (USERS, 24), (USERS, -1)]
)
def test_a_number_without_a_block_is_refused(policy: Policy, number: int) -> None:
    with pytest.raises(InvalidRequest, match="no block"):
        place_of(number, policy)


def test_a_partition_that_is_not_there_is_refused() -> None:
    for partition in (-1, 1):
        with pytest.raises(InvalidRequest, match="no train partition"):
            train_blocks(window(), RECORDS, partition)


# where


@pytest.mark.parametrize(
    ("where", "groups"),
    [
        (None, range(3)),
        ({}, range(3)),
        ({"city": "paris"}, range(1, 2)),
        ({"city": ["rome", "paris"]}, range(1, 3)),
        ({"city": ["rome", "paris", "berlin"]}, range(3)),
    ],
)
def test_where_names_one_value_or_some_that_follow_each_other(where: Any, groups: range) -> None:
    assert groups_where(CITIES, where) == groups


@pytest.mark.parametrize(
    ("policy", "where", "says"),
    [
        (CITIES, {"zone": "paris"}, "blocks by 'city'"),
        (CITIES, {"city": "paris", "zone": 1}, "blocks by 'city'"),
        (CITIES, {"city": "oslo"}, "outside the domain"),
        (CITIES, {"city": []}, "names no value"),
        (CITIES, {"city": ["berlin", "rome"]}, "follow each other"),
        (CITIES, {"city": [["paris"]]}, "outside the domain"),
        (RECORDS, {"city": "paris"}, "has no blocks by an attribute"),
        (USERS, {"city": "paris"}, "has no blocks by an attribute"),
        (
            replace(RECORDS, attribute="long", attribute_values=(True, False)),
            {"long": 1},
            "outside the domain",
        ),
    ],
)
def test_another_where_is_refused(policy: Policy, where: Any, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        groups_where(policy, where)


# rows behind blocks


def test_a_training_on_all_rows_opens_its_part_and_nothing_else() -> None:
    assert rows_behind(RECORDS, BlockRange(770, 771), 800) == Rows(
        2, (2,), part_bounds(RECORDS)[1], HASH_RANGE
    )


def test_a_training_on_some_rows_opens_their_share_of_the_window() -> None:
    opened = rows_behind(RECORDS, BlockRange(770, 771), 200)
    assert (opened.high - opened.low) / HASH_RANGE == pytest.approx(0.2)
    assert opened.low == part_bounds(RECORDS)[1]


def test_a_training_on_several_windows_opens_the_same_share_of_each() -> None:
    blocks = BlockSet.of(*(train_blocks(window(index), CITIES, 0, groups=range(1, 2)) for index in (9, 2, 5)))
    opened = rows_by_window(CITIES, blocks, 9, 600)
    assert list(opened) == [2, 5, 9]
    start = part_bounds(CITIES)[1]
    assert set(opened.values()) == {Rows(2, (7,), start, start + HASH_RANGE * 600 // 3_000)}
    whole = Rows(2, (7,), start, HASH_RANGE)
    assert set(rows_by_window(CITIES, blocks, 9, 2_400).values()) == {whole}  # all that the part has
    assert set(rows_by_window(CITIES, blocks, 9, None).values()) == {whole}


def test_a_run_on_shards_of_users_opens_their_rows_of_the_newest_window() -> None:
    blocks = train_blocks(window(4), USERS, 0, n_rows=200)
    assert rows_by_window(USERS, BlockSet.of(blocks), 4, 200) == {4: rows_behind(USERS, blocks, 200)}


def test_a_training_on_one_value_opens_its_file_alone() -> None:
    opened = rows_behind(CITIES, BlockRange(128 + 7, 128 + 8), 800)
    assert (opened.part, opened.files) == (2, (7,))
    assert rows_behind(CITIES, BlockRange(128 + 6, 128 + 9), 800).files == (6, 7, 8)


def test_a_training_that_was_granted_fewer_shards_than_it_asked_for_opens_those_alone() -> None:
    opened = rows_behind(USERS, BlockRange(18, 20), 800)
    assert opened.low == shard_bounds(USERS, 2, 2)[0]
    assert opened.high == shard_bounds(USERS, 2, 3)[1]


@pytest.mark.parametrize(
    ("policy", "blocks"),
    [(RECORDS, BlockRange(1, 3)), (CITIES, BlockRange(5, 7)), (USERS, BlockRange(15, 17))],
)
def test_blocks_of_two_parts_are_never_opened_by_one_training(policy: Policy, blocks: BlockRange) -> None:
    with pytest.raises(InvalidRequest, match="one part"):
        rows_behind(policy, blocks, 10)


def test_a_training_on_few_users_charges_few_shards_and_the_next_one_others() -> None:
    quarter = 200  # of the 800 rows that the train part has in expectation: two of its eight shards
    turns = [train_blocks(window(turn), USERS, 0, n_rows=quarter, turn=turn) for turn in range(5)]
    assert turns == [BlockRange(lo, lo + 2) for lo in (16, 18, 20, 22, 16)]
    opened = [rows_behind(USERS, blocks, quarter) for blocks in turns]
    assert [(o.high - o.low) / HASH_RANGE for o in opened] == pytest.approx([0.2] * 5)
    assert all(a.high <= b.low for a, b in pairwise(opened[:4]))


@given(policy=POLICIES, n_rows=st.integers(1, 2_000), turn=st.integers(0, 500), data=st.data())
def test_every_opened_hash_lies_in_a_charged_block(
    policy: Policy, n_rows: int, turn: int, data: st.DataObject
) -> None:
    partition = data.draw(st.integers(0, policy.train_partitions - 1))
    blocks = train_blocks(window(turn), policy, partition, n_rows=n_rows, turn=turn)
    opened = rows_behind(policy, blocks, n_rows)
    assert opened.part == FIRST_TRAIN + partition
    first, last = place_of(blocks.lo, policy), place_of(blocks.hi - 1, policy)
    assert shard_bounds(policy, opened.part, first.shard)[0] == opened.low
    assert opened.low < opened.high <= shard_bounds(policy, opened.part, last.shard)[1]
    if policy.privacy_unit is PrivacyUnit.USER and blocks.hi - blocks.lo < policy.user_shards:
        assert (
            opened.high > shard_bounds(policy, opened.part, last.shard)[0]
        )  # no shard is charged for nothing
    asked = min(Decimal(n_rows) / 1_000, share_of(policy, opened.part))
    assert abs(Decimal(opened.high - opened.low) / HASH_RANGE - asked) < Decimal("0.0011")


@given(shards=st.integers(1, 256), partitions=st.integers(1, 14))
def test_shards_cut_a_part_without_gap_or_overlap(shards: int, partitions: int) -> None:
    policy = replace(USERS, user_shards=shards, train_partitions=partitions)
    bounds = (0, *part_bounds(policy))
    for part in range(parts_of(policy)):
        cuts = [shard_bounds(policy, part, shard) for shard in range(shards)]
        assert [low for low, _ in cuts] == [bounds[part], *(high for _, high in cuts[:-1])]
        assert cuts[-1][1] == bounds[part + 1]
        assert max(h - lo for lo, h in cuts) - min(h - lo for lo, h in cuts) <= 1
