"""Orders among competing claims, on small examples whose answers are worked out beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.scheduling.orders import (
    Amount,
    Claim,
    Order,
    by_arrival,
    by_dominant_share,
    by_efficiency,
)

WHOLE = (10, 0)


def claim(name: str, blocks: Sequence[int], nano: int, *, arrived: int = 0, atto: int = 0) -> Claim:
    return Claim(name, arrived, tuple(blocks), (nano, atto))


def even(blocks: int, nano: int = 10) -> dict[int, Amount]:
    return dict.fromkeys(range(blocks), (nano, 0))


def names(claims: Sequence[Claim]) -> str:
    return "".join(one.ptk_id for one in claims)


def granted(order: Order, claims: Sequence[Claim], left: Mapping[int, Amount]) -> str:
    """Who is granted when claims are taken in an order, each if every block has room for it."""
    free = {number: nano for number, (nano, _) in left.items()}
    found = []
    for one in order(claims, left, WHOLE):
        if all(free[number] >= one.amount[0] for number in one.blocks):
            found.append(one.ptk_id)
            free |= {number: free[number] - one.amount[0] for number in one.blocks}
    return "".join(sorted(found))


def test_by_arrival_then_by_name():
    claims = [claim("b", [0], 1, arrived=2), claim("a", [0], 9, arrived=2), claim("c", [0], 5, arrived=1)]
    assert names(by_arrival(claims, {}, WHOLE)) == "cab"


# DPF


def test_the_smallest_dominant_share_is_first_however_many_blocks_it_asks_for():
    # of blocks that may lose 10: a asks for 2/10 of five, b for 3/10 of one
    claims = [claim("a", range(5), 2), claim("b", [0], 3)]
    assert names(by_dominant_share(claims, even(5), WHOLE)) == "ab"


def test_equal_dominant_shares_are_told_apart_by_the_number_of_blocks():
    claims = [claim("a", [0, 1], 5), claim("b", [0], 5), claim("c", [0, 1, 2], 5)]
    assert names(by_dominant_share(claims, even(3), WHOLE)) == "bac"


def test_a_share_is_of_what_there_was_and_not_of_what_is_left():
    # 2 of 10 and 3 of 10, whatever is left of their blocks
    claims = [claim("a", [0], 2), claim("b", [1], 3)]
    assert names(by_dominant_share(claims, {0: (2, 0), 1: (10, 0)}, WHOLE)) == "ab"


def test_deltas_are_a_resource_as_well():
    claims = [claim("a", [0], 1, atto=9), claim("b", [0], 5, atto=1)]
    assert names(by_dominant_share(claims, {}, (10, 10))) == "ba"
    assert names(by_dominant_share(claims, {}, (10, 1000))) == "ab"
    assert names(by_dominant_share(claims, {}, (10, 0))) == "ab"  # no deltas at all: both infinite, by name


# DPack


def test_many_blocks_make_a_claim_less_efficient():
    """The example for which DPF is inefficient: one claim on all blocks keeps out one on each of them.

    Blocks may lose 10. a asks for 5/10 of each of four, so its demand is 2; b to e ask for 6/10 of one each: demand .6.
    Beside a none of the others fits (5 + 6 > 10). DPF takes a, with share .5 against .6, and DPack the four others.
    """
    claims = [claim("a", range(4), 5), *(claim(name, [at], 6) for at, name in enumerate("bcde"))]
    left = even(4)
    assert names(by_dominant_share(claims, left, WHOLE)) == "abcde"
    assert names(by_efficiency(claims, left, WHOLE)) == "bcdea"
    assert granted(by_dominant_share, claims, left) == "a"
    assert granted(by_efficiency, claims, left) == "bcde"


def test_what_is_left_counts_and_not_what_there_was():
    # 2 of 10 left are .2; 1 of 2 left is .5
    claims = [claim("a", [0], 1), claim("b", [1], 2)]
    assert names(by_efficiency(claims, {0: (2, 0), 1: (10, 0)}, WHOLE)) == "ba"


def test_a_block_with_nothing_left_puts_a_claim_last():
    claims = [claim("a", [0, 1], 1), claim("b", [1], 9)]
    assert names(by_efficiency(claims, {0: (0, 0), 1: (10, 0)}, WHOLE)) == "ba"


CLAIMS = st.lists(
    st.tuples(st.integers(1, 12), st.sets(st.integers(0, 2), min_size=1), st.integers(0, 2)), max_size=5
)


@pytest.mark.parametrize("order", [by_arrival, by_dominant_share, by_efficiency])
@given(drawn=CLAIMS)
def test_an_order_is_one_of_all_claims_and_that_of_the_input_changes_nothing(
    order: Order, drawn: list[tuple[int, set[int], int]]
):
    claims = [
        claim(f"p{i}", sorted(blocks), nano, arrived=arrived)
        for i, (nano, blocks, arrived) in enumerate(drawn)
    ]
    sorted_claims = order(claims, even(3, 7), WHOLE)
    assert sorted(one.ptk_id for one in sorted_claims) == sorted(one.ptk_id for one in claims)
    assert all(order(other, even(3, 7), WHOLE) == sorted_claims for other in list(permutations(claims))[:24])


@given(demands=st.lists(st.integers(1, 10), max_size=7))
def test_on_one_block_as_many_are_packed_as_fit(demands: list[int]):
    claims = [claim(f"p{i}", [0], amount) for i, amount in enumerate(demands)]
    found = granted(by_efficiency, claims, even(1, 15)).count("p")
    most = max(n for n in range(len(demands) + 1) for some in combinations(demands, n) if sum(some) <= 15)
    assert found == most
