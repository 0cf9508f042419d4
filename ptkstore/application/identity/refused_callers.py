"""Have refused callers on record, one a minute: who guesses tokens must not fill the trail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ptkstore.domain.audit import UNKNOWN
from ptkstore.domain.identity import Principal

EVERY_SECONDS = 60.0
# After a line that could not be written: who guesses must not keep writers waiting either.
AGAIN_SECONDS = 1.0
NOBODY = Principal(UNKNOWN, UNKNOWN, frozenset())


class RefusedCallers:
    """Has the first refused caller recorded, and then one a minute while there are any.

    Each entrance of a process has one of its own, so that guesses at one do not hide those at another. Whether a line
    is written never depends on what is wrong with a token. A caller can learn from the time it takes only whether
    somebody else was refused in the same minute.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._quiet_until = -float("inf")

    def tell(self, record: Callable[[Principal], None]) -> None:
        """Call `record`, with nobody as who acted, if this one is to be told of.

        An exception of `record` passes through, and the next refusal after a second is recorded instead.
        """
        with self._lock:
            now = self._clock()
            if now < self._quiet_until:
                return
            self._quiet_until = now + EVERY_SECONDS
        try:
            record(NOBODY)
        except BaseException:
            with self._lock:
                self._quiet_until = self._clock() + AGAIN_SECONDS
            raise
