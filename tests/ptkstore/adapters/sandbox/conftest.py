from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sandbox_orders import World, new_world, some_rows


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = new_world(tmp_path)
    world.write(some_rows())
    return world
