"""The two databases that each contract is held to, a new one for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from tests.support import waiting


class OnSqlite:
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path / 'catalog.db'}"


class OnPostgresql:
    @pytest.fixture
    def url(self, catalog_url: str) -> str:
        return catalog_url


def until_somebody_waits(engine: Engine) -> None:
    """Return once a connection of this PostgreSQL database waits for a lock of another."""
    query = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )

    def somebody_waits() -> bool:
        with engine.begin() as connection:
            return bool(connection.execute(query).scalar_one())

    waiting.until(somebody_waits, "somebody who waits for a lock", pause=0.01)
