"""Which windows serve a PTK whose losses are released, and with which loss: all from numbers that are public."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.accounting.accountants import Caps, Charge
from ptkstore.domain.accounting.losses import NANO, Loss
from ptkstore.domain.budgeting.measured import Askable, ToAsk
from ptkstore.domain.budgeting.online import Declined
from ptkstore.domain.budgeting.public import WindowsLeft
from ptkstore.domain.budgeting.released import STEPS, ReleasedBudgeting, steps_between
from ptkstore.domain.budgeting.rule import ThresholdRule
from ptkstore.domain.scheduling.model import Look, MenuEntry, Proposal, Waiting
from ptkstore.domain.scheduling.queues import Awaited

RULE = ThresholdRule(10.0, 100.0, 50_000_000)
BUDGETING = ReleasedBudgeting(RULE, 1_000)
LOW, HIGH = NANO // 10, NANO
PTK = Waiting("team.ptk", 0, (1, 3), (Loss(LOW), Loss(HIGH)))


def pure(_: str, loss: Loss) -> Charge:
    return Charge((loss.epsilon_nano,), 0)


def squared(_: str, loss: Loss) -> Charge:
    """As zCDP counts: the charge grows with the square, beside the epsilon itself."""
    return Charge((max(1, -(-(loss.epsilon_nano**2) // (2 * NANO))), loss.epsilon_nano), 0)


def number(epsilon: float) -> float:
    """The noisy losses that are worth this."""
    return (epsilon + 0.05) * RULE.constant


def step(epsilon: float, least: int = LOW) -> float:
    """The largest loss that a window can grant below this."""
    return max(one for one in steps_between(least, HIGH) if one <= round(epsilon * NANO)) / NANO


def room(left: Mapping[int, float], cap: float = 10.0) -> WindowsLeft:
    return WindowsLeft(
        Caps((round(cap * NANO),), 0),
        {(window, 0): Caps((round(amount * NANO),), 0) for window, amount in left.items()},
    )


def look(
    one: Waiting,
    left: Mapping[int, float],
    released: Mapping[int, float | None],
    askable: Callable[[int], Askable] = lambda _: Askable.YES,
) -> object:
    found = BUDGETING.next_look(one, room(left), released, askable, pure)
    return (found.windows, found.loss.epsilon) if isinstance(found, Proposal) else found


def test_a_window_grants_one_of_few_losses_and_each_is_priced_once_for_all_windows() -> None:
    assert steps_between(LOW, HIGH) == sorted(set(steps_between(LOW, HIGH)))
    assert (len(steps_between(LOW, HIGH)), steps_between(LOW, HIGH)[0], steps_between(LOW, HIGH)[-1]) == (
        STEPS,
        LOW,
        HIGH,
    )
    assert steps_between(HIGH, LOW) == [HIGH]
    priced: list[Loss] = []

    def charged(name: str, loss: Loss) -> Charge:
        priced.append(loss)
        return pure(name, loss)

    left = {window: 0.1 + window * 0.023 for window in range(40)}
    numbers = {window: number(0.1 + window * 0.031) for window in range(40)}
    found = BUDGETING.next_look(PTK, room(left), numbers, lambda _: Askable.YES, charged)
    assert isinstance(found, Proposal)
    assert len(priced) == len(set(priced)) <= STEPS


def test_nothing_is_released_while_too_few_windows_could_serve() -> None:
    """Each release is paid for, and a window may expire before the others come."""
    three = replace(PTK, windows=(3, 3))
    assert look(three, {0: 5.0}, {}) is Awaited.NEW_WINDOW
    declined = {0: 5.0, 1: 5.0, 2: 5.0}
    assert look(three, declined, {2: number(0.01)}) is Awaited.SIGNIFICANCE
    assert look(three, {**declined, 3: 5.0}, {2: number(0.01)}) == ToAsk((0, 1, 3))
    either = replace(three, windows=(1, 3), menu=(MenuEntry(Loss(LOW), 3_000), MenuEntry(Loss(HIGH), 1_000)))
    assert look(either, {0: 5.0}, {}) == ToAsk((0,))


def test_a_grant_is_what_the_number_is_worth_within_what_is_asked_for_and_left() -> None:
    one = replace(PTK, windows=(1, 1))
    assert look(one, {0: 5.0}, {0: number(0.3)}) == ((0,), step(0.3))
    assert look(one, {0: 5.0}, {0: number(3.0)}) == ((0,), 1.0)
    assert look(one, {0: 0.2}, {0: number(3.0)}) == ((0,), step(0.2))
    assert look(one, {0: 5.0}, {0: number(0.09)}) is Awaited.SIGNIFICANCE
    assert look(one, {0: 5.0}, {0: float("-1e300")}) is Awaited.SIGNIFICANCE
    assert look(one, {0: 5.0}, {0: None}) is Awaited.SIGNIFICANCE


def test_one_epsilon_is_all_or_nothing() -> None:
    one = replace(PTK, losses=(Loss(HIGH), Loss(HIGH)))
    assert look(one, {0: 5.0}, {0: number(0.99)}) is Awaited.SIGNIFICANCE
    assert look(one, {0: 0.99}, {0: number(5.0)}) is Awaited.BUDGET
    assert look(replace(one, windows=(1, 1)), {0: 5.0}, {0: number(1.01)}) == ((0,), 1.0)


def test_nothing_is_released_where_the_least_loss_cannot_be_paid_for() -> None:
    """B4, B5: a window that is used up or retired is not asked."""
    assert look(PTK, {0: 0.09, 1: 5.0}, {}) == ToAsk((1,))
    assert look(PTK, {0: 0.09}, {}) is Awaited.BUDGET
    assert look(PTK, {}, {}) is Awaited.NEW_WINDOW
    assert BUDGETING.declines(PTK, 7, room({}), pure) is Declined.RETIRED


def test_all_groups_of_a_window_have_to_pay() -> None:
    one = replace(PTK, groups=range(2))
    left = WindowsLeft(Caps((NANO,), 0), {(0, 0): Caps((NANO,), 0), (0, 1): Caps((LOW - 1,), 0)})
    assert BUDGETING.declines(one, 0, left, pure) is Declined.UNAFFORDABLE


def test_newer_windows_are_released_first_and_only_as_many_as_are_missing() -> None:
    left = dict.fromkeys(range(6), 5.0)
    assert look(PTK, left, {}) == ToAsk((3, 4, 5))
    assert look(PTK, left, {5: number(0.5), 4: number(0.01)}) == ToAsk((2, 3))
    assert look(PTK, left, {5: number(0.5)}, lambda _: Askable.LATER) == ((5,), step(0.5))
    assert look(replace(PTK, windows=(2, 3)), left, {5: number(0.5)}, lambda _: Askable.LATER) is (
        Awaited.COMPARISON
    )
    assert look(PTK, left, {}, lambda _: Askable.UNAFFORDABLE) is Awaited.BUDGET


def test_a_window_that_grants_little_is_left_out_and_ties_go_to_more_windows() -> None:
    left = dict.fromkeys(range(3), 5.0)
    assert look(PTK, left, {0: number(0.8), 1: number(0.6), 2: number(0.25)}) == ((0, 1), step(0.6))
    assert look(PTK, left, {0: number(0.2), 1: number(0.9), 2: number(0.2)}) == ((1,), step(0.9))
    assert look(PTK, left, dict.fromkeys(range(3), number(0.2))) == ((0, 1, 2), step(0.2))
    two = replace(PTK, windows=(2, 3))
    assert look(two, left, {0: number(0.2), 1: number(0.9), 2: number(0.2)}) == ((0, 1, 2), step(0.2))
    doubling = replace(PTK, losses=(Loss(NANO // 2 ** (STEPS - 1)), Loss(NANO)))
    enough = dict.fromkeys(range(2), number(5.0))
    assert look(doubling, {0: 5.0, 1: 0.5}, enough) == ((0, 1), 0.5)  # as much as one window with 1.0


def test_after_retry_at_least_twice_the_loss_is_asked_for() -> None:
    one = replace(PTK, windows=(1, 1), last=Look(1, 1, Loss(NANO // 4)))
    assert look(one, {0: 5.0}, {0: number(0.49)}) is Awaited.SIGNIFICANCE
    assert look(one, {0: 5.0}, {0: number(0.7)}) == ((0,), step(0.7, NANO // 2))
    most = replace(one, last=Look(1, 1, Loss(HIGH)))
    assert look(most, {0: 5.0}, {0: number(7)}) == ((0,), 1.0)
    assert look(replace(one, last=Look(1, 1, Loss(LOW), under_way=True)), {0: 5.0}, {}) is Awaited.VERDICT


def test_a_pair_of_a_menu_needs_its_windows_and_its_loss_and_numbers_count_for_each() -> None:
    menu = (MenuEntry(Loss(LOW), 3_000), MenuEntry(Loss(NANO // 2), 1_000))
    one = replace(PTK, menu=menu)
    left = dict.fromkeys(range(3), 5.0)
    assert look(one, left, {0: number(0.6)}) == ((0,), step(0.6, NANO // 2))
    assert look(one, left, {0: number(0.4)}) == ToAsk((1, 2))
    assert look(one, left, dict.fromkeys(range(3), number(0.15))) == ((0, 1, 2), step(0.15))


def test_the_same_numbers_give_the_same_look() -> None:
    """B3: neither order nor anything that is not an argument decides."""
    left = dict.fromkeys(range(3), 5.0)
    numbers = {0: number(0.8), 1: number(0.6), 2: number(0.25)}
    assert look(PTK, left, numbers) == look(
        PTK, dict(reversed(left.items())), dict(reversed(numbers.items()))
    )


@given(
    epsilons=st.dictionaries(st.integers(0, 5), st.floats(-1, 3), min_size=1),
    left=st.lists(st.floats(0, 2), min_size=6, max_size=6),
    bounds=st.tuples(st.integers(1, 3), st.integers(0, 3)),
    charge_of=st.sampled_from([pure, squared]),
)
def test_a_look_is_payable_and_no_other_choice_has_more_windows_times_loss(
    epsilons: dict[int, float],
    left: list[float],
    bounds: tuple[int, int],
    charge_of: Callable[[str, Loss], Charge],
) -> None:
    least, most = bounds[0], bounds[0] + bounds[1]
    one = replace(PTK, windows=(least, most))
    coordinates = len(charge_of("", Loss(LOW)).amounts)
    caps = {(window, 0): Caps((round(left[window] * NANO),) * coordinates, 0) for window in epsilons}
    room = WindowsLeft(Caps((2 * NANO,) * coordinates, 0), caps)
    released = {window: number(epsilon) for window, epsilon in epsilons.items()}
    found = BUDGETING.next_look(one, room, released, lambda _: Askable.YES, charge_of)

    def serve(windows: tuple[int, ...], nano: int, *, surely: bool = False) -> bool:
        loss = Loss(nano)
        worth = min(epsilons[window] for window in windows) * NANO
        payable = all(BUDGETING.declines(one, window, room, charge_of, loss) is None for window in windows)
        return LOW <= nano <= worth + (-2 if surely else 2) and payable

    choices = [windows for n in range(least, most + 1) for windows in combinations(sorted(epsilons), n)]
    steps = steps_between(LOW, HIGH)
    if isinstance(found, Proposal):
        assert found.windows in choices
        assert serve(found.windows, found.loss.epsilon_nano)
        assert found.loss.epsilon_nano in steps
        assert found.charge == charge_of("team.ptk", found.loss)
        mine = len(found.windows) * found.loss.epsilon_nano
        better = [(windows, nano) for windows in choices for nano in steps if len(windows) * nano > mine]
        assert not any(serve(*choice, surely=True) for choice in better)
    else:
        assert not any(serve(windows, LOW, surely=True) for windows in choices)


@pytest.mark.parametrize("noisy", [-(2.0**62), 2.0**62, 1e308, -1e308])
def test_numbers_beyond_all_bounds_are_taken(noisy: float) -> None:
    found = look(replace(PTK, windows=(1, 1)), {0: 5.0}, {0: noisy})
    assert found == (((0,), 1.0) if noisy > 0 else Awaited.SIGNIFICANCE)
