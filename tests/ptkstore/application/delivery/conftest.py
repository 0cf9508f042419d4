"""What tests of deliveries begin with."""

from __future__ import annotations

import pytest

from tests.support.world import World


@pytest.fixture
def published(world: World) -> World:
    """A PTK with one version shown."""
    world.register()
    world.publish(0)
    return world
