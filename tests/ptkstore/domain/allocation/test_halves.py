"""Two partitions with fixed caps: who goes where, against a search over all splits."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ptkstore.domain.allocation.halves import Effort, Pair, Verdict, split

ITEMS = st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13), st.integers(0, 3)), max_size=6)


def fits(pair: Pair, second: tuple[bool, ...]) -> bool:
    there = np.array(second, dtype=bool)
    loads = (pair.first[~there].sum(), pair.second[there].sum())
    shares = (0, 0) if pair.deltas is None else (pair.deltas[~there].sum(), pair.deltas[there].sum())
    return max(loads) <= pair.capacity and max(shares) <= pair.delta_capacity


def pair_of(items: list[tuple[int, int, int]], capacity: int, delta_capacity: int | None) -> Pair:
    first, second, deltas = np.array(items, dtype=np.int64).reshape(-1, 3).T
    if delta_capacity is None:
        return Pair(first, second, capacity)
    return Pair(first, second, capacity, deltas, delta_capacity)


@settings(max_examples=400, deadline=None)
@given(items=ITEMS, capacity=st.integers(0, 30), delta_capacity=st.one_of(st.none(), st.integers(0, 6)))
def test_a_split_is_found_exactly_if_there_is_one(
    items: list[tuple[int, int, int]], capacity: int, delta_capacity: int | None
) -> None:
    pair = pair_of(items, capacity, delta_capacity)
    exists = any(fits(pair, second) for second in product((False, True), repeat=len(items)))
    answer = split(pair)
    if isinstance(answer, Verdict):
        assert answer is Verdict.NONE
        assert not exists
    else:
        assert fits(pair, tuple(answer.tolist()))


@settings(max_examples=200, deadline=None)
@given(items=ITEMS, capacity=st.integers(0, 30), states=st.integers(1, 3), steps=st.integers(1, 3))
def test_a_short_look_never_denies_what_exists(
    items: list[tuple[int, int, int]], capacity: int, states: int, steps: int
) -> None:
    pair = pair_of(items, capacity, None)
    answer = split(pair, Effort(states, steps))
    if not isinstance(answer, Verdict):
        assert fits(pair, tuple(answer.tolist()))
    elif answer is Verdict.NONE:
        assert not any(fits(pair, second) for second in product((False, True), repeat=len(items)))


def test_a_split_that_leaves_no_room_over_is_found_among_many() -> None:
    """Sixty amounts that fill both partitions to the last unit, and one unit less."""
    amounts = np.random.default_rng(5).integers(1, 60, 60)
    amounts[0] += amounts.sum() % 2
    half = int(amounts.sum()) // 2
    answer = split(Pair(amounts, amounts, half))
    assert not isinstance(answer, Verdict)
    assert amounts[answer].sum() == half
    assert split(Pair(amounts, amounts, half - 1)) is Verdict.NONE


def test_what_costs_nothing_in_the_second_partition_goes_there_before_all_else() -> None:
    first, second = np.array([1, 5, 13, 13]), np.array([0, 4, 9, 9])
    answer = split(Pair(first, second, 13))
    assert not isinstance(answer, Verdict)
    assert fits(Pair(first, second, 13), tuple(answer.tolist()))
