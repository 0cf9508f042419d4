"""Several consoles on one host: a browser sends the cookies of each to all of them."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from starlette.requests import Request

from ptkstore.console.cookies import SESSION, cookie_name
from tests.support.api_server import Api
from tests.support.console_pages import enter, seen


def at(api: Api, path: str) -> str:
    return f"{api.url}/console/{path}"


def test_a_sign_in_at_one_port_of_a_host_leaves_the_session_at_another(tmp_path: Path) -> None:
    with (
        Api(tmp_path / "one") as one,
        Api(tmp_path / "other") as other,
        httpx.Client(trust_env=False, timeout=60.0) as browser,
    ):
        keys = {api.port: seen(browser.get(at(api, "login"))).fields["form_key"] for api in (one, other)}
        for api in (one, other):
            form = {"form_key": keys[api.port], "token": api.token()}
            assert browser.post(at(api, "login"), data=form).status_code == 303
        assert {browser.get(at(api, "")).status_code for api in (one, other)} == {200}
        key = seen(browser.get(at(one, ""))).fields["form_key"]
        assert browser.post(at(one, "logout"), data={"form_key": key}).status_code == 303
        assert [browser.get(at(api, "")).status_code for api in (one, other)] == [303, 200]


def request(server: tuple[str, int | None] | None, host: str, scheme: str = "http") -> Request:
    headers = [(b"host", host.encode())]
    scope = {"type": "http", "scheme": scheme, "server": server, "path": "/", "headers": headers}
    return Request(scope | {"query_string": b"", "root_path": ""})


def test_consoles_behind_proxies_differ_by_either_port() -> None:
    here = ("127.0.0.1", 8000)
    assert cookie_name(request(here, "127.0.0.1:8000"), SESSION) == "ptk_session_8000"
    assert cookie_name(request(here, "ptk.example.org", "https"), SESSION) == "ptk_session_8000"
    names = {
        cookie_name(request((address, port), host), SESSION)
        for address, port, host in (
            ("10.0.0.1", 8000, "ptk.example.org:443"),
            ("10.0.0.1", 8000, "ptk.example.org:8443"),
            ("10.0.0.1", 8001, "ptk.example.org:443"),
        )
    }
    assert len(names) == 3


@pytest.mark.parametrize("host", ["", "[", "a:b", "a:99999", "x" * 300 + ":1:2"])
def test_a_host_that_is_none_is_no_part_of_a_name(host: str) -> None:
    assert cookie_name(request(("/run/ptk.sock", None), host), SESSION) == SESSION


def test_a_host_that_is_none_gets_an_answer(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        for host in ("[", "a:99999"):
            assert api.client().get("/console/login", headers={"Host": host}).status_code == 200


def test_near_names_are_sought_at_the_pace_of_the_api(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        api.world.stream()
        api.world.register()
        client, pace = enter(api.client(), api.token()), api.app.state.near_names
        asked = (
            ("streams/taxx", "/console/streams/taxi"),
            ("ptks/taxi.sped", "/console/ptks/taxi.speed"),
            ("ptks?q=sped", "/console/ptks/taxi.speed"),
            ("lookup?q=spedd", "/console/ptks/taxi.speed/lookup"),
        )
        for path, near in asked:
            pace._left, pace._per_second = 1.0, 0.0
            assert f'href="{near}' in client.get(f"/console/{path}").text, path
            assert f'href="{near}' not in client.get(f"/console/{path}").text, path
            assert pace._left == 0.0, path
        pace._left = 0.0
        assert "did you mean" not in api.acting().get("/v1/streams/taxx").text
