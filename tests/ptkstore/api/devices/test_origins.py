"""Pages of other origins: those that an operator names may ask the routes of devices, and nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from ptkstore.domain.identity import Role
from ptkstore.settings import load_settings
from tests.ptkstore.api.devices.conftest import LIMITS, OCTETS, ROWS, Phones, carrying, phones_of, step
from tests.services.chromium import chromium, executable, tab
from tests.support.api_server import Api
from tests.support.plugins.lacking import needs

APP = "https://app.example.org"
CLIENT = Path("examples/devices/ptk-device.mjs").absolute()
OTHERS = (
    "https://evil.example.org",
    "https://app.example.org.evil.org",
    "https://xapp.example.org",
    "https://app.example.org:444",
    "http://app.example.org",
    "HTTPS://APP.EXAMPLE.ORG",
    "https://app.example.org/",
    "https://app.example.org, https://evil.example.org",
    "null",
    "*",
)


@contextmanager
def phones_for(home: Path, *origins: str) -> Iterator[Phones]:
    with Api(home, device_origins=origins) as api:
        api.world.stream()
        with phones_of(api, window_ends=datetime.now(UTC) + timedelta(hours=1)) as made:
            yield made


@pytest.fixture
def phones(tmp_path: Path) -> Iterator[Phones]:
    with phones_for(tmp_path / "home", APP, "http://localhost:3000") as made:
        yield made


def preflight(phones: Phones, path: str, origin: str, method: str = "POST") -> httpx.Response:
    """What a browser asks before a script sends a ticket."""
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    return phones.device.options(path, headers=headers)


def crossing(reply: httpx.Response) -> dict[str, str]:
    found = {name.lower(): value for name, value in reply.headers.items()}
    return {name: value for name, value in found.items() if name.startswith("access-control-")}


def test_a_preflight_of_a_named_origin_is_allowed(phones: Phones) -> None:
    for path, method in (("specification", "GET"), ("draw", "POST"), ("put", "POST")):
        for origin in (APP, "http://localhost:3000"):
            reply = preflight(phones, f"/v1/device/{path}", origin, method)
            assert reply.status_code == 200
            assert "Origin" in reply.headers["vary"]
            assert crossing(reply) == {
                "access-control-allow-origin": origin,
                "access-control-allow-methods": "GET, POST",
                "access-control-allow-headers": "Accept, Accept-Language, Authorization, Content-Language, "
                "Content-Type",
                "access-control-max-age": "600",
            }


def test_one_of_any_other_is_not(phones: Phones) -> None:
    (ticket,) = phones.tickets()
    for origin in OTHERS:
        reply = preflight(phones, "/v1/device/put", origin)
        assert reply.status_code == 400
        said = {**carrying(ticket), "Origin": origin}
        read = phones.device.get("/v1/device/specification", headers=said)
        assert read.status_code == 200
        for one in (reply, read):
            assert "access-control-allow-origin" not in one.headers, origin
            assert "access-control-allow-credentials" not in one.headers


def test_every_answer_names_the_origin_and_none_allows_cookies(phones: Phones) -> None:
    ticket, drawn = phones.drawn()
    said = {**carrying(ticket), "Origin": APP}
    octets = {**said, **OCTETS}
    replies = [
        phones.device.get("/v1/device/specification", headers=said),
        phones.device.post("/v1/device/draw", headers=said),
        phones.device.post("/v1/device/put", headers=octets, content=step(drawn)),
        phones.device.post("/v1/device/put", headers={**octets, **carrying("forged")}, content=step(drawn)),
        phones.device.put("/v1/device/put", headers=octets, content=step(drawn)),
    ]
    assert [one.status_code for one in replies] == [200, 409, 204, 401, 405]
    for one in replies:
        assert crossing(one) == {
            "access-control-allow-origin": APP,
            "access-control-expose-headers": "Ptk-Specification, Retry-After",
        }
        assert one.headers["vary"] == "Origin"


def test_no_other_route_may_be_read_from_there(phones: Phones) -> None:
    client = phones.api.acting(Role.CONSUMER)
    for path in ("/v1/ptks", "/v1/streams", "/healthz", "/console/", "/v1/device/other", "/v1/device/put/"):
        for reply in (preflight(phones, path, APP, "GET"), client.get(path, headers={"Origin": APP})):
            assert crossing(reply) == {}, path
    tickets = f"/v1/device-streams/{phones.ptk.stream}/tickets"
    asked = {"ptk": phones.ptk.ptk_id, "count": 1}
    reply = phones.gateway.post(tickets, json=asked, headers={"Origin": APP})
    assert (reply.status_code, crossing(reply)) == (201, {})


def test_without_the_setting_no_origin_is_named(tmp_path: Path) -> None:
    with phones_for(tmp_path / "home") as phones:
        (ticket,) = phones.tickets()
        asked = preflight(phones, "/v1/device/put", APP)
        read = phones.device.get("/v1/device/specification", headers={**carrying(ticket), "Origin": APP})
        assert (asked.status_code, read.status_code) == (405, 200)
        assert crossing(asked) == crossing(read) == {}


def settings_of(monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[str, ...]:
    monkeypatch.setenv("PTK_DEVICE_ORIGINS", text)
    return load_settings().device_origins


@pytest.mark.parametrize(
    ("text", "origins"),
    [
        ("", ()),
        (APP, (APP,)),
        (f"{APP}, https://b.example:8443 ,", (APP, "https://b.example:8443")),
        ("http://localhost:3000,http://127.0.0.1,http://[::1]:9", None),
        ("https://[2001:db8::1]", None),
    ],
)
def test_origins_are_named_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, text: str, origins: tuple[str, ...] | None
) -> None:
    assert settings_of(monkeypatch, text) == (tuple(text.split(",")) if origins is None else origins)


@pytest.mark.parametrize(
    "text",
    [
        *(one for one in OTHERS[4:] if "," not in one),
        "https://*.example.org",
        "https://app.example.org:443",
        "http://localhost:80",
        "https://app.example.org:0",
        "https://me@app.example.org",
        "https://app.example.org?x",
        "https://app.exämple.org",
        "https://app.example.org\nhttps://b",
        "app.example.org",
        "file://",
        f"{APP},*",
    ],
)
def test_what_is_no_origin_of_one_site_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    with pytest.raises(Exception, match="PTK_DEVICE_ORIGINS"):
        settings_of(monkeypatch, text)


class Page(SimpleHTTPRequestHandler):
    """The app's page: the client, and nothing else."""

    extensions_map: Mapping[str, str] = {".mjs": "text/javascript", ".html": "text/html"}  # type: ignore[assignment]

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def page(folder: Path) -> Iterator[str]:
    """Serve the app's page; yield its origin."""
    folder.mkdir()
    (folder / "index.html").write_text("<!doctype html><title>app</title>")
    (folder / CLIENT.name).write_bytes(CLIENT.read_bytes())
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Page, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.real
@pytest.mark.long
@pytest.mark.skipif(executable() is None, reason=needs("chromium", "apt-get install chromium"))
@pytest.mark.parametrize("is_named", [True, False])
def test_a_script_of_the_apps_page_contributes_in_a_browser(tmp_path: Path, is_named: bool) -> None:
    with (
        page(tmp_path / "page") as origin,
        phones_for(tmp_path / "home", origin if is_named else APP) as phones,
        chromium() as browser,
        tab(browser) as app,
    ):
        (ticket,) = phones.tickets()
        before = phones.instances()
        app.go(f"{origin}/index.html")
        given = json.dumps([phones.api.url, LIMITS.to_json(), ROWS, ticket])
        said = app.run(
            f"""(async ([url, limits, rows, ticket]) => {{
              const {{ Device }} = await import("/{CLIENT.name}");
              try {{
                await new Device(url, localStorage, {{ limits, paceSeconds: 0 }}).contribute(rows, ticket);
                return "taken";
              }} catch (error) {{ return error.code; }}
            }})({given})"""
        )
        after = phones.instances()
        changed = [place for place in after if after[place] != before[place]]
        assert (said, len(changed)) == (("taken", 1) if is_named else ("no-answer", 0))
