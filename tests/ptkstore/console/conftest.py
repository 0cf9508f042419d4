"""A store with one published PTK, and a browser, for tests of the console."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.api_server import Api

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """A store of its own for each test, with one stream and one version; modules that need another have one."""
    with Api(tmp_path / "home") as api:
        api.world.stream()
        api.world.register()
        api.world.publish(0)
        yield api


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser of this module."""
    from tests.services.chromium import chromium

    with chromium() as browser:
        yield browser
