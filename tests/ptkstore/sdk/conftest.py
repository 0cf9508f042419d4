"""One store for each test, in its home and behind HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ptkstore import connect
from ptkstore.domain.identity import Role
from ptkstore.sdk import Store
from tests.support.api_server import Api
from tests.support.world import World


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """A server with the team `taxi` and no stream."""
    with Api(tmp_path / "home") as api:
        api.identity.create_team("taxi")
        yield api


@pytest.fixture
def world(api: Api) -> World:
    """The service behind the server."""
    return api.world


@pytest.fixture
def roles() -> tuple[Role, ...]:
    """What the team may do that asks over HTTP."""
    return tuple(Role)


@pytest.fixture(params=["embedded", "remote"])
def store(api: Api, roles: tuple[Role, ...], request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "embedded":
        yield Store(api.world.service)
        return
    with connect(api.url, token=api.token(*roles)) as store:
        yield store
