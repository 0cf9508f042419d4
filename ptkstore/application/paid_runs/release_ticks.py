"""Wait for the clock's next tick, so that no duration shows how many rows there were (differences.md F6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ptkstore.domain.jobs import next_tick
from ptkstore.ports.runtime import Clock


@dataclass(frozen=True, slots=True)
class ReleaseTicks:
    """Multiples of `every` on the clock; work that reads rows occupies its worker until the next one."""

    clock: Clock
    every: timedelta
    pause: Callable[[float], None]

    def wait(self, after: datetime | None = None) -> datetime:
        """Return at the next tick, and which it is: nothing logged or stored afterwards tells more.

        A process that acted at the tick `after` waits for another one, though no time has passed since.
        """
        now = self.clock.now()
        tick = next_tick(now, self.every)
        if tick == after:
            tick += self.every
        self.pause((tick - now).total_seconds())
        return tick
