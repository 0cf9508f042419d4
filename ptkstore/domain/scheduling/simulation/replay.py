"""Replay arrivals against a scheduler. The code that schedules decides; verdicts follow from what PTKs need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ptkstore.domain.accounting.accountants import Accountant, Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.scheduling.block_rooms import BlockRoom, whole_block
from ptkstore.domain.scheduling.model import MenuEntry, Proposal, Waiting
from ptkstore.domain.scheduling.simulation.outcomes import Outcome as Outcome
from ptkstore.domain.scheduling.simulation.outcomes import Released as Released
from ptkstore.domain.scheduling.simulation.simulator import (
    SimulatedPtk,
    SimulatedStream,
    StrategyState,
    simulate,
)
from ptkstore.domain.scheduling.simulation.workload import Arrival
from ptkstore.domain.scheduling.strategies import Strategy


@dataclass(frozen=True, slots=True)
class Setting:
    """A stream to simulate: what blocks may lose, how many rows a window has, and what one training may take.

    A window has one block. It is kept for `retention` windows, which is also the most that one training may read. A
    block that has less left than the least loss is used up.
    """

    windows: int
    rows_per_window: int
    capacity: Loss
    losses: tuple[Loss, Loss]
    retention: int
    accountant: Accountant = Accountant.BASIC

    def charge_of(self, ptk_id: str, loss: Loss) -> Charge:
        """Return what any release of this loss is charged; the PTK does not matter."""
        return _charge(self.accountant, loss)

    @property
    def whole(self) -> BlockRoom:
        """A block of which nothing is charged, at the coordinate of the least losses."""
        return whole_block(self.accountant, self.capacity, [self.charge_of("", self.losses[0])])


def replay(
    arrivals: Sequence[Arrival], strategy: Strategy, setting: Setting, *, draw_per_block: bool = False
) -> Outcome:
    """Replay arrivals window by window, and return who was released when.

    Window w closes at time w + 1. Its block is divided among the PTKs that arrived by then, and the strategy proposes
    until it has nothing more to propose. A training takes no time. Its verdict is ACCEPT once its rows are as many as
    the PTK needs at its epsilon, otherwise RETRY.

    Parameters
    ----------
    draw_per_block : bool
        A training draws noise on each block apart and adds the results up, instead of drawing it once. Without block
        composition it would have to (Sage, section 3.2).
    """
    least = setting.charge_of("", setting.losses[0])
    stream = SimulatedStream(setting.windows, setting.retention, (setting.whole,), least, setting.charge_of)
    ptks = [_ptk(one, setting, draw_per_block) for one in arrivals]
    return simulate(ptks, StrategyState(strategy, stream), stream)


def _ptk(arrival: Arrival, setting: Setting, draw_per_block: bool) -> SimulatedPtk:
    def accepts(look: Proposal) -> bool:
        draws = len(look.windows) if draw_per_block else 1
        return arrival.need.rows(look.loss.epsilon, draws) <= look.n_rows

    delta = setting.losses[0].delta_atto
    menu = tuple(MenuEntry(Loss(round(epsilon * 1e9), delta), rows) for epsilon, rows in arrival.menu)
    arrived, windows = int(arrival.time * 1e6), (1, setting.retention)
    facts = Waiting(arrival.ptk_id, arrived, windows, setting.losses, menu)
    return SimulatedPtk(facts, arrival.time, accepts)


@lru_cache(maxsize=65536)
def _charge(accountant: Accountant, loss: Loss) -> Charge:
    return Charge.pure(accountant, loss)
