"""Which windows serve a PTK whose significance is measured: what is known, what is asked, and what it waits for."""

from __future__ import annotations

from collections.abc import Mapping

from ptkstore.domain.accounting.accountants import Caps, Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.budgeting.measured import Askable, MeasuredBudgeting, ToAsk
from ptkstore.domain.budgeting.online import Declined, Taken, ToCompare
from ptkstore.domain.budgeting.public import WindowsLeft
from ptkstore.domain.budgeting.rule import ThresholdRule
from ptkstore.domain.scheduling.model import MenuEntry, Proposal, Waiting
from ptkstore.domain.scheduling.queues import Awaited

RULE = ThresholdRule(1.0, 10.0, 0)
LOSS, TWICE = Loss(10**8), Loss(2 * 10**8)
FRESH, USED = 1_000, 500


def charge_of(_: str, loss: Loss) -> Charge:
    return Charge((loss.epsilon_nano // 10**6,), 0)


def look(one: Waiting, left: Mapping[int, int], states: Mapping[int, Askable], **answers: bool) -> object:
    room = WindowsLeft(
        Caps((FRESH,), 0), {(window, 0): Caps((amount,), 0) for window, amount in left.items()}
    )
    known = {int(name[1:]): above for name, above in answers.items()}
    found = MeasuredBudgeting(RULE, 1_000).next_look(one, room, known, states.__getitem__, charge_of)
    return (found.windows, found.loss) if isinstance(found, Proposal) else found


def test_enough_windows_wait_for_no_comparison_of_another_ptk() -> None:
    one = Waiting("team.ptk", 0, (1, 2), (LOSS, LOSS))
    left = {0: USED, 1: USED}
    assert look(one, left, {1: Askable.LATER}, w0=True) == ((0,), LOSS)
    assert look(one, left, {1: Askable.YES}, w0=True) == ToAsk((1,))
    assert look(one, left, {1: Askable.LATER}, w0=False) is Awaited.COMPARISON


def test_another_pair_of_a_menu_is_served_by_windows_that_take_it() -> None:
    menu = (MenuEntry(LOSS, 2_000), MenuEntry(TWICE, 1_000))
    one = Waiting("team.ptk", 0, (1, 2), (LOSS, TWICE), menu)
    assert look(one, {0: FRESH}, {}) == ((0,), TWICE)
    assert look(one, {0: FRESH, 1: FRESH}, {}) == ((0, 1), LOSS)
    assert look(one, {0: USED}, {0: Askable.LATER}) is Awaited.COMPARISON


def test_all_groups_of_a_window_have_to_serve() -> None:
    one = Waiting("team.ptk", 0, (1, 1), (LOSS, LOSS), groups=range(2))
    budgeting = MeasuredBudgeting(RULE, 1_000)

    def step(first: int, second: int) -> object:
        left = {(0, 0): Caps((first,), 0), (0, 1): Caps((second,), 0)}
        return budgeting.step(one, 0, WindowsLeft(Caps((FRESH,), 0), left), charge_of)

    assert isinstance(step(FRESH, FRESH), Taken)
    assert step(FRESH, 50) is Declined.UNAFFORDABLE
    compared, other = step(FRESH, USED), step(USED - 100, USED)
    assert isinstance(compared, ToCompare)
    assert isinstance(other, ToCompare)
    assert other.line > compared.line


def test_an_answer_counts_for_the_pair_that_was_compared() -> None:
    menu = (MenuEntry(LOSS, 2_000), MenuEntry(TWICE, 1_000))
    one = Waiting("team.ptk", 0, (1, 2), (LOSS, TWICE), menu)
    assert look(one, {0: USED}, {}, w0=True) is Awaited.NEW_WINDOW
