"""Odometers against the filters, against sums by hand, and against each other."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.accounting.accountants import Accountant, Charge
from ptkstore.domain.accounting.assurances import UNKNOWN, Assurance, Assured
from ptkstore.domain.accounting.losses import NO_LOSS, Loss, LossShares
from ptkstore.domain.accounting.sharing import COMMON
from ptkstore.domain.ledger.block_ledgers import BlockRecord
from ptkstore.domain.ledger.filters import Filters
from ptkstore.domain.ledger.journal import BudgetRequest, Entry, EntryKind
from ptkstore.domain.ledger.odometers import (
    Odometers,
    PartyOdometer,
    Releases,
    Spent,
    odometers_of,
    shares_of,
)
from ptkstore.domain.streams.blocks import BlockSet, BlockState
from tests.support.builders import block_set

RESERVE, SPEND, RELEASE = EntryKind.RESERVE, EntryKind.SPEND, EntryKind.RELEASE
CAPACITY = Loss.capacity(1, 1e-6)


def blocks(
    count: int = 6, accountant: Accountant = Accountant.BASIC, lines: dict[str, Loss] | None = None
) -> tuple[BlockRecord, ...]:
    return tuple(BlockRecord(n, lines or {COMMON: CAPACITY}, accountant) for n in range(count))


def request(
    key: str,
    where: tuple[int, int] = (0, 1),
    epsilon: object = "0.1",
    *,
    ptk: str = "taxi.speed",
    line: str = COMMON,
    accountant: Accountant = Accountant.BASIC,
    delta: object = 0,
) -> BudgetRequest:
    loss = Loss.charge(Decimal(str(epsilon)), delta)
    return BudgetRequest("taxi", key, ptk, BlockSet(where), loss, Charge.pure(accountant, loss), line)


def journal(*steps: tuple[BudgetRequest, EntryKind], event: str = '{"name":"x"}') -> list[Entry]:
    return [Entry(n, kind, asked, event, "") for n, (asked, kind) in enumerate(steps, start=1)]


def spent(*requests: BudgetRequest) -> list[Entry]:
    return journal(*((one, kind) for one in requests for kind in (RESERVE, SPEND)))


def nothing(releases: Releases, delta: float) -> float:
    return math.inf


def half_the_sum(releases: Releases, delta: float) -> float:
    return sum(loss.epsilon * count for (_, loss), count in releases.items()) / 2


def read(*requests: BudgetRequest, **more: object) -> Odometers:
    return odometers_of(blocks(), spent(*requests), half_the_sum, **more)  # type: ignore[arg-type]


def test_blocks_without_a_journal_have_lost_nothing() -> None:
    found = odometers_of(blocks(2), (), nothing)
    assert [row.spent for row in found.blocks] == [Spent(), Spent()]
    assert (found.stream, found.lines, found.ptks, found.teams) == (Spent(), {COMMON: Spent()}, (), ())
    assert odometers_of((), spent(request("a")), nothing).stream == Spent()


def test_a_block_has_all_three_figures() -> None:
    found = read(request("a", (0, 2), "0.25"), request("b", (1, 3), "0.5", delta=1e-7))
    assert [row.spent for row in found.blocks][:4] == [
        Spent(1, Loss(250_000_000), Loss(250_000_000), Loss(125_000_000, 10**12)),
        Spent(2, Loss(750_000_000, 10**11), Loss(750_000_000, 10**11), Loss(375_000_000, 10**12)),
        Spent(1, Loss(500_000_000, 10**11), Loss(500_000_000, 10**11), Loss(250_000_000, 10**12)),
        Spent(),
    ]
    assert found.stream == found.blocks[1].spent  # blocks are in parallel: the greatest, not the sum


def test_the_tight_figure_is_never_above_what_the_filter_guarantees() -> None:
    found = odometers_of(blocks(1), spent(request("a")), lambda *_: 0.7)
    assert found.blocks[0].spent.tight == found.blocks[0].spent.guarantee == Loss(10**8)
    found = odometers_of(blocks(1), spent(request("a")), nothing)
    assert found.blocks[0].spent.tight == Loss(10**8)


def test_the_tight_figure_is_asked_for_at_the_capacitys_delta_and_rounded_up() -> None:
    asked: list[tuple[Releases, float]] = []

    def tight(releases: Releases, delta: float) -> float:
        asked.append((releases, delta))
        return 0.0123456789012

    found = odometers_of(blocks(1), spent(request("a"), request("b")), tight)
    assert found.stream.tight == Loss(12345679, 10**12)
    assert asked == [({('{"name":"x"}', Loss(10**8)): 2}, 1e-6)]  # once, whoever needs it


def test_reservations_are_told_apart_and_released_ones_are_gone() -> None:
    a, b, c = request("a"), request("b", epsilon="0.2"), request("c", epsilon="0.4")
    found = odometers_of(
        blocks(1), journal((a, RESERVE), (b, RESERVE), (c, RESERVE), (a, SPEND), (c, RELEASE)), nothing
    )
    assert (found.blocks[0].reserved, found.blocks[0].spent.guarantee) == (Loss(2 * 10**8), Loss(10**8))
    assert found.ptks == (PartyOdometer("taxi.speed", found.stream, Loss(2 * 10**8)),)


def test_a_party_counts_its_worst_block_and_a_team_all_of_its_ptks() -> None:
    found = read(
        request("a", (0, 2)),
        request("b", (1, 3), "0.2", ptk="taxi.fares"),
        request("c", (2, 4), "0.3", ptk="bikes.speed"),
        request("d", (2, 3), "0.1"),
    )
    assert {one.name: one.spent.guarantee.epsilon for one in found.ptks} == {
        "bikes.speed": 0.3,
        "taxi.fares": 0.2,
        "taxi.speed": 0.1,
    }
    assert {one.name: one.spent.guarantee.epsilon for one in found.teams} == {"bikes": 0.3, "taxi": 0.3}
    assert found.stream.guarantee.epsilon == 0.6


def test_only_the_blocks_that_are_asked_for_count() -> None:
    entries = spent(request("a", (0, 2)), request("b", (4, 6), "0.5", ptk="bikes.speed"))
    found = odometers_of(blocks()[:3], entries, nothing)
    assert [row.number for row in found.blocks] == [0, 1, 2]
    assert found.stream.guarantee == Loss(10**8)
    assert [one.name for one in found.ptks] == ["taxi.speed"]


def test_losses_between_two_blocks_that_are_asked_for_count_on_neither() -> None:
    found = odometers_of(blocks()[::5], spent(request("a", (1, 5))), nothing)
    assert (found.stream, found.ptks) == (Spent(), ())


@pytest.mark.parametrize("accountant", [Accountant.RENYI, Accountant.ZCDP])
def test_many_small_losses_are_guaranteed_at_the_capacitys_delta(accountant: Accountant) -> None:
    entries = spent(*(request(f"k{n}", epsilon="0.02", accountant=accountant) for n in range(60)))
    records = blocks(1, accountant)
    found = odometers_of(records, entries, nothing).stream
    assert found.guarantee == Filters.of(records, entries).views()[0].spent
    assert (found.guarantee.delta_atto, found.basic) == (CAPACITY.delta_atto, Loss(12 * 10**8))
    assert found.guarantee.epsilon < 1.0


def test_lines_stand_alone_and_add_up_for_who_sees_them_all() -> None:
    lines = {"context east": CAPACITY, "context west": CAPACITY}
    entries = spent(
        request("a", line="context east", epsilon="0.3", ptk="east.a"),
        request("b", line="context west", epsilon="0.5", ptk="west.b"),
    )
    found = odometers_of(blocks(2, lines=lines), entries, nothing)
    assert {(row.number, row.line): row.spent.guarantee.epsilon for row in found.blocks} == {
        (0, "context east"): 0.3,
        (0, "context west"): 0.5,
        (1, "context east"): 0.0,
        (1, "context west"): 0.0,
    }
    assert {line: one.guarantee.epsilon for line, one in found.lines.items()} == {
        "context east": 0.3,
        "context west": 0.5,
    }
    assert found.stream.guarantee.epsilon == 0.8


def test_of_blocks_in_doubt_all_of_the_capacity_counts() -> None:
    found = read(request("a", (0, 3)), in_doubt=lambda number: number == 1)
    assert [row.in_doubt for row in found.blocks[:3]] == [False, True, False]
    assert found.blocks[1].spent == Spent(1, CAPACITY, CAPACITY, CAPACITY)
    assert found.blocks[0].spent.guarantee == Loss(10**8)
    assert found.stream.guarantee == found.lines[COMMON].guarantee == CAPACITY


def test_states_are_told() -> None:
    (block,) = blocks(1)
    (row,) = odometers_of([replace(block, state=BlockState.ERASED)], (), nothing).blocks
    assert row.state is BlockState.ERASED


@pytest.mark.long
@pytest.mark.parametrize("accountant", list(Accountant))
@given(
    st.lists(
        st.tuples(
            st.sets(st.integers(0, 8), min_size=1),
            st.integers(1, 300),
            st.sampled_from([0, 1e-8]),
            st.sampled_from([(RESERVE,), (RESERVE, SPEND), (RESERVE, RELEASE)]),
        ),
        max_size=12,
    )
)
def test_the_guarantee_is_what_the_filters_say(
    accountant: Accountant, asked: list[tuple[set[int], int, object, tuple[EntryKind, ...]]]
) -> None:
    steps = [
        (
            replace(
                request(f"k{n}", epsilon=f"0.{thousandths:03d}", accountant=accountant, delta=delta),
                blocks=block_set(numbers),
            ),
            kind,
        )
        for n, (numbers, thousandths, delta, kinds) in enumerate(asked)
        for kind in kinds
    ]
    entries, records = journal(*steps), blocks(9, accountant)
    views = Filters.of(records, entries).views()
    found = odometers_of(records, entries, nothing)
    assert [(row.number, row.reserved, row.spent.guarantee) for row in found.blocks] == [
        (view.number, view.reserved, view.spent) for view in views
    ]
    for row in found.blocks:
        held = [e for e in entries if e.kind is SPEND and row.number in set(e.blocks)]
        assert row.spent.basic == sum((e.loss for e in held), NO_LOSS)
        assert row.spent.releases == len(held)


# shares of what the library proves and of what is a team's word

KNOWN = {"a.lib": Assured(Assurance.LIBRARY), "a.own": Assured(Assurance.ASSERTED, "a"), "a.lost": UNKNOWN}


def test_under_basic_composition_the_shares_of_a_block_add_up_to_what_it_spent() -> None:
    entries = spent(
        request("1", (0, 2), "0.1", ptk="a.lib"),
        request("2", (0, 1), "0.2", ptk="a.own"),
        request("3", (0, 1), "0.3", ptk="a.lost"),  # of unknown assurance: nobody has proven it
        request("4", (0, 1), "0.05", ptk="a.gone"),
    )
    found = shares_of(blocks(3), entries, KNOWN)
    assert found[0, COMMON] == LossShares(Loss.charge(0.1, 0), Loss.charge(0.55, 0))
    assert found[1, COMMON] == LossShares(Loss.charge(0.1, 0), NO_LOSS)
    assert found[2, COMMON] == LossShares()
    for row in odometers_of(blocks(3), entries, nothing).blocks:
        shares = found[row.number, COMMON]
        assert shares.library + shares.asserted == row.spent.guarantee


def test_what_is_only_reserved_or_was_released_is_in_no_share() -> None:
    one, other = request("1", ptk="a.lib"), request("2", ptk="a.own")
    entries = journal((one, RESERVE), (other, RESERVE), (other, RELEASE))
    assert shares_of(blocks(1), entries, KNOWN) == {(0, COMMON): LossShares()}


@given(
    st.sampled_from([Accountant.RENYI, Accountant.ZCDP]),
    st.lists(st.tuples(st.sampled_from(sorted(KNOWN)), st.integers(1, 300)), min_size=1, max_size=10),
)
def test_under_pooled_accountants_no_share_is_more_than_what_was_spent_and_together_they_are_no_less(
    accountant: Accountant, asked: list[tuple[str, int]]
) -> None:
    entries = spent(
        *(
            request(f"k{n}", (0, 1), f"0.{thousandths:03d}", ptk=ptk, accountant=accountant)
            for n, (ptk, thousandths) in enumerate(asked)
        )
    )
    (row,) = odometers_of(blocks(1, accountant), entries, nothing).blocks
    shares, whole = shares_of(blocks(1, accountant), entries, KNOWN)[0, COMMON], row.spent.guarantee
    assert max(shares.library.epsilon_nano, shares.asserted.epsilon_nano) <= whole.epsilon_nano
    assert shares.library.epsilon_nano + shares.asserted.epsilon_nano >= whole.epsilon_nano


def test_each_line_of_a_block_has_shares_of_its_own() -> None:
    lines = {"ads": CAPACITY, "ops": CAPACITY}
    entries = spent(
        request("1", ptk="a.own", line="ads", epsilon="0.2"),
        request("2", ptk="a.lib", line="ops", epsilon="0.3"),
    )
    assert shares_of(blocks(1, lines=lines), entries, KNOWN) == {
        (0, "ads"): LossShares(asserted=Loss.charge(0.2, 0)),
        (0, "ops"): LossShares(library=Loss.charge(0.3, 0)),
    }
