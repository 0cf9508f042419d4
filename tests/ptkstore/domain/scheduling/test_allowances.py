"""Allowances: even shares in whole units, nothing made or lost, and never more than a block has."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from ptkstore.domain.accounting.accountants import Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.scheduling.allowances import Allowances, Share
from ptkstore.domain.scheduling.block_rooms import BlockRoom
from ptkstore.domain.scheduling.model import Proposal, Waiting
from ptkstore.errors import InvalidRequest

LEAST = Loss(1)


def basic(ptk_id: str, loss: Loss) -> Charge:
    return Charge.basic(loss)


def waiting(name: str, *, arrived: int = 0, least: Loss = LEAST, groups: range = range(1)) -> Waiting:
    losses = (least, replace(least, epsilon_nano=1000))
    return Waiting(name, arrived, (1, 8), losses, groups=groups)


def block(window: int, nano: int = 100, atto: int = 10, **place: int) -> BlockRoom:
    return BlockRoom(window, window, 0, nano, atto, **place)


def proposal(name: str, windows: tuple[int, ...], nano: int, atto: int = 0) -> Proposal:
    return Proposal(name, 0, windows, Loss(nano, atto), Charge((nano,), atto), 1)


def table(room: Allowances) -> dict[tuple[str, int], tuple[int, int]]:
    return {(share.ptk_id, share.block): (share.nano, share.delta_atto) for share in room.shares()}


def shared(*names: str, blocks: int = 1) -> Allowances:
    room = Allowances()
    for name in names:
        room.join(waiting(name), basic)
    room.add_blocks(block(window) for window in range(blocks))
    room.divide()
    return room


def test_a_new_block_is_divided_evenly_in_whole_units():
    room = shared("a", "b", "c")
    assert table(room) == {(name, 0): (33, 3) for name in "abc"}
    assert room.left() == {0: (100, 10)}
    assert room.free(waiting("a")).nano.tolist() == [1]


def test_so_many_ptks_share_a_block_that_their_deltas_together_pass_64_bits():
    hundredth = 10**16
    room = Allowances()
    for rank in range(1_000):
        room.join(waiting(f"p{rank:03}", arrived=rank, least=Loss(1, hundredth)), basic)
    room.add_blocks([block(0, 10_000, 100 * hundredth)])
    room.divide()
    assert table(room) == {(f"p{rank:03}", 0): (100, hundredth) for rank in range(100)}


def test_who_leaves_gives_the_rest_to_the_others():
    room = shared("a", "b", "c")
    room.take(proposal("a", (0,), 13))
    room.leave("a")
    room.divide()
    # 87 are left, 33 of them with each of b and c and 21 free: 10 more for each
    assert table(room) == {("b", 0): (43, 5), ("c", 0): (43, 5)}
    assert room.left() == {0: (87, 10)}


def test_a_newcomer_gets_what_nobody_holds_and_nothing_of_what_others_hold():
    room = shared("a")
    room.join(waiting("b"), basic)
    room.add_blocks([block(1)])
    room.divide()
    assert table(room) == {("a", 0): (100, 10), ("a", 1): (50, 5), ("b", 1): (50, 5)}


def test_who_arrives_when_nobody_waits_gets_all_that_is_left():
    room = Allowances()
    room.add_blocks([block(0), block(1, 40)])
    room.divide()
    assert table(room) == {}
    room.join(waiting("a"), basic)
    room.divide()
    assert table(room) == {("a", 0): (100, 10), ("a", 1): (40, 10)}


def test_blocks_are_shared_by_those_who_are_trained_on_them():
    room = Allowances()
    room.join(waiting("a", groups=range(2)), basic)
    room.join(waiting("b", groups=range(1, 2)), basic)
    room.join(waiting("c", groups=range(2, 3)), basic)
    room.add_blocks(BlockRoom(group, 0, 0, 100, 0, group) for group in range(3))
    room.divide()
    assert table(room) == {("a", 0): (100, 0), ("a", 1): (50, 0), ("b", 1): (50, 0), ("c", 2): (100, 0)}


def test_a_window_counts_only_with_all_blocks_that_a_training_needs():
    room = Allowances()
    room.join(waiting("a", groups=range(2)), basic)
    room.add_blocks(BlockRoom(2 * w + g, w, 0, 100, 0, g) for w in range(2) for g in range(2))
    room.divide()
    charge = Charge((60,))
    assert room.of_ptk("a").covering(charge).tolist() == [0, 1]
    room.drop_blocks([1])
    assert room.of_ptk("a").covering(charge).tolist() == [1]
    with pytest.raises(InvalidRequest, match="windows that are not there"):
        room.take(proposal("a", (0, 1), 60))


def test_a_charge_is_covered_in_the_units_of_each_block_and_in_deltas():
    def curved(ptk_id: str, loss: Loss) -> Charge:
        return Charge((loss.epsilon_nano, 3 * loss.epsilon_nano), loss.delta_atto)

    room = Allowances()
    room.join(waiting("a"), curved)
    room.add_blocks([block(0), replace(block(1), coordinate=1), block(2, atto=3)])
    room.divide()
    held = room.of_ptk("a")
    assert held.covering(curved("a", Loss(40))).tolist() == [0, 2]
    assert held.covering(curved("a", Loss(33))).tolist() == [0, 1, 2]
    assert held.covering(curved("a", Loss(33, 4))).tolist() == [0, 1]
    room.take(Proposal("a", 0, (0, 1), Loss(20, 2), curved("a", Loss(20, 2)), 1))
    assert table(room) == {("a", 0): (80, 8), ("a", 1): (40, 8), ("a", 2): (100, 3)}


@pytest.mark.parametrize(("nano", "atto"), [(51, 0), (50, 6)])
def test_nobody_takes_more_than_its_allowance(nano: int, atto: int):
    room = shared("a", "b", blocks=2)
    before = table(room)
    with pytest.raises(InvalidRequest, match="do not cover"):
        room.take(proposal("a", (0, 1), nano, atto))
    assert table(room) == before
    room.take(proposal("a", (0, 1), 50, 5))
    assert table(room) == {("b", 0): (50, 5), ("b", 1): (50, 5)}


def test_the_table_of_shares_is_all_that_needs_to_be_stored():
    room = shared("a", "b", blocks=3)
    room.take(proposal("a", (1, 2), 20, 1))
    blocks = [replace(block(w), left_nano=n, left_atto=d) for w, (n, d) in room.left().items()]
    again = Allowances.of(blocks, [waiting("b"), waiting("a")], room.shares(), basic)
    assert table(again) == table(room)
    assert again.left() == room.left()


def test_shares_are_cut_where_others_charged_the_block():
    shares = [Share("a", 0, 60, 5), Share("b", 0, 30, 5), Share("b", 7, 9, 9), Share("gone", 0, 10, 0)]
    room = Allowances.of([block(0, 45)], [waiting("a"), waiting("b")], shares, basic)
    assert table(room) == {("a", 0): (30, 5), ("b", 0): (15, 5)}  # 60 and 30 of 90 become two to one of 45
    assert room.left() == {0: (45, 10)}


def test_a_share_that_pays_for_nothing_is_not_handed_out():
    room = Allowances()
    for turn, name in enumerate(["d", "a", "c", "b"]):
        room.join(waiting(name, arrived=turn, least=Loss(30)), basic)
    room.add_blocks([block(0)])
    room.divide()
    # 25 for each of four would be of no use: the first three get 33
    assert table(room) == {(name, 0): (33, 3) for name in "dac"}
    room.leave("a")
    room.divide()
    # of the 34 that are free now, two have enough and one is short of 30: 11 each would not do for it
    assert table(room) == {("d", 0): (50, 5), ("c", 0): (50, 5)}


def test_of_those_who_need_as_much_the_first_that_arrived_are_served():
    asking = [waiting(name, arrived=turn, least=Loss(60)) for turn, name in enumerate("cab")]
    room = Allowances.of([block(0)], asking, (), basic)
    room.divide()
    assert table(room) == {("c", 0): (100, 10)}


def test_those_who_need_least_come_first_where_not_all_can_be_served():
    room = Allowances()
    room.join(waiting("a", arrived=0, least=Loss(60)), basic)
    room.join(waiting("b", arrived=2, least=Loss(20)), basic)
    room.join(waiting("c", arrived=1, least=Loss(20)), basic)
    room.add_blocks([block(0)])
    room.divide()
    assert table(room) == {("b", 0): (50, 5), ("c", 0): (50, 5)}


def test_deltas_that_pay_for_nothing_count_as_well():
    room = Allowances()
    room.join(waiting("a", arrived=0, least=Loss(1, 6)), basic)
    room.join(waiting("b", arrived=1, least=Loss(1, 6)), basic)
    room.add_blocks([block(0)])
    room.divide()
    assert table(room) == {("a", 0): (100, 10)}
    room.add_blocks([block(1, atto=12)])
    room.divide()
    assert table(room) == {("a", 0): (100, 10), ("a", 1): (50, 6), ("b", 1): (50, 6)}


def test_nobody_shares_in_a_block_that_pays_for_no_least_loss():
    room = Allowances()
    room.join(waiting("a", least=Loss(101)), basic)
    room.add_blocks([block(0)])
    room.divide()
    assert table(room) == {}
    assert room.left() == {0: (100, 10)}


def test_the_order_in_which_ptks_and_blocks_are_named_changes_nothing():
    tables = []
    for names in permutations("abc"):
        room = Allowances.of([block(1), block(0)], map(waiting, names), (), basic)
        room.divide()
        tables.append((table(room), room.of_ptk("b").windows.tolist()))
    assert all(one == tables[0] for one in tables)


def test_what_cannot_be_is_refused():
    room = shared("a")
    with pytest.raises(InvalidRequest, match="waits already"):
        room.join(waiting("a"), basic)
    with pytest.raises(InvalidRequest, match="does not wait"):
        room.leave("b")
    with pytest.raises(InvalidRequest, match="one room"):
        room.add_blocks([block(0)])
    with pytest.raises(InvalidRequest, match="never negative"):
        room.add_blocks([block(1, -1)])


# the coordinate
