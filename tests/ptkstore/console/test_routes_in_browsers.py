"""Every route of the console is in a run of a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Mount, Route

from tests.support.api_server import Api
from tests.support.console_tours import ACTS, PAGES, SENT, WITHOUT_SESSION

NO_PAGES = {("GET", "/style.css"), ("GET", "/streams/{name}/report.{form}")}  # reports are files: see below
PATH = "/console/"


@pytest.fixture
def routes(tmp_path: Path) -> Iterator[list[Route]]:
    with Api(tmp_path / "home") as api:
        (mounted,) = (one for one in api.app.routes if isinstance(one, Mount) and one.path == "/console")
        yield [one for one in mounted.routes if isinstance(one, Route)]


def route_of(routes: list[Route], path: str) -> str:
    """The route of a page."""
    place = "/" + path.partition("?")[0]
    return next(
        one.path for one in routes if one.path_regex.fullmatch(place) and "GET" in (one.methods or ())
    )


def test_every_route_of_the_console_is_in_a_run_of_a_browser(routes: list[Route]) -> None:
    there: set[tuple[Any, str]] = {
        (method, one.path) for one in routes for method in (one.methods or set()) - {"HEAD"}
    }
    opened = {("GET", route_of(routes, path)) for path in (*PAGES, *WITHOUT_SESSION)}
    sent = {("POST", path) for path in (*ACTS, *SENT)}
    asked = {("GET", path) for path in ACTS}  # the form or the page that says what will happen
    assert there - opened - sent - asked == NO_PAGES
    assert (opened | sent | asked) - there == set()
