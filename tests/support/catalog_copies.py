"""Catalogs of another time: copied while they are in use, and put back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def catalog_of(home: Path) -> bytes:
    """Return a copy of the catalog of a home."""
    with (
        closing(sqlite3.connect(home / "catalog.db")) as catalog,
        closing(sqlite3.connect(":memory:")) as copy,
    ):
        catalog.backup(copy)
        return copy.serialize()


def put_back(home: Path, catalog: bytes) -> None:
    """Replace the catalog of a home, which nobody may have open."""
    for path in home.glob("catalog.db*"):
        path.unlink()
    (home / "catalog.db").write_bytes(catalog)
