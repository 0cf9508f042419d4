"""Near names in the problems of the HTTP API: of what the caller may see anyway."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from ptkstore.domain.identity import Principal
from ptkstore.domain.near_names import Names, names_of
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity


class Pace:
    """How often near names are sought: a process that is asked for unknown names all the time has other work, too."""

    def __init__(self, per_second: float = 4.0, at_once: int = 8) -> None:
        self._per_second, self._at_once = per_second, float(at_once)
        self._left, self._at, self._lock = float(at_once), time.monotonic(), threading.Lock()

    def allows(self) -> bool:
        """Return whether one more may be sought now."""
        with self._lock:
            now = time.monotonic()
            self._left = min(self._at_once, self._left + (now - self._at) * self._per_second)
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True


def names_for(principal: Principal, service: Service, identity: Identity) -> Mapping[str, Names]:
    """Return the names that a caller can list, by kind: those of streams on which it has no role are not among them."""

    def specs() -> list[PtkSpec]:
        seen = identity.visible_streams(principal)
        return [spec for spec in service.ptks() if spec.stream in seen]

    names = names_of(lambda: sorted(identity.visible_streams(principal)), specs, service.versions)
    if principal.administers:
        names["team"] = lambda _: identity.teams()
        names["token"] = lambda _: [token.id for token in identity.tokens()]
    return names
