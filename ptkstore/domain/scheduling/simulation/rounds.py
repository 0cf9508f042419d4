"""Windows close one after the other, and a scheduler decides after each. The code that schedules is what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ptkstore.domain.accounting.accountants import Charge
from ptkstore.domain.scheduling.allowances import Allowances, BlockRoom
from ptkstore.domain.scheduling.model import ChargeOf, Look, Proposal, Waiting
from ptkstore.domain.scheduling.simulation.outcomes import Outcome, Released
from ptkstore.domain.scheduling.strategies import Strategy
from ptkstore.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Comer:
    """A PTK that begins to wait at a time, in windows. `accepts` tells whether a look of it is accepted."""

    facts: Waiting
    time: float
    accepts: Callable[[Proposal], bool]


@dataclass(frozen=True, slots=True)
class Ground:
    """The windows that are simulated, and what their blocks may lose.

    Parameters
    ----------
    windows, retention : int
        How many windows close, and how many are kept at once.
    blocks : tuple of BlockRoom
        The blocks of window 0, one for each group, of which nothing is taken.
    least : Charge
        A block that has less left than this is used up.
    most_work : int, optional
        `InvalidRequest` if the replay takes more. A PTK that is asked for its next look takes `weight` times its
        blocks and 50 more.
    weight : int
        How much longer a scheduler takes over a look than `conserve` does.
    """

    windows: int
    retention: int
    blocks: tuple[BlockRoom, ...]
    least: Charge
    charge_of: ChargeOf
    most_work: int | None = None
    weight: int = 1


def play(comers: Sequence[Comer], strategy: Strategy, ground: Ground) -> Outcome:
    """Close windows, and return who was released when; window w closes at time w + 1.

    Its blocks are divided among the PTKs that came by then, and the strategy proposes until it has nothing more to
    propose. A training takes no time.

    Raises
    ------
    InvalidRequest
        It takes more work than the ground allows.
    """
    rounds = _Rounds(strategy, ground)
    todo = sorted(comers, key=lambda one: (one.time, one.facts.ptk_id))
    for window in range(ground.windows):
        while todo and todo[0].time <= window + 1:
            rounds.arrive(todo.pop(0))
        rounds.close(window)
    return rounds.ended(todo)


class _Rounds:
    def __init__(self, strategy: Strategy, ground: Ground) -> None:
        self.strategy, self.ground = strategy, ground
        self.room = Allowances()
        self.waiting: dict[str, Waiting] = {}
        self.came: dict[str, Comer] = {}
        self.outcome = Outcome()

    def arrive(self, comer: Comer) -> None:
        one = comer.facts
        self.waiting[one.ptk_id], self.came[one.ptk_id] = one, comer
        self.room.join(one, self.ground.charge_of)

    def close(self, window: int) -> None:
        self._drop(self._numbers(window - self.ground.retention))
        rooms = zip(self._numbers(window), self.ground.blocks, strict=True)
        self.room.add_blocks([replace(empty, number=number, window=window) for number, empty in rooms])
        asked: Iterable[Waiting] = self.waiting.values()
        while True:
            if self.strategy.shares_out:
                self.room.divide()
            many = list(asked)
            self._count(len(many))
            proposals = self.strategy.propose(many, self.room, self.ground.charge_of)
            if not proposals:
                break
            gone = [one for one in proposals if self._look(one, window + 1.0)]
            # If nobody left, nobody's room grew, so only those who were answered have something new to ask.
            again = [self.waiting[one.ptk_id] for one in proposals if one.ptk_id in self.waiting]
            asked = self.waiting.values() if gone else again
        self._drop(self.room.below(self.ground.least))

    def _numbers(self, window: int) -> range:
        n_groups = len(self.ground.blocks)
        return range(window * n_groups, (window + 1) * n_groups)

    def _count(self, asked: int) -> None:
        self.outcome.decisions += asked * len(self.room)
        self.outcome.work += asked * (len(self.room) + 50) * self.ground.weight
        most = self.ground.most_work
        if most is not None and self.outcome.work > most:
            raise InvalidRequest(
                "the simulation takes too much work; ask for fewer windows, a lower rate or one scheduler at a time"
            )

    def _look(self, proposal: Proposal, time: float) -> bool:
        """Charge a training and give its verdict; whether the PTK leaves its room to others."""
        take = self.room.take if self.strategy.shares_out else self.room.take_free
        take(proposal)
        one, comer = self.waiting[proposal.ptk_id], self.came[proposal.ptk_id]
        number = 1 if one.last is None else one.last.number + 1
        accepted = comer.accepts(proposal)
        again = replace(one, last=Look(number, len(proposal.windows), proposal.loss))
        if not accepted and self.strategy.may_have_more(again):
            self.waiting[one.ptk_id] = again
            return False
        self.outcome.releases.append(Released(one.ptk_id, comer.time, time if accepted else None, number))
        self.room.leave(one.ptk_id)
        del self.waiting[one.ptk_id], self.came[one.ptk_id]
        return True

    def _drop(self, numbers: Sequence[int]) -> None:
        left = self.room.left()
        self.outcome.left |= {number: left[number][0] for number in numbers if number in left}
        self.room.drop_blocks(numbers)

    def ended(self, late: Sequence[Comer]) -> Outcome:
        self._drop(list(self.room.left()))
        looks = {one.ptk_id: one.last.number if one.last else 0 for one in self.waiting.values()}
        for comer in (*self.came.values(), *late):
            ptk_id = comer.facts.ptk_id
            self.outcome.releases.append(Released(ptk_id, comer.time, None, looks.get(ptk_id, 0)))
        return self.outcome
