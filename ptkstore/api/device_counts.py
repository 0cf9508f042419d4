"""How devices fared: counted by PTK and outcome, and shown in steps of a minute."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

TICK_SECONDS = 60.0
UNKNOWN = "unknown"
"""In place of a PTK, where no ticket that holds said one."""

Counted = tuple[str, str]


class DeviceCounts:
    """Counts that change on multiples of a minute alone: when a single report came cannot be read off them.

    Parameters
    ----------
    clock : callable
        Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tick = clock() // TICK_SECONDS
        self._shown: Counter[Counted] = Counter()
        self._new: Counter[Counted] = Counter()

    def saw(self, ptk_id: str, outcome: str) -> None:
        """Count a request of a device."""
        self._turn()
        self._new[ptk_id, outcome] += 1

    def shown(self) -> Mapping[Counted, int]:
        """Return how often there was each outcome of each PTK until the last full minute."""
        self._turn()
        return self._shown

    def _turn(self) -> None:
        tick = self._clock() // TICK_SECONDS
        if tick != self._tick:
            self._tick = tick
            self._shown = self._shown + self._new
            self._new = Counter()
