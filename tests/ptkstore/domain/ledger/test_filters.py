"""Filters under every accountant: against a slow reading of the rule, and against exact compositions."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptklib.accounting import profile_epsilon, renyi_epsilon
from ptkstore.domain.accounting.accountants import (
    ORDERS,
    SATURATED,
    Accountant,
    Caps,
    Charge,
    admits,
    caps_of,
    loss_of,
)
from ptkstore.domain.accounting.losses import ATTO, NANO, Loss
from ptkstore.domain.accounting.sharing import COMMON, Sharing, check_sharing
from ptkstore.domain.ledger.block_ledgers import BlockRecord
from ptkstore.domain.ledger.filters import Filters
from ptkstore.domain.ledger.journal import GENESIS, BudgetRequest, EntryKind, next_entry
from ptkstore.domain.ledger.rules import Denied, Granted, decide, decide_all, verify
from ptkstore.domain.streams.blocks import BlockRange, BlockSet, BlockState
from ptkstore.errors import InvalidRequest, InvariantBroken, Refused
from tests.support.builders import block_set

WHOLE = Loss.capacity(1, 1e-6)
RENYI, ZCDP, BASIC = Accountant.RENYI, Accountant.ZCDP, Accountant.BASIC


def gaussian(accountant: Accountant, rho: float) -> Charge:
    """A Gaussian release: rho times the order, never pure."""
    curve = (rho, math.inf) if accountant is ZCDP else (*(order * rho for order in ORDERS), math.inf)
    return Charge.of(curve, 0.0)


def blocks(accountant: Accountant, n: int = 4, capacity: Loss = WHOLE) -> tuple[BlockRecord, ...]:
    return tuple(BlockRecord(number, {COMMON: capacity}, accountant) for number in range(n))


def request(charge: Charge, lo: int = 0, hi: int = 4, key: str = "k", line: str = COMMON) -> BudgetRequest:
    return BudgetRequest("taxi", key, "taxi.speed", BlockSet((lo, hi)), Loss(1), charge, line)


def admitted(accountant: Accountant, charge: Charge, capacity: Loss = WHOLE) -> int:
    """How many such charges fit a block."""
    filters, n = Filters.of(blocks(accountant, 1, capacity)), 0
    while isinstance(decide(filters, request(charge, 0, 1)), Granted):
        filters.promise(request(charge, 0, 1))
        n += 1
    return n


@pytest.mark.parametrize("rho", [1e-2, 1e-3, 3e-4])
@pytest.mark.parametrize("capacity", [WHOLE, Loss.capacity(0.3, 1e-9), Loss.capacity(8, 1e-5)])
@pytest.mark.parametrize("accountant", [RENYI, ZCDP])
def test_admitted_gaussians_stay_within_the_exact_privacy_profile(
    accountant: Accountant, capacity: Loss, rho: float
) -> None:
    n = admitted(accountant, gaussian(accountant, rho), capacity)
    exact = profile_epsilon(1 / math.sqrt(2 * rho * n), capacity.delta) if n else 0.0
    assert exact <= capacity.epsilon
    if n > 20:  # and the filter is not far from what could be admitted at all
        assert exact >= 0.75 * capacity.epsilon


def test_curves_admit_far_more_than_sums_of_epsilons() -> None:
    charge, loss = gaussian(RENYI, 1e-4), Loss.charge(0.1, 1e-8)  # that release is about (.08, 1e-8)-DP
    assert admitted(RENYI, charge) > 10 * admitted(BASIC, Charge.basic(loss))
    assert admitted(ZCDP, gaussian(ZCDP, 1e-4)) >= admitted(RENYI, charge)


@pytest.mark.parametrize("accountant", list(Accountant))
def test_pure_losses_add_up_at_least_as_well_as_in_basic_composition(accountant: Accountant) -> None:
    tenth = Charge.pure(accountant, Loss.charge(0.1))
    assert admitted(accountant, tenth) >= 10
    assert admitted(accountant, tenth, Loss.capacity(1)) == 10  # without delta there is nothing else
    assert admitted(accountant, Charge.pure(accountant, Loss.charge(1))) == 1


@pytest.mark.parametrize("accountant", list(Accountant))
def test_deltas_of_mechanisms_add_up_beside_the_curves(accountant: Accountant) -> None:
    charge = Charge.pure(accountant, Loss.charge(1e-6, 2e-7))
    assert admitted(accountant, charge) == (5 if accountant is BASIC else 2)


def test_caps_are_those_of_the_conversion_and_delta_is_split_once() -> None:
    caps = caps_of(RENYI, WHOLE)
    used = [order for order, cap in zip(ORDERS, caps.amounts, strict=False) if cap > 0]
    assert used == [16, 23, 32, 45, 64, 128, 256, 1024]
    assert caps.delta_atto == ATTO // 10**6 // 2
    for order, cap in zip(ORDERS, caps.amounts, strict=False):
        if cap > 0:
            converted = renyi_epsilon([order], [cap / NANO], 5e-7 / len(used))
            assert 1 - 1e-8 <= converted <= 1 + 1e-9
            simple = 1 - math.log(len(used) / 5e-7) / (order - 1)
            assert cap / NANO > simple
    assert caps_of(RENYI, Loss.capacity(1)) == Caps((-1,) * len(ORDERS) + (NANO,), 0)
    assert caps_of(BASIC, WHOLE) == Caps((NANO,), ATTO // 10**6)


@settings(max_examples=40)
@given(st.floats(1e-6, 10), st.sampled_from([0.0, 1e-18, 1e-12, 1e-9, 1e-6, 1e-2]))
def test_every_capacity_has_caps_that_convert_back(epsilon: float, delta: float) -> None:
    capacity = Loss.capacity(epsilon, delta)
    caps = caps_of(RENYI, capacity)
    used = [(order, cap) for order, cap in zip(ORDERS, caps.amounts, strict=False) if cap >= 0]
    assert caps.amounts[-1] == capacity.epsilon_nano
    for order, cap in used:
        share = (capacity.delta_atto - caps.delta_atto) / ATTO / len(used)
        assert renyi_epsilon([order], [cap / NANO], share) <= capacity.epsilon * (1 + 1e-9) + 2e-9
    (rho, pure), caps_delta = caps_of(ZCDP, capacity).amounts, caps_of(ZCDP, capacity).delta_atto
    assert (pure, caps_delta) == (capacity.epsilon_nano, caps.delta_atto)
    if rho > 0:
        multiplier = 1 / math.sqrt(2 * rho / NANO)
        assert profile_epsilon(multiplier, capacity.delta_atto // 2 / ATTO) <= capacity.epsilon + 1e-9


def test_an_infinite_amount_kills_its_coordinate_alone() -> None:
    charge = gaussian(RENYI, 1e-4)
    assert charge.amounts[-1] == SATURATED
    filters = Filters.of(blocks(RENYI))
    filters.promise(request(charge))
    assert decide(filters, request(gaussian(RENYI, 1e-4))) == Granted("k")
    assert isinstance(decide(filters, request(Charge.pure(RENYI, Loss.charge(0.99)))), Denied)
    assert Charge.of((math.inf,) * 16, 0.0).amounts == (SATURATED,) * 16


def test_amounts_are_rounded_up_and_never_vanish() -> None:
    assert Charge.of((1e-30, 0.0, 1.0), 1e-30).amounts[:2] == (1, 1)
    assert Charge.of((0.1,), 0.0).amounts[0] == 100_000_001  # the margin
    assert Charge.of((1.0,), 1e-30).delta_atto == 1
    for wrong in (math.nan, -1.0):
        with pytest.raises(InvalidRequest):
            Charge.of((wrong,), 0.0)
    for amounts, delta in (((0,), 0), ((), 0), ((1,), -1), ((SATURATED + 1,), 0), ((1,), ATTO + 1)):
        with pytest.raises(InvalidRequest):
            Charge(amounts, delta)


CHARGES = [
    gaussian(RENYI, 5e-3),
    gaussian(RENYI, 2e-4),
    Charge.pure(RENYI, Loss.charge(0.2)),
    Charge.pure(RENYI, Loss.charge(0.05, 1e-7)),
]


@given(
    st.lists(
        st.tuples(st.sampled_from(CHARGES), st.sets(st.integers(0, 3), min_size=1), st.booleans()),
        max_size=40,
    )
)
def test_decisions_are_those_of_the_rule_read_slowly(steps: list[tuple[Charge, set[int], bool]]) -> None:
    caps = caps_of(RENYI, WHOLE)
    filters = Filters.of(blocks(RENYI))
    sums = [[0] * (len(ORDERS) + 2) for _ in range(4)]
    for charge, numbers, keep in steps:
        wish = replace(request(charge), blocks=block_set(numbers))
        amounts = [*charge.amounts, charge.delta_atto]
        full = []
        for number in wish.blocks:
            after = [s + a for s, a in zip(sums[number], amounts, strict=True)]
            if after[-1] > caps.delta_atto or all(s > c for s, c in zip(after, caps.amounts, strict=False)):
                full.append(number)
        assert decide(filters, wish) == (Denied("k", tuple(full)) if full else Granted("k"))
        if not full and keep:
            filters.promise(wish)
            for number in wish.blocks:
                sums[number] = [s + a for s, a in zip(sums[number], amounts, strict=True)]


LINED = tuple(
    BlockRecord(n, {COMMON: WHOLE, "own": Loss.capacity(0.3)}, RENYI, state)
    for n, state in enumerate([BlockState.ACTIVE] * 4 + [BlockState.RETIRED])
)
WISHES = st.lists(
    st.tuples(
        st.sampled_from([*CHARGES, Charge.pure(RENYI, Loss.charge(0.4))]),
        st.sampled_from([(0, 4), (0, 1), (1, 2, 3, 4), (2, 4), (0, 5)]),
        st.sampled_from([COMMON, "own"]),
    ),
    min_size=1,
    max_size=12,
)


def wished(wishes: list[tuple[Charge, tuple[int, ...], str]], first: int = 0) -> list[BudgetRequest]:
    return [
        replace(request(charge, key=f"k{n}", line=line), blocks=BlockSet(edges))
        for n, (charge, edges, line) in enumerate(wishes, first)
    ]


@given(WISHES, WISHES)
def test_decisions_together_are_those_of_one_after_the_other(
    before: list[tuple[Charge, tuple[int, ...], str]], asked: list[tuple[Charge, tuple[int, ...], str]]
) -> None:
    filters = Filters.of(LINED)
    for wish in wished(before):  # and the filters learn at which order there is room
        if isinstance(decide(filters, wish), Granted):
            filters.promise(wish)
    alone = filters.copy()
    expected = []
    for wish in wished(asked):
        expected.append(decide(alone, wish))
        if isinstance(expected[-1], Granted):
            alone.promise(wish)
    seen = filters.views()
    assert decide_all(filters, wished(asked)) == expected
    assert filters.views() == seen


def test_requests_decided_together_are_added_up_where_their_blocks_overlap() -> None:
    filters, fifth = Filters.of(blocks(RENYI)), Charge.pure(RENYI, Loss.charge(0.2))
    assert decide(filters, request(fifth)) == Granted("k")
    places = [(0, 4), (0, 1), (0, 2), (0, 3), (0, 1, 2, 3), (0, 1, 3, 4)]
    *granted, last = decide_all(filters, wished([(fifth, edges, COMMON) for edges in places]))
    assert all(isinstance(one, Granted) for one in granted)
    assert last == Denied("k5", (0,))


@pytest.mark.parametrize(("n", "delta"), [(10, ATTO), (923, ATTO // 100), (9_300, ATTO // 1_000)])
def test_deltas_of_many_requests_do_not_wrap_around(n: int, delta: int) -> None:
    filters = Filters.of(blocks(BASIC, 1, Loss.capacity(1)))
    small = Charge((1,))
    assert decide(filters, request(small, 0, 1)) == Granted("k")
    asked = [request(Charge((1,), delta), 0, 1, key=str(number)) for number in range(n)]
    assert decide_all(filters, asked) == [Denied(str(number), (0,)) for number in range(n)]


def test_requests_decided_together_name_the_one_whose_blocks_do_not_exist() -> None:
    filters = Filters.of(blocks(RENYI))
    small = CHARGES[1]
    assert decide(filters, request(small)) == Granted("k")  # from now on the quick test says yes
    with pytest.raises(InvalidRequest, match="'far' asks for blocks"):
        decide_all(filters, [request(small), request(small, 2, 9, key="far")])
    assert filters.views() == Filters.of(blocks(RENYI)).views()


@given(WISHES, st.lists(st.sampled_from(EntryKind), min_size=12, max_size=12))
def test_lines_taken_in_together_add_up_to_those_taken_in_one_by_one(
    wishes: list[tuple[Charge, tuple[int, ...], str]], ends: list[EntryKind]
) -> None:
    steps = [(EntryKind.RESERVE, wish) for wish in wished(wishes)]
    steps += [
        (end, wish) for end, (_, wish) in zip(ends, steps, strict=False) if end is not EntryKind.RESERVE
    ]
    last, entries = (0, GENESIS), []
    for kind, wish in steps:
        entries.append(next_entry(last, kind, wish, "{}", ""))
        last = entries[-1].sequence, entries[-1].digest
    together, one_by_one = Filters.of(LINED), Filters.of(LINED)
    together.apply(*entries)
    for entry in entries:
        one_by_one.apply(entry)
    assert together.views() == one_by_one.views()
    assert (together.sequence, together.digest) == last
    together.revert(entries, 0, GENESIS)
    assert together.views() == Filters.of(LINED).views()


UNLIKE = (WHOLE, Loss.capacity(0.4, 1e-9), Loss.capacity(1), Loss.capacity(3, 1e-5))
SHAPES = st.lists(
    st.sampled_from([2, 16, 32, 45, 64, 256, 1024, math.inf]), min_size=1, max_size=3, unique=True
)


def room_at(orders: list[float], capacity: Loss, left: int) -> Charge:
    """What leaves a block `left` nano-units at some orders, and nothing at any other."""
    caps = caps_of(RENYI, capacity)
    pairs = zip((*ORDERS, math.inf), caps.amounts, strict=True)
    return Charge(tuple(max(1, cap - left) if order in orders else SATURATED for order, cap in pairs))


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.sampled_from(UNLIKE), SHAPES, st.booleans()), min_size=1, max_size=6),
    st.lists(
        st.tuples(
            st.sets(st.integers(0, 5), min_size=1),
            st.lists(st.sampled_from([1, 10**6, 10**6 + 1, SATURATED]), min_size=16, max_size=16),
            st.sampled_from([0, 1, ATTO // 10**6 // 2, ATTO // 10**6]),
            st.booleans(),
        ),
        max_size=12,
    ),
)
def test_unlike_blocks_are_decided_by_the_plain_rule_whatever_was_decided_before(
    made: list[tuple[Loss, list[float], bool]], steps: list[tuple[set[int], list[int], int, bool]]
) -> None:
    """Among them states in which each block has room, but no order has room in all of them."""
    filters, sums = Filters(), []
    for number, (capacity, orders, active) in enumerate(made):
        state = BlockState.ACTIVE if active else BlockState.RETIRED
        filters.put([BlockRecord(number, {COMMON: capacity}, RENYI, state)])
        used = room_at(orders, capacity, 10**6)
        filters.promise(request(used, number, number + 1))
        sums.append(used)
    for numbers, amounts, delta, keep in steps:
        there = {number for number in numbers if number < len(made)}
        if not there:
            continue
        charge, full = Charge(tuple(amounts), delta), []
        wish = replace(request(charge), blocks=block_set(there))
        for number in wish.blocks:
            used, caps = sums[number], caps_of(RENYI, made[number][0])
            after = [u + a for u, a in zip(used.amounts, amounts, strict=True)]
            fits = admits(caps, after, used.delta_atto + delta)
            full += [] if fits and made[number][2] else [number]
        assert filters.exhausted(wish) == tuple(full)
        if keep and not full:
            filters.promise(wish)
            for number in wish.blocks:
                pairs = zip(sums[number].amounts, amounts, strict=True)
                more = tuple(min(SATURATED, u + a) for u, a in pairs)
                sums[number] = Charge(more, sums[number].delta_atto + delta)


def test_blocks_with_room_at_different_orders_are_granted_together_and_the_full_one_is_named() -> None:
    filters = Filters.of(blocks(RENYI, 3))
    for number, order in enumerate((16, 64, math.inf)):
        filters.promise(request(room_at([order], WHOLE, 10), number, number + 1))
    assert decide(filters, request(Charge((10,) * 16), 0, 3)) == Granted("k")
    assert decide(filters, request(Charge((11,) * 16), 0, 3)) == Denied("k", (0, 1, 2))
    one = tuple(11 if order == 64 else 10 for order in (*ORDERS, math.inf))
    assert decide(filters, request(Charge(one), 0, 3)) == Denied("k", (1,))


def test_room_at_an_order_that_had_some_before_does_not_pay_for_a_delta() -> None:
    filters, half = Filters.of(blocks(RENYI, 3)), ATTO // 10**6 // 2
    assert decide(filters, request(Charge((1,) * 16), 0, 3)) == Granted("k")
    assert decide(filters, request(Charge((1,) * 16, half), 0, 3)) == Granted("k")
    assert decide(filters, request(Charge((1,) * 16, half + 1), 0, 3)) == Denied("k", (0, 1, 2))
    filters.promise(request(Charge((1,) * 16, 1), 1, 2))
    assert decide(filters, request(Charge((1,) * 16, half), 0, 3)) == Denied("k", (1,))


def test_the_orders_and_the_caps_of_blocks_that_exist_do_not_move() -> None:
    """A block's delta is split over the orders once, when it is created: its caps follow from this list for good."""
    assert ORDERS == (1.5, 2.0, 3.0, 4.0, 5.5, 8.0, 11.0, 16.0, 23.0, 32.0, 45.0, 64.0, 128.0, 256.0, 1024.0)
    assert caps_of(RENYI, WHOLE) == Caps(
        (
            -1,
            -1,
            -1,
            -1,
            -1,
            -1,
            -1,
            143504483,
            432969714,
            608446653,
            731985656,
            818459210,
            915433185,
            960608323,
            991537521,
            1000000000,
        ),
        500_000_000_000,
    )
    assert caps_of(RENYI, Loss.capacity(10, 1e-6)) == Caps(
        (
            -1,
            -1,
            2417967704,
            5058577827,
            6785368694,
            7991507742,
            8627738997,
            9111137296,
            9410901177,
            9592785111,
            9720951387,
            9810752737,
            9911610289,
            9958704371,
            9991062928,
            10000000000,
        ),
        500_000_000_000,
    )
    assert caps_of(ZCDP, WHOLE) == Caps((22937227, 1000000000), 500_000_000_000)


