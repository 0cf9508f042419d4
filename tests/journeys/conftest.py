"""Where journeys find real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data(repository: Path) -> Path:
    """The folder of real data; the test is skipped where there is none."""
    folder = Path(os.environ.get("PTK_TEST_DATA", repository.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}; set PTK_TEST_DATA to the folder that holds the real data")
    return folder
