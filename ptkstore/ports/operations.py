"""What an operator needs to know of a running service: who lives, what waits, what is late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Waiting:
    """Jobs of one kind that could be worked on now and are not, since when at the earliest; and those at work."""

    waiting: int = 0
    oldest: datetime | None = None
    running: int = 0


@dataclass(frozen=True, slots=True)
class Outbox:
    """What subscribers of one PTK are yet to hear of, and of a version of when at the earliest."""

    behind: int = 0
    oldest: datetime | None = None
    dead_letters: int = 0
    failing: int = 0
    disabled: int = 0


@dataclass(frozen=True, slots=True)
class Numbers:
    """Public numbers of the catalog: by job kind, by (kind, outcome), by PTK."""

    jobs: Mapping[str, Waiting]
    ended: Mapping[tuple[str, str], int]
    outbox: Mapping[str, Outbox]
    versions: Mapping[tuple[str, str], int]


class OperationsView(Protocol):
    """Signs of life and numbers, for reading."""

    def last_seen(self, since: datetime) -> Mapping[str, tuple[int, datetime]]:
        """By role: how many processes were seen since then, and the last time that any was."""
        ...

    def numbers(self, now: datetime) -> Numbers:
        """What waits and how late it is."""
        ...


class Operations(OperationsView, Protocol):
    """Signs of life, and numbers."""

    def saw(self, role: str, instance: str, now: datetime) -> None:
        """A process of this role lives."""
        ...