@pytest.mark.parametrize("accountant", list(Accountant))
def test_the_shown_loss_is_none_at_first_and_the_capacity_at_last(accountant: Accountant) -> None:
    charge = Charge.basic(Loss.charge(0.05)) if accountant is BASIC else gaussian(accountant, 1e-3)
    filters, shown = Filters.of(blocks(accountant, 1)), []
    while isinstance(decide(filters, request(charge, 0, 1)), Granted):
        filters.promise(request(charge, 0, 1))
        shown.append(filters.views()[0].committed.epsilon)
    assert shown == sorted(shown)
    assert 0.9 < shown[-1] <= 1
    assert filters.views()[0].spent == Loss(0)
    assert loss_of(accountant, WHOLE, (0,) * len(accountant.coordinates), 0) == Loss(0)


@pytest.mark.parametrize("accountant", list(Accountant))
@pytest.mark.parametrize("epsilon", [1.07, 2.14, 4.03])
def test_a_pure_loss_is_shown_to_the_nano(accountant: Accountant, epsilon: float) -> None:
    loss = Loss.charge(epsilon)
    charge = Charge.pure(accountant, loss)
    assert loss_of(accountant, Loss.capacity(epsilon, 1e-6), charge.amounts, charge.delta_atto) == loss


def test_a_block_is_used_up_when_its_spends_leave_no_room_on_any_line() -> None:
    lines = {COMMON: Loss(10), "ptk a.b": Loss(10)}
    filters = Filters.of([BlockRecord(n, lines) for n in (0, 1)])
    last = (0, "")

    def spend(key: str, line: str, n: int) -> None:
        nonlocal last
        for kind in (EntryKind.RESERVE, EntryKind.SPEND):
            entry = next_entry(last, kind, request(Charge((n,)), 0, 1, key, line), "{}", "")
            last = (entry.sequence, entry.digest)
            filters.apply(entry)

    one = Charge((1,))
    spend("a", COMMON, 10)
    assert filters.used_up(BlockSet((0, 2)), one) == ()
    filters.promise(request(Charge((10,)), 0, 2, "b", "ptk a.b"))  # only promised: it may come back
    assert filters.used_up(BlockSet((0, 2)), one) == ()
    filters.take_back(request(Charge((10,)), 0, 2, "b", "ptk a.b"))
    spend("c", "ptk a.b", 10)
    assert filters.used_up(BlockSet((0, 2)), one) == (0,)


