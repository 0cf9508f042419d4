"""Rows that somebody else may add at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Insert
from sqlalchemy.exc import IntegrityError


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
