"""Reads for an operator: live processes, waiting and late work, and the schema of the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from ptkstore.ports.runtime import TellSteps, tell_nobody


@dataclass(frozen=True, slots=True)
class JobNumbers:
    """Jobs of one kind: how many could be worked on now and are not, since when at the earliest, and how many are."""

    waiting: int = 0
    oldest: datetime | None = None
    running: int = 0


@dataclass(frozen=True, slots=True)
class Outbox:
    """The versions of one PTK that subscribers have yet to hear of, and their earliest time."""

    behind: int = 0
    oldest: datetime | None = None
    dead_letters: int = 0
    failing: int = 0
    disabled: int = 0


@dataclass(frozen=True, slots=True)
class Numbers:
    """Public numbers of the catalog: by job kind, by (kind, outcome), by PTK."""

    jobs: Mapping[str, JobNumbers]
    ended: Mapping[tuple[str, str], int]
    outbox: Mapping[str, Outbox]
    versions: Mapping[tuple[str, str], int]


class OperationsView(Protocol):
    """Heartbeats and numbers, for reading."""

    def last_seen(self, since: datetime) -> Mapping[str, tuple[int, datetime]]:
        """Count the processes seen since then and tell the last time that any was, by role."""

    def numbers(self, now: datetime) -> Numbers:
        """Tell what waits and how late it is."""


class Operations(OperationsView, Protocol):
    """Heartbeats, and numbers."""

    def saw(self, role: str, instance: str, now: datetime) -> None:
        """Note that a process of this role lives."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """`current` is None where there is no catalog yet; `pending` are the upgrades in order, each told in a line."""

    current: str | None
    needed: str
    pending: tuple[str, ...]

    @property
    def up_to_date(self) -> bool:
        """Whether this program can work with the catalog, or make one."""
        return self.current in (None, self.needed)


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The findings, and the place of the earlier copy; None if nothing was copied."""

    before: SchemaState
    copy: Path | None


class CatalogSchema(Protocol):
    """Tells of a catalog's schema and upgrades it."""

    def state(self) -> SchemaState:
        """Tell the schema of the catalog, the one this program needs, and the steps between them; changes nothing."""

    def upgrade(self, *, backed_up: bool, tell: TellSteps = tell_nobody) -> Upgraded:
        """Bring the catalog to this program's schema, all of it or nothing.

        `tell` hears how many of its steps are done: a copy where one is made here, and each upgrade.

        `backed_up` says that a copy exists, where none is made here. `CatalogOutdated` where no upgrade leads from the
        catalog's schema to the program's.
        """

    def copy_to(self, path: Path) -> None:
        """Write a copy of the catalog to a new file while others go on working; `Refused` for one on a server."""
