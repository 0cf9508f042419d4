"""A catalog that goes away, comes back, or does not answer a commit, under a clock that passes while one waits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from ptkstore.adapters.sql.catalog import SqlCatalog, SqlUnitOfWork
from ptkstore.errors import OutcomeUnknown, Unavailable
from tests.services.wire import FaultyWire
from tests.support.world import World

TICK = timedelta(seconds=2)  # as by default, like the lease of 60
_COMMIT = b"COMMIT\0"  # not the READ COMMITTED of a beginning


class Faults:
    """What befalls the catalog of a world; `meanwhile` is done after each wait."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.meanwhile: Callable[[], object] = lambda: None

    def away(self) -> None:
        raise NotImplementedError

    def back(self) -> None:
        raise NotImplementedError

    def unanswered(self, done: bool) -> None:
        """The next commit, which is done or not."""
        raise NotImplementedError

    def away_for(self, seconds: float, step: str = "trained") -> None:
        """From a step on, by the clock."""
        clock = self.world.clock

        def leaves() -> None:
            until = clock.now() + timedelta(seconds=seconds)
            self.meanwhile = lambda: self.back() if clock.now() >= until else None
            self.away()

        self.world.steps.at[step] = leaves

    def sleep(self, seconds: float) -> None:
        self.world.clock.pass_(seconds=seconds)
        self.meanwhile()


class InFiles(Faults):
    """Of a catalog in SQLite."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(world)
        self._patch = monkeypatch
        self._begin, self._commit = SqlCatalog._begin, SqlUnitOfWork.commit

    def away(self) -> None:
        def begin(*_: object, **__: object) -> None:
            raise Unavailable("the catalog does not answer")

        self._patch.setattr(SqlCatalog, "_begin", begin)

    def back(self) -> None:
        self._patch.setattr(SqlCatalog, "_begin", self._begin)

    def unanswered(self, done: bool) -> None:
        def commit(uow: SqlUnitOfWork) -> None:
            self._patch.setattr(SqlUnitOfWork, "commit", self._commit)
            if done:
                self._commit(uow)
            raise OutcomeUnknown("no answer came")

        self._patch.setattr(SqlUnitOfWork, "commit", commit)


class OnTheWire(Faults):
    """Of a catalog in PostgreSQL."""

    def __init__(self, world: World, faulty: FaultyWire) -> None:
        super().__init__(world)
        self._faulty = faulty

    def away(self) -> None:
        self._faulty.refusing = True
        self._faulty.strike("cut-before")  # of a connection that is open: the others are then opened anew

    def back(self) -> None:
        self._faulty.heal()

    def unanswered(self, done: bool) -> None:
        self._faulty.strike("cut-after" if done else "cut-before", _COMMIT)
