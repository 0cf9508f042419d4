"""What tests of PTKs need on either kind of catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.world import World


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.real)])
def either(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """A service with a stream on either kind of catalog."""
    more = {}
    if request.param == "postgresql":
        more = {"database_url": request.getfixturevalue("catalog_url")}
    made = World(tmp_path / "home", **more)
    made.stream()
    yield made
    made.service.close()
