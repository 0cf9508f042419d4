"""What a PTK asks for next under each mode of privacy-adaptive training."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from ptkstore.domain.accounting.accountants import Accountant, Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.scheduling.adaptive import Adaptive, Mode, Wish, doubled
from ptkstore.domain.scheduling.allowances import Allowances
from ptkstore.domain.scheduling.block_rooms import BlockRoom
from ptkstore.domain.scheduling.model import Look, MenuEntry, Proposal, Waiting
from ptkstore.domain.scheduling.queues import Awaited
from ptkstore.errors import InvalidRequest

ROWS = 1000


def basic(ptk_id: str, loss: Loss) -> Charge:
    return Charge.basic(loss)


def ptk(
    name: str = "a",
    *,
    arrived: int = 0,
    most: int = 16,
    losses: tuple[int, int] = (10, 1000),
    menu: tuple[tuple[int, int], ...] = (),
    last: Look | None = None,
) -> Waiting:
    ways = tuple(MenuEntry(Loss(epsilon), rows) for epsilon, rows in menu)
    return Waiting(name, arrived, (1, most), (Loss(losses[0]), Loss(losses[1])), ways, last)


def retried(n_windows: int, nano: int, number: int = 1) -> Look:
    return Look(number, n_windows, Loss(nano))


def room_for(one: Waiting, *amounts: int) -> Allowances:
    """A room with one block for each amount, all of it the PTK's."""
    room = Allowances.of(
        (BlockRoom(w, w, 0, amount, 0) for w, amount in enumerate(amounts)), [one], (), basic
    )
    room.divide()
    return room


def asked(one: Waiting, *amounts: int, mode: Mode = Mode.CONSERVE) -> tuple[tuple[int, ...], int] | Awaited:
    """The windows and the nano-epsilon of the next look, or what the PTK waits for."""
    look = Adaptive(ROWS, mode).next_look(one, room_for(one, *amounts).of_ptk(one.ptk_id), basic)
    return (look.windows, look.loss.epsilon_nano) if isinstance(look, Proposal) else look


# conserve


def test_the_first_look_has_the_least_loss_on_the_newest_window():
    assert asked(ptk(), 1000, 1000, 1000) == ((2,), 10)
    assert asked(ptk(), 1000, 1000, 9) == ((1,), 10)
    assert asked(ptk(), 9, 9) is Awaited.ALLOWANCE
    assert asked(ptk()) is Awaited.ALLOWANCE


def test_a_retry_doubles_the_loss_where_the_allowance_covers_it():
    assert asked(ptk(last=retried(2, 40)), 80, 80, 80) == ((1, 2), 80)


def test_otherwise_it_doubles_the_windows():
    assert asked(ptk(last=retried(2, 40)), 79, 79, 79, 80) == ((0, 1, 2, 3), 40)


def test_where_shares_are_smaller_than_its_loss_it_takes_more_windows_with_less():
    one = ptk(last=retried(2, 40))
    assert asked(one, *[39] * 7) is Awaited.ALLOWANCE
    assert asked(one, *[39] * 8) == (tuple(range(8)), 20)
    assert asked(one, *[19] * 16) == (tuple(range(16)), 10)
    assert asked(one, *[9] * 99) is Awaited.ALLOWANCE


def test_every_wish_after_a_retry_takes_twice_as_much_as_the_last_look():
    one = ptk(last=retried(2, 40), most=64)
    assert [wish.n_windows * wish.epsilon_nano for wish in doubled(one)] == [160] * 4


def test_nothing_goes_beyond_the_most_that_it_may_have():
    assert doubled(ptk(last=retried(3, 600), most=5)) == (Wish(3, 1000), Wish(5, 600))
    assert doubled(ptk(last=retried(3, 1000), most=5)) == (Wish(5, 1000),)
    assert doubled(ptk(last=retried(5, 600), most=5)) == (Wish(5, 1000),)
    assert doubled(ptk(last=retried(5, 1000), most=5)) == ()
    assert asked(ptk(last=retried(5, 1000), most=5), *[1000] * 9) is Awaited.MORE_THAN_IT_MAY_HAVE


