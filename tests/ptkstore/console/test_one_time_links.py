"""The link of `ptk ui`: it signs in once, straight from this machine, and nobody else can use it."""

from __future__ import annotations

import json
import logging
import os
import stat
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
import structlog
from starlette.requests import Request

from ptkstore.adapters.processes import OneTimeLinks
from ptkstore.adapters.processes.one_time_links import LIFE
from ptkstore.console.ways import direct_address
from ptkstore.domain.identity import Role
from tests.support.api_server import Api
from tests.support.console_pages import enter, seen, session_cookie, signed_in

GUESSED = "x" * 43


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home")) as api:
        api.world.stream()
        yield api


def links(api: Api) -> OneTimeLinks:
    return OneTimeLinks(api.world.service.settings.root)


def token_id(api: Api) -> str:
    return api.token(Role.ADMINISTRATOR).split("_")[1]


def link(api: Api, address: str | None = None) -> str:
    made = links(api)
    return made.make(token_id(api), address or f"127.0.0.1:{api.port}", api.world.clock.now())


def follow(api: Api, secret: str, method: str = "GET", **headers: str) -> httpx.Response:
    return api.client().request(method, "/console/open", params={"link": secret}, headers=headers)


def signs_in(answer: httpx.Response) -> bool:
    assert answer.status_code in (200, 403, 405)
    given = any(one.startswith("ptk_session_") for one in answer.headers.get_list("set-cookie"))
    assert given == (answer.status_code == 200)
    return given


def test_a_link_signs_in_once(api: Api) -> None:
    secret, client = link(api), api.client()
    answer = client.get("/console/open", params={"link": secret})
    assert signs_in(answer)
    assert answer.headers["refresh"] == "0; url=/console/"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert secret not in answer.text
    assert client.get("/console/").status_code == 200
    again = follow(api, secret)
    assert not signs_in(again)
    assert "ptk ui again" in again.text
    assert secret not in again.text


def test_a_sign_in_by_a_link_is_on_record(api: Api) -> None:
    secret = link(api)
    assert signs_in(follow(api, secret))
    last = list(api.identity.audit_log(limit=1_000))[-1]
    assert (last.team, last.action, last.subject, last.outcome) == (
        "taxi",
        "console.sign-in",
        "console",
        "done",
    )


