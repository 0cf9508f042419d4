"""The filter and the journal's own arithmetic, tampering included."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.accounting.accountants import Charge
from ptkstore.domain.accounting.losses import NO_LOSS, Loss
from ptkstore.domain.accounting.sharing import COMMON
from ptkstore.domain.ledger.block_ledgers import BlockLedger, BlockRecord
from ptkstore.domain.ledger.filters import Filters
from ptkstore.domain.ledger.journal import GENESIS, BudgetRequest, Entry, EntryKind, chained_digest
from ptkstore.domain.ledger.rules import Denied, Granted, decide, decide_all, outcome_of, verify
from ptkstore.domain.streams.blocks import BlockSet, BlockState
from ptkstore.errors import Conflict, InvalidRequest, InvariantBroken

RESERVE, SPEND, RELEASE = EntryKind.RESERVE, EntryKind.SPEND, EntryKind.RELEASE
THREE = Loss(3, 1)
BLOCKS = tuple(BlockRecord(number, {COMMON: Loss(10, 4)}) for number in (2, 3))


def entry(key: str, kind: EntryKind = RESERVE, loss: Loss = THREE, blocks: tuple[int, int] = (2, 4)) -> Entry:
    return Entry(0, kind, replace(request(loss, blocks), key=key), '{"mechanism":"laplace"}', "")


def sums(entries: list[Entry]) -> dict[int, BlockLedger]:
    return {view.number: view for view in Filters.of(BLOCKS, entries).views()}


def chained(*entries: Entry) -> list[Entry]:
    """The entries numbered and digested as the ledger writes them."""
    journal: list[Entry] = []
    for number, one in enumerate(entries, start=1):
        numbered = replace(one, sequence=number)
        previous = journal[-1].digest if journal else GENESIS
        journal.append(replace(numbered, digest=chained_digest(previous, numbered)))
    return journal


def request(loss: Loss, blocks: tuple[int, int] = (2, 4)) -> BudgetRequest:
    return BudgetRequest("taxi", "k", "taxi.speed", BlockSet(blocks), loss, Charge.basic(loss))


def altered(one: Entry, **change: Any) -> Entry:
    own = {name: value for name, value in change.items() if name in ("kind", "event_text", "nonce", "digest")}
    asked = {name: value for name, value in change.items() if name not in own}
    return replace(one, request=replace(one.request, **asked), **own)


GOOD = chained(entry("a"), entry("b", loss=Loss(2)), entry("a", SPEND), entry("b", RELEASE, Loss(2)))


@pytest.mark.parametrize(
    ("loss", "fits"),
    [(Loss(10, 4), True), (Loss(11, 0), False), (Loss(1, 5), False), (Loss(1, 0), True)],
)
def test_a_loss_is_granted_when_both_coordinates_fit(loss: Loss, fits: bool) -> None:
    assert decide(Filters.of(BLOCKS), request(loss)) == (Granted("k") if fits else Denied("k", (2, 3)))


def test_what_is_reserved_counts_like_what_is_spent() -> None:
    held = Filters.of(
        BLOCKS, chained(*(entry(*e, blocks=(2, 3)) for e in (("a", RESERVE), ("b", RESERVE), ("a", SPEND))))
    )
    assert held.views()[0].left == Loss(4, 2)
    assert decide(held, request(Loss(4, 2))) == Granted("k")
    assert decide(held, request(Loss(5, 2))) == Denied("k", (2,))


@pytest.mark.parametrize("state", [BlockState.RETIRED, BlockState.ERASED])
def test_a_block_that_is_not_active_takes_nothing(state: BlockState) -> None:
    filters = Filters.of((BLOCKS[0], replace(BLOCKS[1], state=state)))
    assert decide(filters, request(Loss(1))) == Denied("k", (3,))


def test_a_block_that_does_not_exist_is_a_mistake() -> None:
    for blocks in ((1, 3), (3, 5), (4, 6)):
        with pytest.raises(InvalidRequest, match="do not exist"):
            decide(Filters.of(BLOCKS), request(Loss(1), blocks))
    with pytest.raises(InvalidRequest, match="no line"):
        decide(Filters.of(BLOCKS), replace(request(Loss(1)), line="context eu"))


def test_requests_of_one_call_are_decided_beside_each_other() -> None:
    filters = Filters.of(BLOCKS)
    wishes = [
        replace(request(loss), key=key) for key, loss in (("a", Loss(6)), ("b", Loss(5)), ("c", Loss(4)))
    ]
    assert decide_all(filters, wishes) == [Granted("a"), Denied("b", (2, 3)), Granted("c")]
    assert decide_all(filters, wishes[1:]) == [Granted("b"), Granted("c")]  # nothing stays behind


def test_the_answer_to_a_known_key_is_its_history() -> None:
    wish = replace(request(THREE), key="a")
    assert outcome_of(wish, ()) is None
    assert outcome_of(wish, chained(entry("a"))) == Granted("a")
    assert outcome_of(wish, chained(entry("a"), entry("a", SPEND))) == Granted("a")
    assert outcome_of(wish, chained(entry("a"), entry("a", RELEASE))) == Denied("a", ())
    for other in (
        replace(wish, loss=Loss(3)),
        replace(wish, charge=Charge((4,), 1)),
        replace(wish, line="context eu"),
        replace(wish, blocks=BlockSet((2, 3))),
        replace(wish, ptk_id="x.y"),
    ):
        with pytest.raises(Conflict):
            outcome_of(other, chained(entry("a")))


def test_sums_follow_from_the_journal_alone() -> None:
    assert [(b.reserved, b.spent) for b in sums(GOOD).values()] == [(NO_LOSS, Loss(3, 1))] * 2
    assert sums(GOOD[:2])[2].reserved == Loss(5, 1)
    assert sums(chained(entry("c", blocks=(3, 9))))[2].committed == NO_LOSS


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(list(EntryKind)), st.integers(1, 4)), max_size=30
    )
)
def test_sums_agree_with_adding_up_by_hand(steps: list[tuple[int, EntryKind, int]]) -> None:
    state: dict[int, str] = {}
    amount: dict[int, int] = {}
    entries = []
    for number, kind, nano in steps:
        if kind is RESERVE and number not in state:
            state[number], amount[number] = "reserve", nano
        elif kind is not RESERVE and state.get(number) == "reserve":
            state[number] = kind.value
        else:
            continue
        entries.append(entry(f"k{number}", kind, Loss(amount[number])))
    block = sums(entries)[2]
    assert block.reserved.epsilon_nano == sum(a for k, a in amount.items() if state[k] == "reserve")
    assert block.spent.epsilon_nano == sum(a for k, a in amount.items() if state[k] == "spend")


@pytest.mark.parametrize(
    "end",
    [
        entry("x", SPEND),
        entry("a", SPEND, Loss(2, 1)),
        entry("a", RELEASE, Loss(9, 1)),
        entry("a", SPEND, blocks=(2, 3)),
        altered(entry("a", SPEND), ptk_id="taxi.other"),
        altered(entry("a", SPEND), charge=Charge((2,), 1)),
        altered(entry("a", SPEND), line="context eu"),
    ],
    ids=["no reservation", "less", "more", "elsewhere", "another PTK", "another charge", "another line"],
)
def test_an_end_that_is_not_the_end_of_its_reservation_is_found(end: Entry) -> None:
    journal = chained(entry("a"), end)
    with pytest.raises(InvariantBroken):
        Filters.of(BLOCKS, journal)
    assert verify(BLOCKS, journal) == ("entry 2 ends no reservation like it, or repeats one",)


def test_a_sound_journal_has_no_faults() -> None:
    assert verify(BLOCKS, GOOD) == ()
    assert verify(BLOCKS, ()) == ()


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize(
    "change",
    [
        {"stream": "bikes"},
        {"key": "z"},
        {"kind": RELEASE},
        {"ptk_id": "taxi.other"},
        {"blocks": BlockSet((2, 3))},
        {"blocks": BlockSet((1, 4))},
        {"blocks": BlockSet((1, 3, 4, 5))},
        {"loss": Loss(2, 1)},
        {"loss": Loss(3, 0)},
        {"charge": Charge((2,), 1)},
        {"charge": Charge((3,), 2)},
        {"line": "context eu"},
        {"event_text": '{"mechanism":"none"}'},
        {"nonce": "other"},
        {"digest": "0" * 64},
    ],
    ids=str,
)
def test_every_field_of_every_entry_is_under_the_digest(position: int, change: dict[str, Any]) -> None:
    if position == 3 and change == {"kind": RELEASE}:
        change = {"kind": SPEND}
    journal = [*GOOD]
    journal[position] = altered(journal[position], **change)
    assert f"entry {position + 1} does not match its digest" in verify(BLOCKS, journal)


@pytest.mark.parametrize("gone", range(3))
def test_a_missing_entry_is_found(gone: int) -> None:
    assert verify(BLOCKS, [e for i, e in enumerate(GOOD) if i != gone])


def test_a_gap_is_found_even_when_the_digests_go_on_without_it() -> None:
    second = replace(entry("b"), sequence=3)
    journal = [GOOD[0], replace(second, digest=chained_digest(GOOD[0].digest, second))]
    assert verify(BLOCKS, journal) == ("sequence 2 is missing before 3",)


def test_swapped_entries_are_found_even_when_numbered_anew() -> None:
    swapped = [replace(GOOD[1], sequence=1), replace(GOOD[0], sequence=2), *GOOD[2:]]
    assert verify(BLOCKS, swapped)


def test_a_key_that_is_used_again_is_found() -> None:
    for again in (entry("a"), entry("a", SPEND), entry("a", RELEASE)):
        assert verify(BLOCKS, chained(entry("a"), entry("a", SPEND), again))
    assert verify(BLOCKS, chained(entry("a"), entry("a")))


def test_an_overspend_is_found() -> None:
    journal = chained(*(entry(f"k{n}", loss=Loss(3)) for n in range(4)))
    assert verify(BLOCKS, journal) == ("block 2 is over its capacity", "block 3 is over its capacity")
