"""Where journeys find real data, and a chain of windows that backups are taken of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import scenario
from tests.faults.rig import Rig, rig
from tests.journeys.backups import copy_database, publish


@pytest.fixture(scope="session")
def real_data(repository: Path) -> Path:
    """The folder of real data; the test is skipped where there is none."""
    folder = Path(os.environ.get("PTK_TEST_DATA", repository.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}; set PTK_TEST_DATA to the folder that holds the real data")
    return folder


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path / "home") as made:
        scenario.create_stream(made.store)
        scenario.register(made.store, [scenario.LONG])
        yield made


@pytest.fixture
def old_catalog(chain: Rig, tmp_path: Path) -> Path:
    """A copy from between the first and the second window; the chain has gone on."""
    publish(chain, 0)
    copy_database(chain.settings.root / "catalog.db", tmp_path / "old.db")
    publish(chain, 1)
    return tmp_path / "old.db"
