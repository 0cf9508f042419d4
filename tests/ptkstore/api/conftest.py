"""Servers for tests that only read, and for those that change things."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.api_server import Api


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """A server of its own, with the stream `taxi`."""
    with Api(tmp_path / "home") as api:
        api.world.stream()
        yield api
