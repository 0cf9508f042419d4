"""Room on test blocks for the verdict or the estimate that follows a training: without it, the training is in vain."""

from __future__ import annotations

from collections.abc import Sequence

from ptkstore.application.scheduling.waiting_ptks import WaitingPtk, line_of
from ptkstore.domain.accounting.accountants import Charge, fit_together
from ptkstore.domain.streams.blocks import TEST, part_blocks
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.ports.catalog import CatalogView


class RoomsForTests:
    """The room of test blocks beside the tests of looks that are under way."""

    def __init__(self, uow: CatalogView, stream: Stream) -> None:
        self._uow, self._stream = uow, stream
        self._planned: dict[tuple[str, int], list[Charge]] = {}

    def expect(self, one: WaitingPtk) -> None:
        """Keep room for the test of a look that is under way, and has reserved nothing for it yet."""
        self._plan(one, one.given.untested)

    def take(self, one: WaitingPtk, windows: Sequence[int]) -> bool:
        """Keep room for the test of a training on some windows; whether there is any on all of them."""
        if not self.has_room(one, windows):
            return False
        self._plan(one, windows)
        return True

    def has_room(self, one: WaitingPtk, windows: Sequence[int]) -> bool:
        """Tell whether the test blocks of all these windows can pay for the test of a training."""
        if (charge := one.test) is None:
            return True
        filters = self._uow.ledger.filters(self._stream.name)
        for line, number in self._blocks(one, windows):
            left = filters.left(line, [number]).get(number)
            if left is None or not fit_together(left, (*self._planned.get((line, number), ()), charge)):
                return False
        return True

    def _plan(self, one: WaitingPtk, windows: Sequence[int]) -> None:
        if (charge := one.test) is not None:
            for key in self._blocks(one, windows):
                self._planned.setdefault(key, []).append(charge)

    def _blocks(self, one: WaitingPtk, windows: Sequence[int]) -> list[tuple[str, int]]:
        line, policy = str(line_of(one.spec, self._stream.policy)), self._stream.policy
        tested = (WindowId(self._stream.name, window) for window in windows)
        ranges = (part_blocks(TEST, window, policy, one.facts.groups) for window in tested)
        return [(line, number) for blocks in ranges for number in blocks]
