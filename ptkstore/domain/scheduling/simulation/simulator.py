"""Windows close one after the other, and a scheduler decides after each. The code that schedules is what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ptkstore.domain.accounting.accountants import Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.scheduling.allowances import Allowances
from ptkstore.domain.scheduling.block_rooms import BlockRoom
from ptkstore.domain.scheduling.model import ChargeOf, Look, Proposal, Waiting
from ptkstore.domain.scheduling.simulation.outcomes import Outcome, Released
from ptkstore.domain.scheduling.simulation.work import Work
from ptkstore.domain.scheduling.strategies import Strategy

COMPARISON, BLOCKS_A_STEP, BLOCKS_OF_GROUPS_A_STEP = 25, 100, 20
"""Steps of reading what a PTK may use, or of comparing a charge with it, and how many blocks take one more:
of one group, or of several, whose windows have to be counted."""
PASS, SHARES_A_STEP, PASSES_OF_A_DIVISION = 50, 200, 8
"""Steps of one pass over a table of allowances, how many of its entries take one more, and what a division takes."""


@dataclass(frozen=True, slots=True)
class SimulatedPtk:
    """A PTK that begins to wait at a time, in windows. `accepts` tells whether a look of it is accepted."""

    facts: Waiting
    time: float
    accepts: Callable[[Proposal], bool]


@dataclass(frozen=True, slots=True)
class SimulatedStream:
    """The windows that are simulated, and what their blocks may lose.

    Parameters
    ----------
    windows, retention : int
        How many windows close, and how many are kept at once.
    blocks : tuple of BlockRoom
        The blocks of window 0, one for each group, of which nothing is taken.
    least : Charge
        A block that has less left than this is used up.
    """

    windows: int
    retention: int
    blocks: tuple[BlockRoom, ...]
    least: Charge
    charge_of: ChargeOf

    def numbers(self, window: int) -> range:
        """Return the numbers of the blocks of a window."""
        return range(window * len(self.blocks), (window + 1) * len(self.blocks))


class SchedulerState(Protocol):
    """A scheduler, with what it knows of the PTKs that wait and of what the blocks have left.

    Methods that drop blocks return what each had left, in units of the coordinate of the stream's blocks.
    """

    @property
    def leaving_frees(self) -> bool:
        """Whether others may have more once a PTK waits no longer."""
        ...

    def __len__(self) -> int:
        """How many blocks there are."""
        ...

    def open_window(self, window: int) -> None:
        """Take in the blocks of a window that has closed."""
        ...

    def drop_windows(self, windows: Iterable[int]) -> Mapping[int, int]:
        """Forget the blocks of some windows, as far as they are there."""
        ...

    def drop_used_up(self) -> Mapping[int, int]:
        """Forget the blocks that have less left than the least charge."""
        ...

    def join(self, one: Waiting) -> None:
        """Let a PTK wait."""
        ...

    def leave(self, ptk_id: str) -> None:
        """Let a PTK wait no longer."""
        ...

    def charge_next_looks(self, waiting: Sequence[Waiting]) -> Sequence[Proposal]:
        """Return the next looks of those who are given one, and charge them."""
        ...

    def may_have_more(self, one: Waiting) -> bool:
        """Return whether a PTK may be given a look with enough room."""
        ...


class StrategyState:
    """A strategy such as `adaptive`, and the allowances of those who wait.

    Counted as work are: reading what a PTK may use, comparing a charge with it, and passes over all allowances.
    """

    def __init__(self, strategy: Strategy, stream: SimulatedStream, work: Work | None = None) -> None:
        self._strategy, self._stream = strategy, stream
        self._room, self._n_waiting = Allowances(), 0
        self._work = Work() if work is None else work
        self._comparison = COMPARISON if strategy.shares_out else 2 * COMPARISON  # it sorts claims as well

    def _charge_of(self, ptk_id: str, loss: Loss) -> Charge:
        """The charge of a loss; a strategy asks once for each comparison."""
        self._work.count(self._steps)
        return self._stream.charge_of(ptk_id, loss)

    def _count_shares(self, passes: int = 1) -> None:
        """Passes over the allowances of all PTKs on all blocks."""
        self._work.count(passes * (PASS + self._n_waiting * len(self._room) // SHARES_A_STEP))

    @property
    def _steps(self) -> int:
        """Steps of one comparison."""
        one_group = len(self._stream.blocks) == 1
        return self._comparison + len(self._room) // (BLOCKS_A_STEP if one_group else BLOCKS_OF_GROUPS_A_STEP)

    @property
    def leaving_frees(self) -> bool:
        """Allowances go to the others."""
        return self._strategy.shares_out

    def __len__(self) -> int:
        return len(self._room)

    def open_window(self, window: int) -> None:
        """Take in the blocks of a window that has closed."""
        self._count_shares()
        rooms = zip(self._stream.numbers(window), self._stream.blocks, strict=True)
        self._room.add_blocks([replace(empty, number=number, window=window) for number, empty in rooms])

    def drop_windows(self, windows: Iterable[int]) -> Mapping[int, int]:
        """Forget the blocks of some windows, as far as they are there."""
        return self._drop(number for window in windows for number in self._stream.numbers(window))

    def drop_used_up(self) -> Mapping[int, int]:
        """Forget the blocks that have less left than the least charge."""
        return self._drop(self._room.below(self._stream.least))

    def join(self, one: Waiting) -> None:
        """Let a PTK wait, without allowances so far."""
        self._n_waiting += 1
        self._count_shares()
        self._room.join(one, self._stream.charge_of)

    def leave(self, ptk_id: str) -> None:
        """Let a PTK wait no longer: its allowances are free."""
        self._count_shares()
        self._room.leave(ptk_id)
        self._n_waiting -= 1

    def charge_next_looks(self, waiting: Sequence[Waiting]) -> Sequence[Proposal]:
        """Divide what is free, and charge what the strategy proposes."""
        if self._strategy.shares_out:
            self._count_shares(PASSES_OF_A_DIVISION)
            self._room.divide()
        self._work.count(len(waiting) * self._steps)
        proposals = self._strategy.propose(waiting, self._room, self._charge_of)
        take = self._room.take if self._strategy.shares_out else self._room.take_free
        for one in proposals:
            take(one)
        return proposals

    def may_have_more(self, one: Waiting) -> bool:
        """Ask the strategy."""
        return self._strategy.may_have_more(one)

    def _drop(self, numbers: Iterable[int]) -> Mapping[int, int]:
        self._count_shares()
        left = self._room.left()
        dropped = {number: left[number][0] for number in numbers if number in left}
        self._room.drop_blocks(dropped)
        return dropped


def simulate(
    ptks: Sequence[SimulatedPtk],
    scheduler: SchedulerState,
    stream: SimulatedStream,
    tell: Callable[[int], None] = lambda _closed: None,
) -> Outcome:
    """Close windows, and return who was released when; window w closes at time w + 1.

    PTKs that came by then are given looks until nobody is given another one. A training takes no time. `tell` hears
    how many windows have closed.
    """
    simulation = _Simulation(scheduler, stream)
    todo = sorted(ptks, key=lambda one: (one.time, one.facts.ptk_id))
    for window in range(stream.windows):
        while todo and todo[0].time <= window + 1:
            simulation.arrive(todo.pop(0))
        simulation.close(window)
        tell(window + 1)
    return simulation.ended(todo)


class _Simulation:
    def __init__(self, scheduler: SchedulerState, stream: SimulatedStream) -> None:
        self.scheduler, self.stream = scheduler, stream
        self.waiting: dict[str, Waiting] = {}
        self.arrived: dict[str, SimulatedPtk] = {}
        self.outcome = Outcome()

    def arrive(self, ptk: SimulatedPtk) -> None:
        one = ptk.facts
        self.waiting[one.ptk_id], self.arrived[one.ptk_id] = one, ptk
        self.scheduler.join(one)

    def close(self, window: int) -> None:
        self.outcome.left |= self.scheduler.drop_windows([window - self.stream.retention])
        self.scheduler.open_window(window)
        asking = list(self.waiting.values())
        while asking:
            self.outcome.decisions += len(asking) * len(self.scheduler)
            given = self.scheduler.charge_next_looks(asking)
            gone = [one for one in given if self._look(one, window + 1.0)]
            # If nobody's room grew, only those who were answered have something new to ask.
            again = [self.waiting[one.ptk_id] for one in given if one.ptk_id in self.waiting]
            asking = list(self.waiting.values()) if gone and self.scheduler.leaving_frees else again
        self.outcome.left |= self.scheduler.drop_used_up()

    def _look(self, proposal: Proposal, time: float) -> bool:
        """Give the verdict of a training; whether the PTK waits no longer."""
        one, ptk = self.waiting[proposal.ptk_id], self.arrived[proposal.ptk_id]
        number = 1 if one.last is None else one.last.number + 1
        accepted = ptk.accepts(proposal)
        again = replace(one, last=Look(number, len(proposal.windows), proposal.loss))
        if not accepted and self.scheduler.may_have_more(again):
            self.waiting[one.ptk_id] = again
            return False
        self.outcome.releases.append(Released(one.ptk_id, ptk.time, time if accepted else None, number))
        self.scheduler.leave(one.ptk_id)
        del self.waiting[one.ptk_id], self.arrived[one.ptk_id]
        return True

    def ended(self, late: Sequence[SimulatedPtk]) -> Outcome:
        self.outcome.left |= self.scheduler.drop_windows(range(self.stream.windows))
        looks = {one.ptk_id: one.last.number if one.last else 0 for one in self.waiting.values()}
        for ptk in (*self.arrived.values(), *late):
            ptk_id = ptk.facts.ptk_id
            self.outcome.releases.append(Released(ptk_id, ptk.time, None, looks.get(ptk_id, 0)))
        return self.outcome
