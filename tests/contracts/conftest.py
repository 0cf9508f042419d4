"""A catalog in the database whose `url` the class of a test names, and somebody who goes past it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, create_engine

from ptkstore.adapters.sql import SqlCatalog


@pytest.fixture
def catalog(url: str) -> Iterator[SqlCatalog]:
    with SqlCatalog(url) as catalog:
        yield catalog


@pytest.fixture
def outsider(url: str) -> Iterator[Engine]:
    """Somebody with SQL, none of our code and none of our connection settings."""
    engine = create_engine(url)
    yield engine
    engine.dispose()
