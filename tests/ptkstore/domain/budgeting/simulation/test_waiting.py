"""PTKs that wait under `budgeting` in a simulation: windows serve each of them once, by the rules of the service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ptkstore.domain.accounting.accountants import Accountant, Charge, caps_of
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.budgeting.public import PublicBudgeting
from ptkstore.domain.budgeting.rule import ThresholdRule
from ptkstore.domain.budgeting.significance import Recency
from ptkstore.domain.budgeting.simulation.waiting import BudgetingState
from ptkstore.domain.scheduling.block_rooms import whole_block
from ptkstore.domain.scheduling.choices import ServedFirst
from ptkstore.domain.scheduling.model import Proposal, Waiting
from ptkstore.domain.scheduling.simulation.outcomes import Outcome
from ptkstore.domain.scheduling.simulation.simulator import SimulatedPtk, SimulatedStream, simulate
from ptkstore.domain.scheduling.simulation.work import Work

TENTH, WHOLE = Loss(10**8), Loss(10**9)
RULE = ThresholdRule(0.1, 0.2, 0)  # whatever fits a block is served


def charge_of(ptk_id: str, loss: Loss) -> Charge:
    return Charge.pure(Accountant.BASIC, loss)


def simulated(
    *ptks: tuple[Waiting, Callable[[Proposal], bool]],
    rule: ThresholdRule = RULE,
    retention: int = 4,
    recency: int = 10,
    windows: int = 4,
    groups: int = 1,
    work: Work | None = None,
    served_first: ServedFirst = ServedFirst.ARRIVAL,
) -> Outcome:
    """PTKs wait from the first window on."""
    least = charge_of("", TENTH)
    block = whole_block(Accountant.BASIC, WHOLE, [least])
    blocks = tuple(replace(block, group=group) for group in range(groups))
    stream = SimulatedStream(windows, retention, blocks, least, charge_of)
    recencies = {one.ptk_id: Recency(recency) for one, _ in ptks}
    state = BudgetingState(
        PublicBudgeting(rule, 100), stream, caps_of(Accountant.BASIC, WHOLE), recencies, work, served_first
    )
    return simulate([SimulatedPtk(one, 0.5, accepts) for one, accepts in ptks], state, stream)


def ptk(name: str, windows: tuple[int, int] = (1, 1), most: Loss = TENTH) -> Waiting:
    return Waiting(name, 0, windows, (TENTH, most))


def looks(outcome: Outcome) -> dict[str, tuple[float | None, int]]:
    return {one.ptk_id: (one.time, one.looks) for one in outcome.releases}


def test_after_a_retry_a_look_has_twice_the_loss_and_a_window_that_was_not_read() -> None:
    given: list[tuple[tuple[int, ...], int]] = []

    def accepts(look: Proposal) -> bool:
        given.append((look.windows, look.loss.epsilon_nano))
        return len(given) == 4

    outcome = simulated((ptk("a", most=Loss(4 * 10**8)), accepts))
    assert given == [((0,), 10**8), ((1,), 2 * 10**8), ((2,), 4 * 10**8), ((3,), 4 * 10**8)]
    assert looks(outcome) == {"a": (4.0, 4)}
    assert outcome.left == {0: 9 * 10**8, 1: 8 * 10**8, 2: 6 * 10**8, 3: 6 * 10**8}


@pytest.mark.parametrize("order", [ServedFirst.DPF, ServedFirst.DPACK])
def test_who_asks_for_little_is_served_first_where_the_policy_says_so(order: ServedFirst) -> None:
    """A window pays for the large one, or for both others."""
    large, *small = (
        Waiting(name, at, (1, 1), (loss, loss))
        for at, (name, loss) in enumerate((("a", WHOLE), ("b", TENTH), ("c", TENTH)))
    )
    ptks = [(one, lambda look: True) for one in (large, *small)]
    assert looks(simulated(*ptks)) == {"a": (1.0, 1), "b": (2.0, 1), "c": (2.0, 1)}
    assert looks(simulated(*ptks, served_first=order)) == {"b": (1.0, 1), "c": (1.0, 1), "a": (2.0, 1)}


def test_the_first_to_arrive_is_served_and_the_others_wait_for_another_window() -> None:
    """A window pays for one whole block each."""
    whole = [Waiting(name, at, (1, 1), (WHOLE, WHOLE)) for at, name in enumerate("cab")]
    outcome = simulated(*((one, lambda look: True) for one in whole))
    assert looks(outcome) == {"c": (1.0, 1), "a": (2.0, 1), "b": (3.0, 1)}
    assert outcome.left == {0: 0, 1: 0, 2: 0, 3: 10**9}


def test_windows_of_no_significance_serve_nobody() -> None:
    """Three windows are needed, and significance is gone after two."""
    served = (ptk("a", windows=(3, 3)), lambda look: True)
    assert looks(simulated(served, recency=3)) == {"a": (3.0, 1)}
    assert looks(simulated(served, recency=2)) == {"a": (None, 0)}


def test_windows_that_expired_serve_nobody() -> None:
    served = (ptk("a", windows=(3, 3)), lambda look: True)
    assert looks(simulated(served, retention=2)) == {"a": (None, 0)}


def test_a_fuller_window_asks_for_more_significance() -> None:
    """T rises from 2 to 10: 1 / .2 = 5 is reached at z = .734, which four looks of .2 pass."""
    many = [Waiting(f"p{at}", at, (1, 1), (Loss(2 * 10**8), Loss(2 * 10**8))) for at in range(5)]
    outcome = simulated(*((one, lambda look: True) for one in many), rule=ThresholdRule(2.0, 10.0, 0))
    assert looks(outcome) == {**{f"p{at}": (1.0, 1) for at in range(4)}, "p4": (2.0, 1)}


def test_what_is_computed_grows_with_the_groups_of_a_window() -> None:
    """A window is decided about block by block, and each window that closes is looked through."""
    counted = {}
    for groups in (1, 100):
        work = Work()
        waiting = Waiting("a", 0, (3, 3), (TENTH, TENTH), groups=range(groups))
        simulated((waiting, lambda look: False), groups=groups, work=work)
        counted[groups] = work.done
    assert counted[100] > 50 * counted[1]
