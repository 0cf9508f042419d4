"""A pytest plugin that compiles the tables of a catalog once: a run makes a thousand catalogs on SQLite.

The statements that SQLAlchemy made for the first are kept, and are said again for the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, event


class CompiledOnce:
    """Stands for `MetaData.create_all` on empty databases of SQLite."""

    def __init__(self, create_all: Callable[..., None]) -> None:
        self._create_all = create_all
        self._statements: list[str] = []

    def __call__(self, connection: Connection, **options: Any) -> None:
        """Create all tables."""
        if connection.dialect.name != "sqlite" or options:
            self._create_all(connection, **options)
            return
        if not self._statements:
            self._keep(connection)
            return
        for statement in self._statements:
            connection.exec_driver_sql(statement)

    def _keep(self, connection: Connection) -> None:
        said: list[str] = []

        def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            said.append(statement)

        event.listen(connection, "before_cursor_execute", note)
        try:
            self._create_all(connection)
        finally:
            event.remove(connection, "before_cursor_execute", note)
        self._statements = [one for one in said if one.lstrip().startswith("CREATE ")]


@pytest.hookimpl
def pytest_collection_finish() -> None:
    """Take over, where a test imported the tables."""
    tables = sys.modules.get("ptkstore.adapters.sql.tables")
    if tables is not None and not isinstance(tables.metadata.create_all, CompiledOnce):
        tables.metadata.create_all = CompiledOnce(tables.metadata.create_all)
