"""Which windows serve a PTK that waits: by public significance, at each coordinate of an accountant."""

from __future__ import annotations

import pytest

from ptkstore.domain.accounting.accountants import Caps, Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.budgeting.blocks import Query
from ptkstore.domain.budgeting.online import Declined, Taken
from ptkstore.domain.budgeting.public import PublicBudgeting, WindowsLeft
from ptkstore.domain.budgeting.rule import ThresholdRule
from ptkstore.domain.scheduling.model import Look, MenuEntry, Proposal, Waiting
from ptkstore.domain.scheduling.orders import by_arrival, by_dominant_share, by_efficiency
from ptkstore.domain.scheduling.queues import Awaited

CAPS = Caps((1_000, 2_000), 50)
RULE = ThresholdRule(2.0, 10.0, 0)
LOSS, TWICE = Loss(10**8), Loss(2 * 10**8)
PTK = Waiting("team.ptk", 0, (1, 3), (LOSS, LOSS))


def charge_of(_: str, loss: Loss) -> Charge:
    return Charge((loss.epsilon_nano // 10**6, loss.epsilon_nano // 10**7), 10)


def left(**windows: tuple[int, int]) -> WindowsLeft:
    return WindowsLeft(CAPS, {(int(name[1:]), 0): Caps(one, 50) for name, one in windows.items()})


def asked(one: Waiting, room: WindowsLeft, *, newest: int = 2, without: tuple[int, ...] = ()) -> object:
    found = PublicBudgeting(RULE, 1_000).next_look(
        one, room, lambda window: 1 - (newest - window) / 10, charge_of, without
    )
    return (found.windows, found.loss) if isinstance(found, Proposal) else found


FRESH = {"w0": (1_000, 2_000), "w1": (1_000, 2_000), "w2": (1_000, 2_000)}


def test_a_look_reads_as_many_windows_as_it_may_the_most_significant_first() -> None:
    assert asked(PTK, left(**FRESH)) == ((0, 1, 2), LOSS)
    two = Waiting("team.ptk", 0, (1, 2), (LOSS, LOSS))
    assert asked(two, left(**FRESH)) == ((1, 2), LOSS)
    assert asked(two, left(**FRESH), without=(2,)) == ((0, 1), LOSS)


def test_the_share_is_consumed_at_the_coordinate_with_most_room() -> None:
    """Nothing of the first coordinate is left. Of the second one, 90 % are: the filter would admit it."""
    assert asked(PTK, left(w2=(0, 1_800))) == ((2,), LOSS)
    assert asked(PTK, left(w2=(0, 9))) is Awaited.BUDGET


def test_a_block_that_cannot_pay_a_delta_serves_nobody() -> None:
    assert asked(PTK, WindowsLeft(CAPS, {(2, 0): Caps((1_000, 2_000), 9)})) is Awaited.BUDGET


def test_what_is_taken_is_gone_at_every_coordinate() -> None:
    room = left(w2=(1_000, 2_000))
    room.take([2], range(1), Charge((995, 1_995), 1))
    assert asked(PTK, room) is Awaited.BUDGET
    room = left(w2=(1_000, 2_000))
    room.take([2], range(1), Charge((600, 1_999), 1))
    assert asked(PTK, room) == ((2,), LOSS)


def test_each_group_of_a_window_has_to_serve_it() -> None:
    both = Waiting("team.ptk", 0, (1, 3), (LOSS, LOSS), groups=range(2))
    rooms = {(2, 0): CAPS, (2, 1): Caps((0, 0), 50), (1, 0): CAPS, (1, 1): CAPS}
    assert asked(both, WindowsLeft(CAPS, rooms)) == ((1,), LOSS)


def test_a_retired_block_serves_nobody() -> None:
    both = Waiting("team.ptk", 0, (1, 3), (LOSS, LOSS), groups=range(2))
    assert asked(both, WindowsLeft(CAPS, {(2, 0): CAPS})) is Awaited.NEW_WINDOW


def test_what_is_not_significant_is_told_from_what_cannot_be_paid() -> None:
    """At a share of .9, T is 7.7: epsilon .1 asks for .77. Age 5 has a significance of .5."""
    room = left(w2=(200, 0))
    assert asked(PTK, room) == ((2,), LOSS)
    assert asked(PTK, room, newest=7) is Awaited.SIGNIFICANCE


def test_a_menu_says_how_many_windows_and_which_loss() -> None:
    ways = tuple(MenuEntry(one, n) for one, n in ((LOSS, 4_000), (TWICE, 1_500)))
    assert asked(Waiting("team.ptk", 0, (1, 3), (LOSS, TWICE), ways), left(**FRESH)) == ((1, 2), TWICE)


@pytest.mark.parametrize(
    ("most", "then"), [(TWICE, TWICE), (Loss(15 * 10**7), Loss(15 * 10**7)), (LOSS, LOSS)]
)
def test_a_retry_doubles_the_loss_within_the_range(most: Loss, then: Loss) -> None:
    one = Waiting("team.ptk", 0, (1, 3), (LOSS, most), last=Look(1, 1, LOSS))
    assert asked(one, left(**FRESH)) == ((0, 1, 2), then)


def test_a_look_under_way_is_waited_for() -> None:
    one = Waiting("team.ptk", 0, (1, 3), (LOSS, LOSS), last=Look(1, 1, LOSS, under_way=True))
    assert asked(one, left(**FRESH)) is Awaited.VERDICT


def test_a_step_compares_with_the_loss_and_not_with_units_of_the_accountant() -> None:
    room, query = left(w2=(1_000, 2_000)), Query("team.ptk", 10**9, 1, 10**9)
    charge = Charge((1, 1))
    assert room.step((2, 0), query, charge, RULE, 1.99) is Declined.NOT_SIGNIFICANT
    assert isinstance(room.step((2, 0), query, charge, RULE, 2.0), Taken)


def test_an_order_is_measured_where_the_windows_have_room() -> None:
    """The first coordinate is used up. At the second, one of them takes more of its window than the other."""
    room = WindowsLeft(Caps((100, 100), 0), {(0, 0): Caps((0, 50), 0), (1, 0): Caps((0, 100), 0)})
    small, large = (
        Proposal(name, 0, (window,), LOSS, Charge((1, units), 0), 100)
        for name, window, units in (("small", 0, 40), ("large", 1, 60))
    )
    proposals = [(large, range(1)), (small, range(1))]
    assert room.served_first(proposals, by_efficiency) == ("large", "small")  # .6 of what is left, against .8
    assert room.served_first(proposals, by_dominant_share) == ("small", "large")
    assert room.served_first(proposals, by_arrival) == ("large", "small")  # by name: they came together
