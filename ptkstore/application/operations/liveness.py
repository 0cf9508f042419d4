"""Processes record that they are alive; callers learn which kinds are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ptkstore.ports.catalog import Begin, Read
from ptkstore.ports.runtime import Clock

EVERY = timedelta(seconds=10)
SILENT_AFTER = timedelta(seconds=60)


class ProcessRole(StrEnum):
    """The processes without which nothing gets done."""

    WORKER = "worker"
    RELAY = "relay"
    SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True)
class Liveness:
    """How many processes of a role live, and when one was last seen."""

    alive: int = 0
    last: datetime | None = None


def report_alive(role: ProcessRole, instance: str, *, begin: Begin, clock: Clock) -> None:
    """Say that this process lives."""
    with begin() as uow:
        uow.operations.saw(role, instance, clock.now())
        uow.commit()


def read_liveness(*, begin: Read, clock: Clock) -> Mapping[ProcessRole, Liveness]:
    """Return which roles have a living process."""
    with begin() as uow:
        seen = uow.operations.last_seen(clock.now() - SILENT_AFTER)
    return {role: Liveness(*seen.get(role, ())) for role in ProcessRole}
