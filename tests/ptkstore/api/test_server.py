"""The process that serves: what lives as long as it does is not walked by the garbage collector again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptkstore.api.server import warm_up
from tests.support.api_server import Api


@pytest.fixture
def thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.long
@pytest.mark.usefixtures("thawed")
def test_a_full_collection_after_the_start_is_short(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        assert gc.get_freeze_count() < 1_000
        warm_up(api.world.service)
        assert gc.get_freeze_count() > 50_000
        assert len(gc.get_objects()) < gc.get_freeze_count() / 10
