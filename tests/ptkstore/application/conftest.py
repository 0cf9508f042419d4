"""One small service per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ptkstore.application.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A service with a stream that its operator closes, kept for two windows."""
    made = World(tmp_path / "home")
    made.stream()
    yield made
    made.service.close()
