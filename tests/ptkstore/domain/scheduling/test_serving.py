"""Who is served first: nobody takes before all have asked, and nothing is compared for what others have taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ptkstore.domain.accounting.accountants import Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.scheduling.model import Proposal
from ptkstore.domain.scheduling.queues import Awaited
from ptkstore.domain.scheduling.serving import served_in_turn

COMPARISON = "a comparison"
Found = Proposal | Awaited | str


@dataclass
class Block:
    """What it has left, in tenths; PTKs ask for their name's number of them."""

    left: int = 10
    taken: list[str] = field(default_factory=list)

    def next_look(self, name: str) -> Found:
        due = int(name[1:])
        if due > self.left:
            return Awaited.BUDGET
        if name[0] == "?":
            return COMPARISON
        loss = Loss(due * 10**8)
        return Proposal(name, 0, (0,), loss, Charge((loss.epsilon_nano,), 0), 100)

    def take(self, name: str, found: Proposal) -> None:
        self.left -= int(name[1:])
        self.taken.append(name)


def smallest(could: Sequence[tuple[str, Proposal]]) -> list[str]:
    return sorted((name for name, _ in could), key=lambda name: int(name[1:]))


def served(block: Block, *names: str, ordered: bool) -> dict[str, Found]:
    found = list(served_in_turn(names, block.next_look, block.take, smallest if ordered else None))
    assert sorted(name for name, _ in found) == sorted(names)  # each is told once
    return {name: "served" if isinstance(one, Proposal) else one for name, one in found}


def test_who_arrived_first_takes_first_without_an_order() -> None:
    assert served(Block(), "a6", "b5", "c4", ordered=False) == {
        "a6": "served",
        "b5": Awaited.BUDGET,
        "c4": "served",
    }


def test_with_an_order_all_ask_before_one_takes_and_ask_again_in_turn() -> None:
    block = Block()
    assert served(block, "a6", "b5", "c4", ordered=True) == {
        "c4": "served",
        "b5": "served",
        "a6": Awaited.BUDGET,
    }
    assert block.taken == ["c4", "b5"]


def test_nothing_is_compared_for_a_window_that_others_have_taken() -> None:
    assert served(Block(), "?6", "b5", ordered=True) == {"b5": "served", "?6": Awaited.BUDGET}
    assert served(Block(), "?3", "b5", ordered=True) == {"b5": "served", "?3": COMPARISON}


def test_who_cannot_be_served_is_told_at_once() -> None:
    assert list(served(Block(), "a11", "b5", ordered=True)) == ["a11", "b5"]


def test_who_could_be_served_before_others_were_is_passed_over() -> None:
    """Neither who never could be, nor who has something to compare still."""
    passed: list[str] = []
    block = Block()
    asking = ("a6", "b5", "c4", "d11", "?3")
    list(served_in_turn(asking, block.next_look, block.take, smallest, passed.append))
    assert (block.taken, passed) == (["c4", "b5"], ["a6"])
    passed.clear()
    list(served_in_turn(asking, Block().next_look, block.take, None, passed.append))
    assert passed == []
