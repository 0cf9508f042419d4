"""The filter and the journal's own arithmetic, tampering included."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.blocks import BlockRange, BlockState
from ptkstore.domain.ledger import (
    GENESIS,
    BlockLedger,
    BudgetRequest,
    Denied,
    Entry,
    EntryKind,
    Granted,
    chained_digest,
    decide,
    fold,
    outcome_of,
    verify,
)
from ptkstore.domain.losses import NO_LOSS, Loss
from ptkstore.errors import Conflict, InvariantBroken

RESERVE, SPEND, RELEASE = EntryKind.RESERVE, EntryKind.SPEND, EntryKind.RELEASE
THREE = Loss(3, 1)
BLOCKS = tuple(BlockLedger(number, Loss(10, 4), BlockState.ACTIVE) for number in (2, 3))


def entry(key: str, kind: EntryKind = RESERVE, loss: Loss = THREE, blocks: tuple[int, int] = (2, 4)) -> Entry:
    return Entry("taxi", 0, key, kind, "taxi.speed", BlockRange(*blocks), loss, {"mechanism": "laplace"}, "")


def chained(*entries: Entry) -> list[Entry]:
    """The entries numbered and digested as the ledger writes them."""
    journal: list[Entry] = []
    for number, one in enumerate(entries, start=1):
        numbered = replace(one, sequence=number)
        previous = journal[-1].digest if journal else GENESIS
        journal.append(replace(numbered, digest=chained_digest(previous, numbered)))
    return journal


def request(loss: Loss, blocks: tuple[int, int] = (2, 4)) -> BudgetRequest:
    return BudgetRequest("taxi", "k", "taxi.speed", BlockRange(*blocks), loss)


GOOD = chained(entry("a"), entry("b", loss=Loss(2)), entry("a", SPEND), entry("b", RELEASE, Loss(2)))


@pytest.mark.parametrize(
    ("loss", "fits"),
    [(Loss(10, 4), True), (Loss(11, 0), False), (Loss(1, 5), False), (Loss(1, 0), True)],
)
def test_a_loss_is_granted_when_both_coordinates_fit(loss: Loss, fits: bool) -> None:
    assert decide(BLOCKS, request(loss)) == (Granted("k") if fits else Denied("k", (2, 3)))


def test_what_is_reserved_counts_like_what_is_spent() -> None:
    held = replace(BLOCKS[0], reserved=Loss(4, 1), spent=Loss(3, 1))
    assert (held.committed, held.left) == (Loss(7, 2), Loss(3, 2))
    assert decide((held, BLOCKS[1]), request(Loss(3, 2))) == Granted("k")
    assert decide((held, BLOCKS[1]), request(Loss(4, 2))) == Denied("k", (2,))


@pytest.mark.parametrize("state", [BlockState.RETIRED, BlockState.ERASED])
def test_a_block_that_is_not_active_takes_nothing(state: BlockState) -> None:
    assert decide((BLOCKS[0], replace(BLOCKS[1], state=state)), request(Loss(1))) == Denied("k", (3,))


def test_the_answer_to_a_known_key_is_its_history() -> None:
    wish = BudgetRequest("taxi", "a", "taxi.speed", BlockRange(2, 4), Loss(3, 1))
    assert outcome_of(wish, ()) is None
    assert outcome_of(wish, chained(entry("a"))) == Granted("a")
    assert outcome_of(wish, chained(entry("a"), entry("a", SPEND))) == Granted("a")
    assert outcome_of(wish, chained(entry("a"), entry("a", RELEASE))) == Denied("a", ())
    for other in (
        replace(wish, loss=Loss(3)),
        replace(wish, blocks=BlockRange(2, 3)),
        replace(wish, ptk_id="x.y"),
    ):
        with pytest.raises(Conflict):
            outcome_of(other, chained(entry("a")))


def test_sums_follow_from_the_journal_alone() -> None:
    stale = (replace(BLOCKS[0], reserved=Loss(9)), BLOCKS[1])
    sums = fold(stale, GOOD)
    assert [(b.reserved, b.spent) for b in sums.values()] == [(NO_LOSS, Loss(3, 1))] * 2
    assert fold(BLOCKS, GOOD[:2])[2].reserved == Loss(5, 1)
    assert fold(BLOCKS, chained(entry("c", blocks=(3, 9))))[2].committed == NO_LOSS


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
    block = fold(BLOCKS, entries)[2]
    assert block.reserved.epsilon_nano == sum(a for k, a in amount.items() if state[k] == "reserve")
    assert block.spent.epsilon_nano == sum(a for k, a in amount.items() if state[k] == "spend")


@pytest.mark.parametrize(
    "end",
    [
        entry("x", SPEND),
        entry("a", SPEND, Loss(2, 1)),
        entry("a", RELEASE, Loss(9, 1)),
        entry("a", SPEND, blocks=(2, 3)),
        replace(entry("a", SPEND), ptk_id="taxi.other"),
    ],
    ids=["no reservation", "less", "more", "elsewhere", "another PTK"],
)
def test_an_end_that_is_not_the_end_of_its_reservation_is_found(end: Entry) -> None:
    journal = chained(entry("a"), end)
    with pytest.raises(InvariantBroken):
        fold(BLOCKS, journal)
    assert verify(BLOCKS, journal) == ("entry 2 ends no reservation like it",)


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
        {"blocks": BlockRange(2, 3)},
        {"blocks": BlockRange(1, 4)},
        {"loss": Loss(2, 1)},
        {"loss": Loss(3, 0)},
        {"event": {"mechanism": "none"}},
        {"nonce": "other"},
        {"digest": "0" * 64},
    ],
    ids=str,
)
def test_every_field_of_every_entry_is_under_the_digest(position: int, change: dict[str, Any]) -> None:
    if position == 3 and change == {"kind": RELEASE}:
        change = {"kind": SPEND}
    journal = [*GOOD]
    journal[position] = replace(journal[position], **change)
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
