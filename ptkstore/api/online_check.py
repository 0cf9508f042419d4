"""Whether the online store still has the rows of what is served, asked once in a while and beside requests."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ptkstore.adapters.runtime import code_of, log_code

if TYPE_CHECKING:
    from ptkstore.wiring import Service

EVERY_SECONDS = 60.0  # as workers do, which write lost rows again


class OnlineRows:
    """The PTKs whose newest version has no rows online, as they were found last.

    Nobody waits for an answer: a thread asks. Until its first answer, no rows count as lost.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._asking = False  # one thread at a time, also where a store does not answer
        self._lost: frozenset[str] = frozenset()

    def lost(self) -> frozenset[str]:
        """Return those known by now; ask again if the last answer is old."""
        with self._lock:
            if not self._asking and time.monotonic() - self._asked_at > EVERY_SECONDS:
                self._asked_at, self._asking = time.monotonic(), True
                threading.Thread(target=self.ask, name="online-rows", daemon=True).start()
            return self._lost

    def ask(self) -> None:
        """Ask now; where nobody answers, what was known stays."""
        try:
            self._lost = self._service.lost_online()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is asked again
            log_code("online rows not checked", "-", code_of(error))
        finally:
            self._asking = False
