"""Pages of the console as a signed-in browser sees them."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

from ptkstore.domain.identity import Role
from tests.support.api_server import Api

HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>{{7*7}}"


PAGES = (
    "/console/",
    "/console/streams/taxi",
    "/console/ptks",
    "/console/ptks/taxi.speed",
    "/console/deliveries",
    "/console/streams/taxi/queue",
    "/console/streams/taxi/simulation",
)
OF_THE_STORE = ("/console/access", "/console/audit-log")
"""Pages for administrators."""


class Seen(HTMLParser):
    """Elements of a page, attributes that could run anything, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.fields: dict[str, str] = {}
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        found = dict(attrs)
        if tag == "input" and found.get("name"):
            self.fields[str(found["name"])] = str(found.get("value"))

    def handle_data(self, data: str) -> None:
        self.text += data


def session_cookie(api: Api) -> str:
    """The name of the cookie with a session of this server."""
    return f"ptk_session_{api.port}"


def seen(response: httpx.Response) -> Seen:
    page = Seen()
    page.feed(response.text)
    return page


def signed_in(api: Api, *roles: Role, team: str = "taxi", **more: Any) -> httpx.Client:
    return enter(api.client(), api.token(*roles, team=team, **more))


def enter(client: httpx.Client, token: str) -> httpx.Client:
    key = seen(client.get("/console/login")).fields["form_key"]
    answer = client.post("/console/login", data={"form_key": key, "token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/")
    return client


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home")) as api:
        api.world.stream()
        api.world.register(description=HOSTILE)
        api.world.publish(0)
        api.world.service.subscribe_to_ptk("taxi.speed", "http://127.0.0.1:9/hook?key=s3cret", team="taxi")
        yield api
