"""Who signs in to the console is in the audit trail; who guesses tokens cannot fill it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ptkstore.domain.audit import AuditEntry
from ptkstore.domain.identity import Action, Reach, Role, Rule
from ptkstore.errors import Unavailable
from tests.support.api_server import Api
from tests.support.console_pages import enter, seen, signed_in


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with Api(tmp_path / "home") as api:
        api.world.stream()
        yield api


def trail(api: Api) -> list[AuditEntry]:
    return list(api.identity.audit_log())


def guess(api: Api, token: str) -> str:
    client = api.client()
    key = seen(client.get("/console/login")).fields["form_key"]
    answer = client.post("/console/login", data={"form_key": key, "token": token})
    assert answer.status_code == 403
    return answer.headers["x-request-id"]


def test_a_sign_in_is_on_record_with_who_and_when_and_no_secret(api: Api) -> None:
    token = api.token(Role.DEVELOPER)
    before = api.world.clock.now()
    enter(api.client(), token)
    (one,) = trail(api)
    assert (one.team, one.action, one.subject, one.outcome) == ("taxi", "console.sign-in", "console", "done")
    assert one.token_id == token.split("_")[1]
    assert one.at == before
    assert token.split("_", 2)[2] not in repr(one)


def test_refused_sign_ins_are_on_record_once_a_minute(api: Api) -> None:
    guessed = "ptk_" + "0" * 16 + "_" + "x" * 43
    first = guess(api, guessed)
    for text in (guessed, "anything", api.token()[:-1] + "-", ""):
        guess(api, text)
    (one,) = trail(api)
    assert (one.team, one.token_id, one.action, one.subject) == ("-", "-", "console.sign-in", "console")
    assert (one.outcome, one.request_id) == ("unauthenticated", first)


def test_a_form_of_another_site_is_no_sign_in(api: Api) -> None:
    api.client().post("/console/login", data={"form_key": "x", "token": api.token()})
    assert trail(api) == []


def test_nobody_signs_in_unrecorded(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    token, client = api.token(), api.client()
    key = seen(client.get("/console/login")).fields["form_key"]

    def full(*_: object) -> None:
        raise Unavailable("the catalog does not answer")

    monkeypatch.setattr(type(api.identity), "record", full)
    answer = client.post("/console/login", data={"form_key": key, "token": token})
    assert answer.status_code == 503
    assert not any(name.startswith("ptk_session") for name in answer.cookies)


def test_a_page_that_roles_refuse_is_on_record(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    client = signed_in(api, Role.DEVELOPER)
    narrower = Rule(frozenset({Role.OFFICER}), Reach.STREAM)
    monkeypatch.setattr(Action.STREAM_READ, "rule", narrower)
    assert client.get("/console/streams/taxi").status_code == 403
    assert [(one.team, one.action, one.subject, one.outcome) for one in trail(api)[1:]] == [
        ("taxi", "stream.read", "stream/taxi", "not-allowed")
    ]
