"""Common tools of the catalog's parts: a connection, rows from records, conditions, and statements of many ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Executable, Insert, Row, Select, Table
from sqlalchemy.exc import DBAPIError, IntegrityError

from ptkstore.errors import UnknownName

Id = TypeVar("Id", str, int)
IDS_AT_ONCE = 500  # SQLite binds no more than 999 in old versions


class CatalogPart:
    """One part of the catalog, within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _one(self, query: Executable, kind: str, name: str) -> Row[Any]:
        """Return the only row; `UnknownName` if there is none."""
        row = self._connection.execute(query).one_or_none()
        if row is None:
            raise UnknownName(kind, name)
        return row

    def _rows_with(
        self, query: Select[Any], column: ColumnElement[Any], ids: Iterable[Id]
    ) -> Iterator[Row[Any]]:
        """Read the rows whose column has one of these values, however many there are."""
        for some in parts(ids):
            yield from self._connection.execute(query.where(column.in_(some)))


@contextmanager
def planned_once(connection: Connection) -> Iterator[None]:
    """Let PostgreSQL keep one plan of each statement within, whatever its parameters are.

    For statements that find their rows by the same indexes in any case, and take as long to plan as to run.
    """
    if connection.dialect.name != "postgresql":
        yield
        return
    connection.exec_driver_sql("SET plan_cache_mode = force_generic_plan")
    try:
        yield
    finally:
        with suppress(DBAPIError):  # a transaction that failed has taken the setting back
            connection.exec_driver_sql("RESET plan_cache_mode")


def row_of(table: Table, record: object, **other: Any) -> dict[str, Any]:
    """Return the row of a record whose fields are named as columns; `other` are columns that differ from its fields."""
    counted = table.autoincrement_column
    names = (column.name for column in table.columns if column is not counted)
    return {name: other[name] if name in other else getattr(record, name) for name in names}


def given(table: Table, **values: object) -> list[ColumnElement[bool]]:
    """Return the conditions that columns have these values; None means any value."""
    return [table.c[name] == value for name, value in values.items() if value is not None]


def parts(ids: Iterable[Id], most: int = IDS_AT_ONCE) -> Iterable[list[Id]]:
    """Sort ids or numbers into parts that a statement can take."""
    every = sorted(ids)
    return (every[start : start + most] for start in range(0, len(every), most))


def try_insert(connection: Connection, statement: Insert, rows: Sequence[dict[str, Any]] = ()) -> bool:
    """Add all rows, or none where another transaction has added one of them meanwhile; whether they were added."""
    nested = connection.begin_nested()
    try:
        connection.execute(statement, rows or None)
    except IntegrityError:
        nested.rollback()
        return False
    nested.commit()
    return True