def test_blocks_may_come_in_any_order_and_keep_their_sums() -> None:
    filters = Filters.of([BlockRecord(5, {COMMON: Loss(10)}), BlockRecord(9, {COMMON: Loss(10)})])
    filters.promise(request(Charge((3,)), 5, 6))
    filters.promise(request(Charge((4,)), 9, 10))
    filters.put(
        [BlockRecord(7, {COMMON: Loss(20)}), BlockRecord(1, {COMMON: Loss(30), "context eu": Loss(2)})]
    )
    found = {(v.number, v.line): (v.committed, v.capacity) for v in filters.views()}
    assert found == {
        (1, COMMON): (Loss(0), Loss(30)),
        (1, "context eu"): (Loss(0), Loss(2)),
        (5, COMMON): (Loss(3), Loss(10)),
        (7, COMMON): (Loss(0), Loss(20)),
        (9, COMMON): (Loss(4), Loss(10)),
    }
    assert decide(filters, request(Charge((1,)), 5, 6, line="context eu")) == Denied("k", (5,))
    filters.put([BlockRecord(9, {COMMON: Loss(10)}, state=BlockState.RETIRED)])
    assert decide(filters, request(Charge((1,)), 9, 10)) == Denied("k", (9,))
    with pytest.raises(InvariantBroken):
        filters.put([BlockRecord(11, {COMMON: WHOLE}, RENYI)])