def test_a_link_ends_after_two_minutes(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        early, late = link(api), link(api)
        api.world.clock.pass_(seconds=LIFE.total_seconds() - 1)
        assert signs_in(follow(api, early))
        api.world.clock.pass_(seconds=1)
        assert not signs_in(follow(api, late))


def test_a_link_ends_with_its_token(api: Api) -> None:
    holder = token_id(api)
    secret = links(api).make(holder, f"127.0.0.1:{api.port}", api.world.clock.now())
    api.identity.revoke_token(holder)
    assert not signs_in(follow(api, secret))


@pytest.mark.parametrize("text", ["", GUESSED, "../../catalog.db", "%00" * 15, "a" * 5_000])
def test_what_is_no_link_opens_nothing_and_is_not_repeated(api: Api, text: str) -> None:
    answer = follow(api, text)
    assert not signs_in(answer)
    assert not text or text not in answer.text


def test_guesses_are_on_record_once_a_minute(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        for _ in range(3):
            assert not signs_in(follow(api, GUESSED))
        (one,) = api.identity.audit_log()
        assert (one.team, one.token_id, one.action) == ("-", "-", "console.sign-in")
        assert one.outcome == "unauthenticated"


@pytest.mark.parametrize("host", ["rebound.example.org", "localhost", "127.0.0.1", "127.0.0.1:1", "[::1]:80"])
def test_a_link_that_comes_by_another_name_is_refused_and_used_up(api: Api, host: str) -> None:
    secret = link(api)
    assert not signs_in(follow(api, secret, Host=host))
    assert not signs_in(follow(api, secret))


@pytest.mark.parametrize(
    "header", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via"]
)
def test_a_link_that_came_through_a_proxy_is_refused_and_used_up(api: Api, header: str) -> None:
    secret = link(api)
    assert not signs_in(follow(api, secret, **{header: "127.0.0.1"}))
    assert not signs_in(follow(api, secret))


def test_a_link_for_another_server_of_this_machine_is_refused(api: Api) -> None:
    assert not signs_in(follow(api, link(api, "127.0.0.1:1")))


def test_a_link_of_another_home_is_refused(api: Api, tmp_path: Path) -> None:
    made = OneTimeLinks(tmp_path)
    secret = made.make(token_id(api), f"127.0.0.1:{api.port}", api.world.clock.now())
    assert not signs_in(follow(api, secret))


def test_a_look_at_the_address_does_not_use_the_link_up(api: Api) -> None:
    secret = link(api)
    for method in ("HEAD", "POST"):
        assert follow(api, secret, method).status_code == 405
    assert signs_in(follow(api, secret))


def test_a_new_session_ends_the_one_before(api: Api) -> None:
    client = signed_in(api)
    before = client.cookies[session_cookie(api)]
    client.get("/console/open", params={"link": link(api)})
    assert client.cookies[session_cookie(api)] != before
    other = api.client()
    other.cookies.set(session_cookie(api), before)
    assert other.get("/console/").status_code == 303


def sign_out(client: httpx.Client) -> None:
    key = seen(client.get("/console/")).fields["form_key"]
    assert client.post("/console/logout", data={"form_key": key}).status_code == 303


def opened_by(api: Api, holder: str) -> httpx.Client:
    client = api.client()
    secret = links(api).make(holder, f"127.0.0.1:{api.port}", api.world.clock.now())
    assert signs_in(client.get("/console/open", params={"link": secret}))
    return client


def is_revoked(api: Api, holder: str) -> bool:
    (token,) = (one for one in api.identity.tokens() if one.id == holder)
    return token.revoked_at is not None


def test_the_token_of_a_link_ends_when_its_holder_signs_out(api: Api) -> None:
    holder = token_id(api)
    client = opened_by(api, holder)
    client.get("/console/")
    assert not is_revoked(api, holder)
    sign_out(client)
    assert is_revoked(api, holder)
    (line,) = (one for one in api.identity.audit_log(limit=1_000) if one.subject == f"token/{holder}")
    assert (line.team, line.token_id, line.action, line.outcome) == ("taxi", holder, "token.revoke", "done")


def test_the_token_of_a_link_ends_when_another_sign_in_takes_the_place_of_its_session(api: Api) -> None:
    first, second = token_id(api), token_id(api)
    client = opened_by(api, first)
    secret = links(api).make(second, f"127.0.0.1:{api.port}", api.world.clock.now())
    client.get("/console/open", params={"link": secret})
    assert (is_revoked(api, first), is_revoked(api, second)) == (True, False)
    enter(client, api.token())
    assert is_revoked(api, second)


def test_a_token_that_somebody_has_outlives_the_session(api: Api) -> None:
    text = api.token()
    sign_out(enter(api.client(), text))
    assert not is_revoked(api, text.split("_")[1])


def test_who_signs_out_after_the_token_was_revoked_is_signed_out(api: Api) -> None:
    holder = token_id(api)
    client = opened_by(api, holder)
    key = seen(client.get("/console/")).fields["form_key"]
    api.identity.revoke_token(holder)
    assert client.post("/console/logout", data={"form_key": key}).status_code == 303
    assert not [one for one in api.identity.audit_log(limit=1_000) if one.subject == f"token/{holder}"]


def test_no_log_and_no_line_of_the_trail_has_the_link(
    api: Api, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in (
        "httpx",
        "httpcore",
        "uvicorn.access",
    ):  # the test's own client; what no server has a handler for
        caplog.set_level(logging.CRITICAL, logger=name)
    caplog.set_level(logging.DEBUG)
    with structlog.testing.capture_logs() as lines:
        used, refused = link(api), link(api)
        assert signs_in(follow(api, used))
        assert not signs_in(follow(api, refused, Host="rebound.example.org"))
        while sum(line["event"] == "request" for line in lines) < 2:
            time.sleep(0.01)  # a line is written after its answer was sent
    assert [line["route"] for line in lines if line["event"] == "request"] == ["/open"] * 2
    trail = [repr(one) for one in api.identity.audit_log(limit=1_000)]
    told = "\n".join([json.dumps(lines, default=str), caplog.text, *capfd.readouterr(), *trail])
    assert "console.sign-in" in told
    for secret in (used, refused):
        assert secret not in told


def test_only_this_user_reads_what_a_link_leaves_and_it_does_not_sign_in(tmp_path: Path, api: Api) -> None:
    made = OneTimeLinks(tmp_path)
    now = api.world.clock.now()
    secret = made.make("0" * 16, "127.0.0.1:1", now)
    page = made.write_page(secret, f"http://127.0.0.1:1/console/open?link={secret}")
    folder = tmp_path / "links"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    (kept,) = set(folder.iterdir()) - {page}
    assert secret not in kept.read_text() + kept.name + page.name
    assert made.take(secret, "127.0.0.1:1", now, since=now) == "0" * 16
    assert os.listdir(folder) == []


def test_a_link_from_before_the_server_started_may_have_been_seen_by_another_one(
    tmp_path: Path, api: Api
) -> None:
    made, now = OneTimeLinks(tmp_path), api.world.clock.now()
    secret = made.make("0" * 16, "127.0.0.1:1", now)
    later = now + timedelta(seconds=1)
    assert made.take(secret, "127.0.0.1:1", later, since=later) is None


def test_links_that_nobody_took_are_removed(tmp_path: Path, api: Api) -> None:
    made, now = OneTimeLinks(tmp_path), api.world.clock.now()
    old = made.make("0" * 16, "127.0.0.1:1", now)
    made.write_page(old, "http://127.0.0.1:1/")
    made.make("0" * 16, "127.0.0.1:1", now + LIFE)
    assert len(os.listdir(tmp_path / "links")) == 1


def request(client: str | None, server: str | None, *headers: tuple[str, str]) -> Request:
    return Request(
        {
            "type": "http",
            "client": client and (client, 5),
            "server": server and (server, 80),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
        }
    )


def test_only_this_machine_comes_directly() -> None:
    host = ("Host", "127.0.0.1:80")
    assert direct_address(request("127.0.0.1", "127.0.0.1", host)) == "127.0.0.1:80"
    for came in (
        request("192.0.2.7", "127.0.0.1", host),
        request("127.0.0.1", "192.0.2.7", ("Host", "192.0.2.7:80")),
        request(None, "127.0.0.1", host),
        request("127.0.0.1", None, host),
        request("127.0.0.1", "127.0.0.1"),
        request("127.0.0.1", "127.0.0.1", host, host),
    ):
        assert direct_address(came) is None
