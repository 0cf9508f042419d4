"""How many SQL statements something takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import event

from tests.support.world import World


@contextmanager
def counted(world: World) -> Iterator[list[str]]:
    statements: list[str] = []

    def count(_1: object, _2: object, statement: str, *_: object) -> None:
        statements.append(statement)

    engine = world.service.catalog._engine
    event.listen(engine, "before_cursor_execute", count)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", count)
