"""Simulation only: the scheduler `budgeting` with a declared significance, for PTKs that wait on a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ptkstore.domain.accounting.accountants import Caps, Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.budgeting.public import PublicBudgeting, WindowsLeft
from ptkstore.domain.budgeting.significance import Recency
from ptkstore.domain.scheduling.adaptive import in_turn
from ptkstore.domain.scheduling.choices import ServedFirst
from ptkstore.domain.scheduling.model import Proposal, Waiting
from ptkstore.domain.scheduling.orders import ORDERS
from ptkstore.domain.scheduling.queues import Awaited
from ptkstore.domain.scheduling.serving import served_in_turn
from ptkstore.domain.scheduling.simulation.simulator import SimulatedStream
from ptkstore.domain.scheduling.simulation.work import Work

DECISION, PASS = 25, 9
"""Steps of one decision about a block of a window, and of looking at what a block has left when a window closes."""
ASKED_A_STEP = 6
"""Blocks that are sorted by window in one step, for each PTK that asks."""


class BudgetingState:
    """The unspent budget of windows, and which ones each waiting PTK has read.

    Parameters
    ----------
    budgeting : PublicBudgeting
        The rules that the service runs.
    caps : Caps
        The capacity of a block.
    recencies : mapping of str to Recency
        The declaration of each PTK, by its id.
    served_first : ServedFirst
        That of the policy.
    """

    def __init__(
        self,
        budgeting: PublicBudgeting,
        stream: SimulatedStream,
        caps: Caps,
        recencies: Mapping[str, Recency],
        work: Work | None = None,
        served_first: ServedFirst = ServedFirst.ARRIVAL,
    ) -> None:
        self._budgeting, self._stream, self._caps, self._recencies = budgeting, stream, caps, recencies
        self._served_first = served_first
        self._work = Work() if work is None else work
        self._left = WindowsLeft(caps, {})
        self._read: dict[str, set[int]] = {}
        self._groups: dict[str, int] = {}
        self._newest = -1

    @property
    def leaving_frees(self) -> bool:
        """Nobody has an allowance."""
        return False

    def __len__(self) -> int:
        return len(self._left)

    def open_window(self, window: int) -> None:
        """Take in the blocks of a window that has closed."""
        self._newest = window
        self._left.add({(window, block.group): self._caps for block in self._stream.blocks})

    def drop_windows(self, windows: Iterable[int]) -> Mapping[int, int]:
        """Forget the blocks of some windows, as far as they are there."""
        groups = [block.group for block in self._stream.blocks]
        return self._drop((window, group) for window in windows for group in groups)

    def drop_used_up(self) -> Mapping[int, int]:
        """Forget the blocks that cannot pay for the least charge."""
        self._work.count(PASS * len(self._left))
        return self._drop(self._left.below(self._stream.least))

    def join(self, one: Waiting) -> None:
        """Let a PTK wait that has read nothing."""
        self._read[one.ptk_id], self._groups[one.ptk_id] = set(), len(one.groups)

    def leave(self, ptk_id: str) -> None:
        """Let a PTK wait no longer."""
        del self._read[ptk_id], self._groups[ptk_id]

    def charge_next_looks(self, waiting: Sequence[Waiting]) -> Sequence[Proposal]:
        """Ask the windows for each PTK in the policy's order, and charge those that serve it; each serves it once."""
        in_order = None if self._served_first is ServedFirst.ARRIVAL else self._in_order
        found = served_in_turn(in_turn(waiting), self._next_look, self._take, in_order)
        return [look for _, look in found if isinstance(look, Proposal)]

    def _next_look(self, one: Waiting) -> Proposal | Awaited:
        self._work.count(1 + len(self._left) // ASKED_A_STEP)
        return self._budgeting.next_look(
            one, self._left, self._significance(one.ptk_id), self._charge_of, self._read[one.ptk_id]
        )

    def _take(self, one: Waiting, found: Proposal) -> None:
        self._left.take(found.windows, one.groups, found.charge)
        self._read[one.ptk_id].update(found.windows)

    def _in_order(self, could: Sequence[tuple[Waiting, Proposal]]) -> list[Waiting]:
        self._work.count(len(self._left) // ASKED_A_STEP + len(could))
        names = {one.ptk_id: one for one, _ in could}
        proposals = [(found, one.groups) for one, found in could]
        return [names[ptk_id] for ptk_id in self._left.served_first(proposals, ORDERS[self._served_first])]

    def may_have_more(self, one: Waiting) -> bool:
        """Return True: a newer window may always serve it."""
        return True

    def _significance(self, ptk_id: str) -> Callable[[int], float]:
        recency, newest = self._recencies[ptk_id], self._newest
        return lambda window: recency.of(newest - window)

    def _charge_of(self, ptk_id: str, loss: Loss) -> Charge:
        """The charge of a loss; the rules ask once for each window that they decide about, block by block."""
        self._work.count(DECISION * self._groups[ptk_id])
        return self._stream.charge_of(ptk_id, loss)

    def _drop(self, places: Iterable[tuple[int, int]]) -> Mapping[int, int]:
        coordinate = self._stream.blocks[0].coordinate
        dropped = {}
        for window, group in list(places):
            if (caps := self._left.drop((window, group))) is not None:
                dropped[self._stream.numbers(window)[group]] = max(0, caps.amounts[coordinate])
        return dropped
