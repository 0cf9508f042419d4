"""The catalog's schema, as whoever upgrades it needs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


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
    """What was found, and where the copy of before lies; None where nothing was copied."""

    before: SchemaState
    copy: Path | None


class CatalogSchema(Protocol):
    """Tells of a catalog's schema and upgrades it."""

    def state(self) -> SchemaState:
        """What the catalog has, what this program needs, and what lies between; changes nothing."""
        ...

    def upgrade(self, *, backed_up: bool) -> Upgraded:
        """Bring the catalog to this program's schema, all of it or nothing.

        `backed_up` says that a copy exists, where none is made here. `CatalogOutdated` where no upgrade leads from the
        catalog's schema to the program's.
        """
        ...

    def copy_to(self, path: Path) -> None:
        """Write a copy of the catalog to a new file while others go on working; `Refused` for one on a server."""
        ...