def test_a_spend_that_costs_more_than_was_charged_is_found() -> None:
    last, journal = (0, "0" * 64), []
    for kind in (EntryKind.RESERVE, EntryKind.SPEND):
        journal.append(next_entry(last, kind, request(Charge((5,))), "{}", ""))
        last = (journal[-1].sequence, journal[-1].digest)
    records = blocks(BASIC)
    assert verify(records, journal, lambda *_: Charge((5,))) == ()
    assert verify(records, journal, lambda *_: Charge((6,))) == ("entry 2 charges less than its event costs",)


EU_US = (("eu", ("taxi", "bikes")), ("us", ("fares",)))


def test_contexts_each_have_the_whole_capacity_and_shares_are_kept_apart() -> None:
    shared = Sharing(EU_US, "the two regions have separate staff", (("taxi.speed", Decimal("0.25")),))
    check_sharing(shared, WHOLE)
    assert {line: part.epsilon for line, part in shared.lines(WHOLE).items()} == {
        "context eu": 0.75,
        "context us": 1.0,
        "ptk taxi.speed": 0.25,
    }
    assert shared.line_of("taxi.speed") == "ptk taxi.speed"
    assert shared.line_of("taxi.fare") == shared.line_of("bikes.trips") == "context eu"
    assert shared.line_of("fares.mean") == "context us"
    with pytest.raises(Refused, match="none of them"):
        shared.line_of("others.mean")
    assert Sharing().lines(WHOLE) == {COMMON: WHOLE}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Sharing(EU_US), "no_collusion"),
        (Sharing(no_collusion="there are no contexts at all"), "belongs to contexts"),
        (Sharing((*EU_US, ("asia", ("taxi",))), "separate staff everywhere"), "one of them only"),
        (Sharing((("eu", ()),), "separate staff everywhere"), "at least one team"),
        (Sharing(reserved=(("taxi.speed", Decimal(2)),)), r"\(0, 1\]"),
        (Sharing(reserved=(("taxi.speed", Decimal("0.6")), ("taxi.fare", Decimal("0.6")))), "more than 1"),
        (Sharing(reserved=(("taxi.speed", Decimal("0.6")),) * 2), "one reserved share"),
        (Sharing(reserved=(("taxi", Decimal("0.6")),)), "<team>.<name>"),
        (Sharing(EU_US, "separate staff everywhere", (("x.y", Decimal("0.5")),)), "none of them"),
        (Sharing(reserved=(("taxi.speed", Decimal("1e-9")),)), "less than any PTK can use"),
    ],
)
def test_a_sharing_that_promises_too_much_is_refused(wrong: Sharing, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        check_sharing(wrong, WHOLE)


@pytest.mark.parametrize(
    ("accountant", "capacity", "epsilon"),
    [(RENYI, (1, 1e-2), 1e-4), (RENYI, (0.1, 1e-2), 1e-3), (ZCDP, (0.5, 1e-2), 1e-3)],
)
def test_a_loss_that_a_large_delta_pays_for_is_shown_as_no_epsilon(
    accountant: Accountant, capacity: tuple[float, float], epsilon: float
) -> None:
    filters = Filters.of(blocks(accountant, 1, Loss.capacity(*capacity)))
    filters.promise(request(Charge.pure(accountant, Loss.charge(epsilon)), 0, 1))
    assert 0 <= filters.views()[0].committed.epsilon <= epsilon


def test_views_of_blocks_with_equal_sums_are_computed_once_and_those_of_others_are_not_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = replace(WHOLE, epsilon_nano=WHOLE.epsilon_nano // 2)
    records = (*blocks(RENYI, 6), BlockRecord(6, {COMMON: small}, RENYI))
    filters = Filters.of(records)
    wish = request(gaussian(RENYI, 0.001), 1, 4)
    filters.promise(wish)
    filters.promise(request(gaussian(RENYI, 0.002), 6, 7, "other"))
    alone = [filters.views(BlockRange(number, number + 1))[0] for number in range(7)]
    computed: list[tuple[int, ...]] = []

    def counted(accountant: Accountant, capacity: Loss, amounts: list[int], delta: int) -> Loss:
        computed.append(tuple(amounts))
        return loss_of(accountant, capacity, amounts, delta)

    monkeypatch.setattr("ptkstore.domain.ledger.filters.loss_of", counted)
    assert list(filters.views()) == alone
    assert (
        len(computed) == 3 * 3
    )  # reserved, spent and both: of untouched blocks, of three alike, and of the small one
