"""Filters under every accountant: against a slow reading of the rule, and against exact compositions."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptklib.accounting import profile_epsilon, renyi_epsilon
from ptkstore.domain.accountants import ORDERS, SATURATED, Accountant, Caps, Charge, caps_of, loss_of
from ptkstore.domain.blocks import BlockRange, BlockState
from ptkstore.domain.filters import BlockRecord, Filters
from ptkstore.domain.journal import BudgetRequest, EntryKind, next_entry
from ptkstore.domain.ledger import Denied, Granted, decide, verify
from ptkstore.domain.losses import ATTO, NANO, Loss
from ptkstore.domain.sharing import COMMON, Sharing, check_sharing
from ptkstore.errors import InvalidRequest, InvariantBroken, Refused

WHOLE = Loss.capacity(1, 1e-6)
RENYI, ZCDP, BASIC = Accountant.RENYI, Accountant.ZCDP, Accountant.BASIC


def gaussian(accountant: Accountant, rho: float) -> Charge:
    """A Gaussian release: rho times the order, never pure."""
    curve = (rho, math.inf) if accountant is ZCDP else (*(order * rho for order in ORDERS), math.inf)
    return Charge.of(curve, 0.0)


def blocks(accountant: Accountant, n: int = 4, capacity: Loss = WHOLE) -> tuple[BlockRecord, ...]:
    return tuple(BlockRecord(number, {COMMON: capacity}, accountant) for number in range(n))


def request(charge: Charge, lo: int = 0, hi: int = 4, key: str = "k", line: str = COMMON) -> BudgetRequest:
    return BudgetRequest("taxi", key, "taxi.speed", BlockRange(lo, hi), Loss(1), charge, line)


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
        st.tuples(st.sampled_from(CHARGES), st.integers(0, 3), st.integers(1, 4), st.booleans()), max_size=40
    )
)
def test_decisions_are_those_of_the_rule_read_slowly(steps: list[tuple[Charge, int, int, bool]]) -> None:
    caps = caps_of(RENYI, WHOLE)
    filters = Filters.of(blocks(RENYI))
    sums = [[0] * (len(ORDERS) + 2) for _ in range(4)]
    for charge, lo, width, keep in steps:
        wish = request(charge, lo, min(4, lo + width))
        amounts = [*charge.amounts, charge.delta_atto]
        full = []
        for number in wish.blocks.numbers():
            after = [s + a for s, a in zip(sums[number], amounts, strict=True)]
            if after[-1] > caps.delta_atto or all(s > c for s, c in zip(after, caps.amounts, strict=False)):
                full.append(number)
        assert decide(filters, wish) == (Denied("k", tuple(full)) if full else Granted("k"))
        if not full and keep:
            filters.promise(wish)
            for number in wish.blocks.numbers():
                sums[number] = [s + a for s, a in zip(sums[number], amounts, strict=True)]


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
    assert filters.used_up(BlockRange(0, 2), one) == ()
    filters.promise(request(Charge((10,)), 0, 2, "b", "ptk a.b"))  # only promised: it may come back
    assert filters.used_up(BlockRange(0, 2), one) == ()
    filters.take_back(request(Charge((10,)), 0, 2, "b", "ptk a.b"))
    spend("c", "ptk a.b", 10)
    assert filters.used_up(BlockRange(0, 2), one) == (0,)


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
