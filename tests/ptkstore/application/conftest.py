"""One small service per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from tests.services import wire
from tests.services.postgres import Postgres
from tests.services.wire import FaultyWire
from tests.support.catalog_faults import Faults, InFiles, OnTheWire
from tests.support.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A service with a stream that its operator closes, kept for two windows."""
    made = World(tmp_path / "home")
    made.stream()
    yield made
    made.service.close()


@pytest.fixture
def split(tmp_path: Path) -> Iterator[World]:
    """A training whose loss is spent and that waits for its four partials."""
    made = World(tmp_path / "home", rows_per_partial=20)
    made.stream()
    made.register()
    made.ingest([i / 200 for i in range(160)])
    made.close(1)
    made.work("prepare", "allocate", "train")
    yield made
    made.service.close()


@pytest.fixture
def on_postgres(
    tmp_path: Path, postgres: Postgres, postgres_catalog: str
) -> Iterator[tuple[World, FaultyWire]]:
    with (
        postgres.fresh_database(postgres_catalog) as url,
        wire.between_us_and(f"{postgres.directory}/.s.PGSQL.5432") as faulty,
    ):
        name = make_url(url).database
        options = "sslmode=disable&gssencmode=disable"
        url = f"postgresql+psycopg://postgres@127.0.0.1:{faulty.port}/{name}?{options}"
        world = World(tmp_path / "home", database_url=url, publish_tick_seconds=2.0)
        yield world, faulty
        faulty.heal()
        world.service.close()


@pytest.fixture
def in_files(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "home", publish_tick_seconds=2.0)
    yield world
    world.service.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.real)])
def catalog_faults(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Faults:
    """A service without a stream whose catalog goes away at a word; waits pass by its clock."""
    made: Faults
    if request.param == "sqlite":
        made = InFiles(request.getfixturevalue("in_files"), monkeypatch)
    else:
        made = OnTheWire(*request.getfixturevalue("on_postgres"))
    monkeypatch.setattr("time.sleep", made.sleep)
    return made
