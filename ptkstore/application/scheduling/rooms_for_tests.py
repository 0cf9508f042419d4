"""Room on test blocks for the verdict or the estimate that follows a training: without it, the training is in vain."""

from __future__ import annotations

from ptkstore.application.planning.evaluation_plans import price_of_estimate
from ptkstore.application.scheduling.waiting_ptks import WaitingPtk, line_of
from ptkstore.domain.accounting.accountants import Charge, fit_together
from ptkstore.domain.evaluations import estimate_epsilon
from ptkstore.domain.streams.blocks import TEST, part_blocks
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.ports.catalog import CatalogView


class RoomsForTests:
    """What test blocks have left beside the tests of looks that are under way."""

    def __init__(self, uow: CatalogView, stream: Stream) -> None:
        self._uow, self._stream = uow, stream
        self._planned: dict[tuple[str, int], list[Charge]] = {}

    def expect(self, one: WaitingPtk) -> None:
        """Keep room for the test of a look that is under way, and has reserved nothing for it yet."""
        newest = one.given.untested_in
        charge = self._charge(one)
        if newest is not None and charge is not None:
            for key in self._blocks(one, newest):
                self._planned.setdefault(key, []).append(charge)

    def take(self, one: WaitingPtk, newest: int) -> bool:
        """Keep room for the test of a training whose newest window is given; whether there is any."""
        charge = self._charge(one)
        if charge is None:
            return True
        blocks = self._blocks(one, newest)
        filters = self._uow.ledger.filters(self._stream.name)
        for line, number in blocks:
            left = filters.left(line, [number]).get(number)
            if left is None or not fit_together(left, (*self._planned.get((line, number), ()), charge)):
                return False
        for key in blocks:
            self._planned.setdefault(key, []).append(charge)
        return True

    def _charge(self, one: WaitingPtk) -> Charge | None:
        epsilon = estimate_epsilon(one.spec.config)
        if epsilon is None:
            return None
        return price_of_estimate(one.spec.estimator, epsilon, self._stream.policy).charge

    def _blocks(self, one: WaitingPtk, newest: int) -> list[tuple[str, int]]:
        line = str(line_of(one.spec, self._stream.policy))
        window = WindowId(self._stream.name, newest)
        blocks = part_blocks(TEST, window, self._stream.policy, one.facts.groups)
        return [(line, number) for number in blocks]
