"""Looks that compete for what is free: they fit together, and the order decides who is left out."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from ptkstore.domain.accounting.accountants import Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.scheduling.adaptive import Mode
from ptkstore.domain.scheduling.allowances import Allowances
from ptkstore.domain.scheduling.block_rooms import BlockRoom
from ptkstore.domain.scheduling.competing import Competing
from ptkstore.domain.scheduling.model import MenuEntry, Waiting
from ptkstore.domain.scheduling.orders import Order, by_arrival, by_dominant_share, by_efficiency

ROWS = 100


def basic(ptk_id: str, loss: Loss) -> Charge:
    return Charge.basic(loss)


def ptk(name: str, arrived: int, nano: int, windows: int) -> Waiting:
    ways = (MenuEntry(Loss(nano), windows * ROWS),)
    return Waiting(name, arrived, (1, 99), (Loss(1), Loss(1000)), ways)


def room(*amounts: int, waiting: list[Waiting]) -> Allowances:
    blocks = (BlockRoom(w, w, 0, amount, 0) for w, amount in enumerate(amounts))
    return Allowances.of(blocks, waiting, (), basic)


def competing(order: Order = by_arrival, mode: Mode = Mode.GUIDED) -> Competing:
    return Competing(ROWS, mode, order, BlockRoom(0, 0, 0, 1_000, 1_000))


WIDE = ptk("a", 0, 50, 4)
NARROW = [ptk(name, 1, 60, 1) for name in "bcde"]


@pytest.mark.parametrize(
    ("order", "granted"),
    [(by_arrival, "a"), (by_dominant_share, "a"), (by_efficiency, "bcde")],
)
def test_the_order_decides_who_is_left_out(order, granted: str):
    asking = [WIDE, *NARROW]
    proposals = competing(order).propose(asking, room(100, 100, 100, 100, waiting=asking), basic)
    assert "".join(one.ptk_id for one in proposals) == granted


def test_who_finds_a_window_taken_gets_another_one():
    proposals = competing().propose(NARROW, room(100, 100, 100, 100, waiting=NARROW), basic)
    assert [(one.ptk_id, one.windows) for one in proposals] == [
        ("b", (3,)),
        ("c", (2,)),
        ("d", (1,)),
        ("e", (0,)),
    ]


def test_a_dominant_share_is_of_the_whole_block_and_an_efficiency_of_what_is_left():
    # a asks for 50 of 60 left in window 0; b for 55 of each of two windows of which all is left
    old, new = ptk("a", 0, 50, 1), ptk("b", 0, 55, 2)
    old = replace(old, groups=range(1, 2))
    blocks = [BlockRoom(0, 0, 0, 60, 0, group=1), BlockRoom(1, 1, 0, 1_000, 0), BlockRoom(2, 2, 0, 1_000, 0)]
    room = Allowances.of(blocks, [old, new], (), basic)
    by_order = {
        order: [one.ptk_id for one in competing(order).propose([old, new], room, basic)]
        for order in (by_dominant_share, by_efficiency)
    }
    assert by_order == {by_dominant_share: ["a", "b"], by_efficiency: ["b", "a"]}


@pytest.mark.parametrize("order", [by_arrival, by_dominant_share, by_efficiency])
@pytest.mark.parametrize("mode", Mode)
def test_what_is_proposed_fits_what_is_free_whatever_the_order_of_those_who_wait(order, mode: Mode):
    asking = [WIDE, *NARROW[:3]]
    strategy = competing(order, mode)
    answers = [
        strategy.propose(some, room(70, 130, 65, 90, waiting=asking), basic) for some in permutations(asking)
    ]
    assert answers[0]
    assert all(answer == answers[0] for answer in answers)
    free = room(70, 130, 65, 90, waiting=asking)
    for proposal in answers[0]:
        free.take_free(proposal)
    assert all(nano >= 0 for nano, _ in free.left().values())


def test_allowances_of_others_are_not_free():
    asking = [ptk("a", 0, 60, 1), ptk("b", 1, 60, 1)]
    shared = room(100, waiting=asking)
    shared.divide()
    assert competing().propose(asking, shared, basic) == ()