@pytest.mark.parametrize("mode", Mode)
def test_it_may_have_more_until_it_had_the_most_of_both(mode: Mode):
    strategy = Adaptive(ROWS, mode)
    assert strategy.may_have_more(ptk(most=5))
    assert strategy.may_have_more(ptk(last=retried(2, 1000), most=5))
    assert not strategy.may_have_more(ptk(last=retried(5, 1000), most=5))
    running = replace(retried(5, 1000), under_way=True)
    assert strategy.may_have_more(ptk(last=running, most=5))  # it may be released, and is no look then


def test_an_aggressive_ptk_may_have_no_more_once_twice_as_much_is_beyond_it():
    def may(n_windows: int, nano: int) -> bool:
        return Adaptive(ROWS, Mode.AGGRESSIVE).may_have_more(ptk(last=retried(n_windows, nano), most=4))

    assert may(2, 1000)
    assert not may(2, 1001)
    assert asked(ptk(last=retried(2, 1001), most=4), *[9000] * 9, mode=Mode.AGGRESSIVE) is (
        Awaited.MORE_THAN_IT_MAY_HAVE
    )


def test_a_ptk_whose_verdict_is_still_to_come_proposes_nothing():
    for mode in Mode:
        running = ptk(last=Look(1, 1, Loss(10), under_way=True))
        assert asked(running, 1000, mode=mode) is Awaited.VERDICT


def test_all_failed_looks_together_take_less_than_the_last_one_and_that_overshoots_by_less_than_two():
    """Sage, section 3.3: at most four times the loss of the best look on the same windows."""
    one, needed = ptk(losses=(10, 10**6)), 777
    spent: list[int] = []
    while not spent or spent[-1] < needed:
        look = asked(one, 10**6)
        assert isinstance(look, tuple)
        assert look[0] == (0,)
        spent.append(look[1])
        one = replace(one, last=retried(1, spent[-1], len(spent)))
    assert sum(spent[:-1]) <= spent[-1] < 2 * needed


# aggressive


def test_aggressive_takes_all_that_its_allowance_covers():
    assert asked(ptk(), 700, mode=Mode.AGGRESSIVE) == ((0,), 700)
    assert asked(ptk(), 5000, mode=Mode.AGGRESSIVE) == ((0,), 1000)


def test_aggressive_takes_the_most_rows_times_loss():
    # 900 on one, 500 on two: 1000; 300 on four: 1200
    assert asked(ptk(), 300, 500, 900, 400, mode=Mode.AGGRESSIVE) == ((0, 1, 2, 3), 300)
    assert asked(ptk(), 200, 500, 900, 100, mode=Mode.AGGRESSIVE) == ((1, 2), 500)


def test_aggressive_looks_again_for_twice_as_much():
    one = ptk(last=retried(1, 600))
    assert asked(one, 599, 599, mode=Mode.AGGRESSIVE) is Awaited.ALLOWANCE
    assert asked(one, 600, 600, mode=Mode.AGGRESSIVE) == ((0, 1), 600)
    top = ptk(last=retried(2, 600), most=2)
    assert asked(top, 1000, 1000, mode=Mode.AGGRESSIVE) is Awaited.MORE_THAN_IT_MAY_HAVE


def test_aggressive_finds_the_largest_loss_of_a_curved_charge():
    def curved(ptk_id: str, loss: Loss) -> Charge:
        return Charge.pure(Accountant.ZCDP, loss)

    one = ptk(losses=(10**6, 10**9))
    room = Allowances.of([BlockRoom(0, 0, 0, 5 * 10**6, 0)], [one], (), curved)
    room.divide()
    look = Adaptive(ROWS, Mode.AGGRESSIVE).next_look(one, room.of_ptk("a"), curved)
    assert isinstance(look, Proposal)
    assert look.charge.amounts[0] <= 5 * 10**6  # rho = epsilon**2 / 2
    above = curved("a", Loss(look.loss.epsilon_nano + 1))
    assert above.amounts[0] > 5 * 10**6


