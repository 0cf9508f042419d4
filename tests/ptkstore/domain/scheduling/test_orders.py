"""Orders among competing claims, on small examples whose answers are worked out beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.accounting.accountants import Caps, Charge
from ptkstore.domain.scheduling.orders import (
    Claim,
    Order,
    by_arrival,
    by_dominant_share,
    by_efficiency,
)


def claim(
    name: str, blocks: Sequence[int], *amounts: int, arrived: int = 0, value: float = 1.0, atto: int = 0
) -> Claim:
    return Claim(name, arrived, tuple(blocks), Charge(amounts, atto), value)


def even(blocks: int, *amounts: int, atto: int = 0) -> dict[int, Caps]:
    return dict.fromkeys(range(blocks), Caps(amounts, atto))


def names(claims: Sequence[Claim]) -> str:
    return "".join(one.ptk_id for one in claims)


def granted(order: Order, claims: Sequence[Claim], capacity: Mapping[int, Caps]) -> str:
    """Who is granted when claims are taken in an order, each if every block has a coordinate with room for it."""
    taken: dict[int, list[Charge]] = {number: [] for number in capacity}
    found = []
    for one in order(claims, capacity):
        together = {number: [*taken[number], one.charge] for number in one.blocks}
        if all(fits(charges, capacity[number]) for number, charges in together.items()):
            found.append(one.ptk_id)
            taken |= together
    return "".join(sorted(found))


def fits(charges: Sequence[Charge], caps: Caps) -> bool:
    sums = [sum(column) for column in zip(*(charge.amounts for charge in charges), strict=True)]
    return any(total <= cap for total, cap in zip(sums, caps.amounts, strict=True))


def test_by_arrival_then_by_name():
    claims = [claim("b", [0], 1, arrived=2), claim("a", [0], 9, arrived=2), claim("c", [0], 5, arrived=1)]
    assert names(by_arrival(claims, {})) == "cab"


# DPF


def test_the_smallest_dominant_share_is_first_however_many_blocks_it_asks_for():
    # of blocks that may lose 10: a asks for 2/10 of five, b for 3/10 of one
    claims = [claim("a", range(5), 2), claim("b", [0], 3)]
    assert names(by_dominant_share(claims, even(5, 10))) == "ab"


def test_the_share_of_the_smallest_block_counts():
    # 2 of 10 and of 4 are .2 and .5; 3 of 10 are .3
    claims = [claim("a", [0, 1], 2), claim("b", [0], 3)]
    assert names(by_dominant_share(claims, {0: Caps((10,), 0), 1: Caps((4,), 0)})) == "ba"


def test_equal_dominant_shares_are_told_apart_by_the_next_ones():
    # a: .5, .2; b: .5, .1; c: .5 alone, so that its second is none
    capacity = {0: Caps((10,), 0), 1: Caps((25,), 0), 2: Caps((50,), 0)}
    claims = [claim("a", [0, 1], 5), claim("b", [0, 2], 5), claim("c", [0], 5)]
    assert names(by_dominant_share(claims, capacity)) == "cba"


def test_under_renyi_the_share_is_the_largest_over_the_orders_in_use():
    # a: 1/10 and 6/10; b: 5/10 and 5/10; the third order is of no use
    claims = [claim("a", [0], 1, 6, 1), claim("b", [0], 5, 5, 9)]
    assert names(by_dominant_share(claims, even(1, 10, 10, -1))) == "ba"


def test_deltas_are_a_resource_as_well():
    claims = [claim("a", [0], 1, atto=9), claim("b", [0], 5, atto=1)]
    assert names(by_dominant_share(claims, even(1, 10, atto=10))) == "ba"
    assert names(by_dominant_share(claims, even(1, 10))) == "ab"  # no deltas at all: both infinite, by name


# DPack


def test_many_blocks_make_a_claim_less_efficient():
    """The example for which DPF is inefficient: one claim on all blocks keeps out one on each of them.

    Blocks may lose 10. a asks for 5/10 of each of four, so its demand is 2; b to e ask for 6/10 of one each: demand .6.
    Beside a none of the others fits (5 + 6 > 10). DPF takes a, with share .5 against .6, and DPack the four others.
    """
    claims = [claim("a", range(4), 5), *(claim(name, [at], 6) for at, name in enumerate("bcde"))]
    capacity = even(4, 10)
    assert names(by_dominant_share(claims, capacity)) == "abcde"
    assert names(by_efficiency(claims, capacity)) == "bcdea"
    assert granted(by_dominant_share, claims, capacity) == "a"
    assert granted(by_efficiency, claims, capacity) == "bcde"


def test_value_counts_against_demand():
    # values 3 and 1 for .6 and .3: 5 and 3.3
    claims = [claim("a", [0], 6, value=3.0), claim("b", [0], 3)]
    assert names(by_efficiency(claims, even(1, 10))) == "ab"


def test_what_is_left_counts_and_not_what_there_was():
    # 2 of 10 left are .2; 1 of 2 left is .5
    claims = [claim("a", [0], 1), claim("b", [1], 2)]
    assert names(by_efficiency(claims, {0: Caps((2,), 0), 1: Caps((10,), 0)})) == "ba"


def test_each_block_is_measured_at_the_order_into_which_most_fits():
    """A filter needs one order within its cap, so demands at the others cost nothing.

    Two orders of 10 each. c, d and e ask for (9, 3), and a for (2, 8). At the first order one of the four fits, at the
    second c, d and e fit together. So demands are measured at the second: .8 for a, .3 for each of the others.
    """
    claims = [claim("a", [0], 2, 8), *(claim(name, [0], 9, 3) for name in "cde")]
    capacity = even(1, 10, 10)
    assert names(by_efficiency(claims, capacity)) == "cdea"
    assert granted(by_efficiency, claims, capacity) == "cde"
    assert granted(by_dominant_share, claims, capacity) == "a"


def test_one_claim_alone_may_be_the_most_that_fits():
    """Two orders of 10 each. At the first, value per amount takes b (1 for 1), beside which a (5 for 10) does not fit.

    But a alone is worth 5. At the second order b and c fit together and are worth 2, so the first is the better one.
    There the efficiencies are 5 of a, 10 of b and 10/11 of c. At the second they would be .5, 2 and 2.
    """
    claims = [claim("a", [0], 10, 99, value=5.0), claim("b", [0], 1, 5), claim("c", [0], 11, 5)]
    assert names(by_efficiency(claims, even(1, 10, 10))) == "bac"
    assert names(by_efficiency(claims[1:], even(1, 10, 10))) == "bc"


def test_a_block_with_nothing_left_puts_a_claim_last():
    claims = [claim("a", [0, 1], 1, value=100.0), claim("b", [1], 9)]
    assert names(by_efficiency(claims, {0: Caps((0,), 0), 1: Caps((10,), 0)})) == "ba"


AMOUNTS = st.tuples(st.integers(1, 12), st.integers(1, 12))
CLAIMS = st.lists(st.tuples(AMOUNTS, st.sets(st.integers(0, 2), min_size=1), st.integers(0, 2)), max_size=5)


@pytest.mark.parametrize("order", [by_arrival, by_dominant_share, by_efficiency])
@given(drawn=CLAIMS)
def test_an_order_is_one_of_all_claims_and_that_of_the_input_changes_nothing(
    order: Order, drawn: list[tuple[tuple[int, int], set[int], int]]
):
    claims = [
        claim(f"p{i}", sorted(blocks), *amounts, arrived=arrived)
        for i, (amounts, blocks, arrived) in enumerate(drawn)
    ]
    capacity = even(3, 10, 7)
    sorted_claims = order(claims, capacity)
    assert sorted(one.ptk_id for one in sorted_claims) == sorted(one.ptk_id for one in claims)
    assert all(order(other, capacity) == sorted_claims for other in list(permutations(claims))[:24])


@given(demands=st.lists(st.integers(1, 10), max_size=7))
def test_on_one_block_of_one_order_equal_values_are_packed_best(demands: list[int]):
    claims = [claim(f"p{i}", [0], amount) for i, amount in enumerate(demands)]
    found = granted(by_efficiency, claims, even(1, 15)).count("p")
    most = max(n for n in range(len(demands) + 1) for some in combinations(demands, n) if sum(some) <= 15)
    assert found == most
