"""Replay arrivals against a scheduler. The code that schedules decides; verdicts follow from what PTKs need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ptkstore.domain.accounting.accountants import Accountant, Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.scheduling.allowances import Allowances, coordinate_of, room_in_block
from ptkstore.domain.scheduling.model import Look, Proposal, Waiting, Way
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
    def coordinate(self) -> int:
        """The coordinate at which allowances are shares of the cap: that of the least losses."""
        return coordinate_of(self.accountant, self.capacity, [self.charge_of("", self.losses[0])])


@dataclass(frozen=True, slots=True)
class Released:
    """How one PTK fared. `time` is when its look was accepted, in windows; None if that was never."""

    ptk_id: str
    arrived: float
    time: float | None
    looks: int


@dataclass(slots=True)
class Outcome:
    """What came of a replay.

    `left` is what each block had left when it was used up, expired or the replay ended: units of the coordinate.
    `decisions` counts pairs of a PTK and a block that were looked at.
    """

    releases: list[Released] = field(default_factory=list)
    left: dict[int, int] = field(default_factory=dict)
    decisions: int = 0

    def waits(self, since: float, until: float, end: float) -> list[float]:
        """Return how long each PTK waited that arrived in [`since`, `until`); those still waiting count up to `end`.

        So a mean of these is a lower bound where some were never released.
        """
        counted = (one for one in self.releases if since <= one.arrived < until)
        return [(end if one.time is None else one.time) - one.arrived for one in counted]

    def released_share(self, since: float, until: float) -> float:
        """Return the share of the PTKs that arrived in [`since`, `until`) and were released; 1 if there are none."""
        times = [one.time for one in self.releases if since <= one.arrived < until]
        return 1.0 if not times else sum(time is not None for time in times) / len(times)


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
    simulation = _Simulation(strategy, setting, draw_per_block)
    todo = sorted(arrivals, key=lambda one: (one.time, one.ptk_id))
    for window in range(setting.windows):
        while todo and todo[0].time <= window + 1:
            simulation.arrive(todo.pop(0))
        simulation.close(window)
    return simulation.ended(todo)


class _Simulation:
    def __init__(self, strategy: Strategy, setting: Setting, draw_per_block: bool) -> None:
        self.strategy, self.setting, self.draw_per_block = strategy, setting, draw_per_block
        self.room = Allowances()
        self.waiting: dict[str, Waiting] = {}
        self.arrived: dict[str, Arrival] = {}
        self.outcome = Outcome()
        self.least = setting.charge_of("", setting.losses[0])
        self.empty = room_in_block(0, 0, setting.coordinate, setting.accountant, setting.capacity)

    def arrive(self, arrival: Arrival) -> None:
        ways = tuple(self._way(epsilon, rows) for epsilon, rows in arrival.menu)
        one = Waiting(
            arrival.ptk_id,
            int(arrival.time * 1e6),
            (1, self.setting.retention),
            self.setting.losses,
            ways,
        )
        self.waiting[one.ptk_id], self.arrived[one.ptk_id] = one, arrival
        self.room.join(one, self.setting.charge_of)

    def _way(self, epsilon: float, rows: int) -> Way:
        loss = Loss(round(epsilon * 1e9), self.setting.losses[0].delta_atto)
        return Way(loss, self.setting.charge_of("", loss), rows)

    def close(self, window: int) -> None:
        self._drop([window - self.setting.retention])
        self.room.add_blocks([replace(self.empty, number=window, window=window)])
        asked: Iterable[Waiting] = self.waiting.values()
        while True:
            if self.strategy.shares_out:
                self.room.divide()
            many = list(asked)
            self.outcome.decisions += len(many) * len(self.room)
            proposals = self.strategy.propose(many, self.room, self.setting.charge_of)
            if not proposals:
                break
            accepted = [one for one in proposals if self._look(one, window + 1.0)]
            # Without an acceptance nobody's room grew, so only those who were answered have something new to ask.
            again = [self.waiting[one.ptk_id] for one in proposals if one.ptk_id in self.waiting]
            asked = self.waiting.values() if accepted else again
        self._drop(self.room.below(self.least))

    def _look(self, proposal: Proposal, time: float) -> bool:
        """Charge a training and give its verdict; whether it was accepted."""
        take = self.room.take if self.strategy.shares_out else self.room.take_free
        take(proposal)
        one, arrival = self.waiting[proposal.ptk_id], self.arrived[proposal.ptk_id]
        number = 1 if one.last is None else one.last.number + 1
        draws = len(proposal.windows) if self.draw_per_block else 1
        if arrival.need.rows(proposal.loss.epsilon, draws) > proposal.n_rows:
            last = Look(number, len(proposal.windows), proposal.loss)
            self.waiting[one.ptk_id] = replace(one, last=last)
            return False
        self.outcome.releases.append(Released(one.ptk_id, arrival.time, time, number))
        self.room.leave(one.ptk_id)
        del self.waiting[one.ptk_id], self.arrived[one.ptk_id]
        return True

    def _drop(self, numbers: Sequence[int]) -> None:
        left = self.room.left()
        self.outcome.left |= {number: left[number][0] for number in numbers if number in left}
        self.room.drop_blocks(numbers)

    def ended(self, late: Sequence[Arrival]) -> Outcome:
        self._drop(list(self.room.left()))
        looks = {one.ptk_id: one.last.number if one.last else 0 for one in self.waiting.values()}
        for arrival in (*self.arrived.values(), *late):
            count = looks.get(arrival.ptk_id, 0)
            self.outcome.releases.append(Released(arrival.ptk_id, arrival.time, None, count))
        return self.outcome


@lru_cache(maxsize=65536)
def _charge(accountant: Accountant, loss: Loss) -> Charge:
    return Charge.pure(accountant, loss)
