"""Catalogs whose tables were compiled before are those that SQLAlchemy makes."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import create_engine, text

from ptkstore.adapters.sql import tables
from tests.support.plugins.ready_tables import CompiledOnce


def schema(folder: Path, name: str, create_all: object) -> list[tuple[object, ...]]:
    """All that SQLite says of a new database."""
    engine = create_engine(f"sqlite:///{folder / name}")
    with engine.begin() as connection:
        create_all(connection)  # type: ignore[operator]
        found = connection.execute(text("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid"))
        return [tuple(row) for row in found]


def test_a_catalog_made_of_kept_statements_is_the_same(tmp_path: Path) -> None:
    ready = tables.metadata.create_all
    assert isinstance(ready, CompiledOnce)
    fresh = CompiledOnce(ready._create_all)
    compiled = schema(tmp_path, "a", ready._create_all)
    assert len(compiled) > 30
    assert schema(tmp_path, "b", fresh) == compiled  # the one that is kept
    assert schema(tmp_path, "c", fresh) == compiled
    assert schema(tmp_path, "d", ready) == compiled