# guided


MENU = ((40, 8000), (200, 3500), (500, 900), (1500, 100))


def test_guided_begins_with_the_least_loss_of_its_menu_that_is_covered():
    one = ptk(menu=MENU)
    assert asked(one, *[1000] * 8, mode=Mode.GUIDED) == (tuple(range(8)), 40)
    assert asked(one, *[1000] * 7, mode=Mode.GUIDED) == ((3, 4, 5, 6), 200)
    assert asked(one, 1000, mode=Mode.GUIDED) == ((0,), 500)
    assert asked(one, *[39] * 8, mode=Mode.GUIDED) is Awaited.ALLOWANCE


def test_guided_leaves_out_pairs_that_the_ptk_may_not_have():
    assert asked(ptk(menu=MENU, most=2), *[1000] * 9, mode=Mode.GUIDED) == ((8,), 500)
    # none of them is left: it begins as a PTK without a menu
    one = ptk(menu=((1500, 100), (20, 99000)))
    assert asked(one, 1000, 1000, mode=Mode.GUIDED) == ((1,), 10)


def test_guided_begins_as_conserve_without_a_menu_and_doubles_after_a_retry():
    assert asked(ptk(), 1000, mode=Mode.GUIDED) == ((0,), 10)
    one = ptk(menu=MENU, last=retried(4, 200))
    assert asked(one, *[1000] * 8, mode=Mode.GUIDED) == ((4, 5, 6, 7), 400)


def test_conserve_does_not_read_the_menu():
    assert asked(ptk(menu=MENU), *[1000] * 8) == ((7,), 10)


# all who wait


def test_a_proposal_says_what_is_charged_and_how_many_rows_it_opens():
    one = ptk(arrived=5, last=retried(1, 40))
    (look,) = Adaptive(ROWS).propose([one], room_for(one, 50, 50, 79), basic)
    assert look == Proposal("a", 5, (1, 2), Loss(40), Charge((40,)), 2 * ROWS)


@pytest.mark.parametrize("mode", Mode)
def test_proposals_come_by_arrival_and_the_order_of_those_who_wait_changes_nothing(mode: Mode):
    asking = [ptk("b", arrived=1), ptk("c", arrived=0, menu=MENU), ptk("a", arrived=1, last=retried(1, 20))]
    answers = []
    for order in permutations(asking):
        room = Allowances.of([BlockRoom(w, w, 0, 900, 0) for w in (*range(1, 8), 0)], order, (), basic)
        room.divide()
        answers.append(Adaptive(ROWS, mode).propose(order, room, basic))
    assert [look.ptk_id for look in answers[0]] == ["c", "a", "b"]
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("mode", Mode)
def test_what_is_proposed_fits_together(mode: Mode):
    asking = [ptk(name, last=retried(1, 20) if name in "bd" else None, menu=MENU) for name in "abcdefg"]
    room = Allowances.of([BlockRoom(w, w, 0, 997, 0) for w in range(8)], asking, (), basic)
    room.divide()
    proposals = Adaptive(ROWS, mode).propose(asking, room, basic)
    assert len(proposals) == 7
    for look in proposals:
        room.take(look)
    taken = {w: sum(p.loss.epsilon_nano for p in proposals if w in p.windows) for w in range(8)}
    assert room.left() == {w: (997 - nano, 0) for w, nano in taken.items()}


def test_a_waiting_ptk_has_ranges_that_rise():
    with pytest.raises(InvalidRequest, match="windows"):
        Waiting("a", 0, (2, 1), (Loss(1), Loss(1)))
    with pytest.raises(InvalidRequest, match="losses"):
        Waiting("a", 0, (1, 1), (Loss(2), Loss(1)))
    with pytest.raises(InvalidRequest, match="losses"):
        Waiting("a", 0, (1, 1), (Loss(1, 0), Loss(2, 1)))
    with pytest.raises(InvalidRequest, match="group"):
        Waiting("a", 0, (1, 1), (Loss(1), Loss(1)), groups=range(0))
