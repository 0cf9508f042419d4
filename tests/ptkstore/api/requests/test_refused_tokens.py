"""A token that opens nothing leaves a line in the trail, one a minute, that tells nothing of the token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from ptkstore.application.identity.refused_callers import EVERY_SECONDS, RefusedCallers
from ptkstore.domain.audit import AuditEntry
from ptkstore.domain.identity import Action, Role
from ptkstore.errors import Unavailable
from tests.support.api_server import Api, problem
from tests.support.statements import counted

CANARY = "canary4711"
UNKNOWN = "ptk_" + "0" * 16 + "_" + "x" * 43


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home")) as api:
        api.world.stream()
        yield api


@pytest.fixture
def every(served: Api) -> Callable[[float], None]:
    """Moves the clock that bounds the lines, which is new to each test."""
    now = [0.0]

    def pass_(seconds: float) -> None:
        now[0] += seconds

    for entrance in ("refused", "refused_collectors"):
        setattr(served.app.state, entrance, RefusedCallers(lambda: now[0]))
    return pass_


def trail(api: Api) -> list[AuditEntry]:
    return list(api.identity.audit_log(limit=1000))


def wrong_tokens(api: Api) -> dict[str, str]:
    """Tokens that open nothing, by what is wrong with them."""
    right = api.token()
    revoked, expired = api.token(), api.token(life=timedelta(seconds=1))
    api.identity.revoke_token(revoked.split("_")[1])
    api.world.clock.pass_(seconds=2)
    return {
        "unknown": UNKNOWN,
        "another secret": right[:-43] + "x" * 43,
        "revoked": revoked,
        "expired": expired,
        "no token": CANARY,
        "two words": f"{CANARY} {CANARY}",
    }


def test_a_refused_token_is_on_record_with_nothing_of_it(served: Api, every: Callable[[float], None]) -> None:
    before, tokens = len(trail(served)), wrong_tokens(served)
    asked = []
    for token in tokens.values():
        every(EVERY_SECONDS)
        reply = served.client(token).get(f"/v1/streams/{CANARY}/budget")
        assert problem(reply) == (401, "unauthenticated")
        asked.append(reply.headers["x-request-id"])
    lines = trail(served)[before:]
    assert [line.request_id for line in lines] == asked
    told = {(one.team, one.token_id, one.action, one.subject, one.outcome) for one in lines}
    assert told == {("-", "-", "budget.read", "stream", "unauthenticated")}
    for token in tokens.values():
        secret = [
            part for part in token.split("_")[1:] if len(part) > 4
        ]  # shorter ones may stand there by chance
        for part in (token, *secret, CANARY):
            assert part not in repr(lines)


def test_guesses_do_not_fill_the_trail(served: Api, every: Callable[[float], None]) -> None:
    before, client = len(trail(served)), served.client(UNKNOWN)
    for _ in range(2):
        for method, path in (("GET", "/v1/streams"), ("POST", "/v1/teams"), ("GET", "/metrics")):
            assert problem(client.request(method, path)) == (401, "unauthenticated")
        every(EVERY_SECONDS - 1)
    every(1)
    assert client.post("/v1/teams").status_code == 401
    assert [line.action for line in trail(served)[before:]] == ["stream.list", "audit.read", "team.create"]


def test_a_collector_with_an_old_token_hides_no_guess(served: Api, every: Callable[[float], None]) -> None:
    before, client = len(trail(served)), served.client(UNKNOWN)
    for path in ("/metrics", "/metrics", "/v1/streams"):
        assert client.get(path).status_code == 401
    assert [line.action for line in trail(served)[before:]] == ["audit.read", "stream.list"]


def test_a_token_that_metrics_refuses_is_on_record(served: Api, every: Callable[[float], None]) -> None:
    before = len(trail(served))
    assert problem(served.client(UNKNOWN).get("/metrics")) == (401, "unauthenticated")
    assert [(line.action, line.subject) for line in trail(served)[before:]] == [("audit.read", "store")]


def test_guesses_at_the_console_are_told_of_beside_those_at_the_api(
    served: Api, every: Callable[[float], None]
) -> None:
    before, client = len(trail(served)), served.client(UNKNOWN)
    assert client.get("/v1/identity").status_code == 401
    page = client.get("/console/login")
    key = page.text.partition('name="form_key" value="')[2].partition('"')[0]
    assert client.post("/console/login", data={"form_key": key, "token": UNKNOWN}).status_code == 403
    assert [line.action for line in trail(served)[before:]] == ["identity.read", "console.sign-in"]


def test_who_shows_no_token_hides_no_guess(served: Api, every: Callable[[float], None]) -> None:
    before = len(trail(served))
    assert served.client().get("/v1/streams").status_code == 401
    assert trail(served)[before:] == []
    assert served.client(UNKNOWN).get("/v1/streams").status_code == 401
    assert len(trail(served)) == before + 1


@pytest.mark.parametrize("told", [True, False])
def test_the_catalog_is_asked_the_same_whatever_is_wrong_with_a_token(
    served: Api, every: Callable[[float], None], told: bool
) -> None:
    found, tokens = {}, wrong_tokens(served)
    for name, token in {"first": UNKNOWN, **tokens}.items():
        client = served.client(token)
        with counted(served.world) as statements:
            assert client.get("/v1/streams/taxi").status_code == 401
        found[name] = tuple(statements)
        every(EVERY_SECONDS if told else 0.1)
    first = found.pop("first")
    assert len(set(found.values())) == 1, found
    assert (first in found.values()) == told
    assert any("INSERT" in statement for statement in first)


def test_a_line_that_cannot_be_written_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise Unavailable("the catalog does not answer")

    with Api(tmp_path / "home") as api:
        api.app.state.refused = RefusedCallers(lambda: 0.0)
        with monkeypatch.context() as broken:
            broken.setattr(type(api.identity), "record", full)
            assert problem(api.client(UNKNOWN).get("/v1/streams")) == (503, "unavailable")
            assert problem(api.client(UNKNOWN).get("/v1/streams")) == (401, "unauthenticated")
        assert trail(api) == []


def test_a_token_that_ends_between_two_looks_is_on_record(
    served: Api, every: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(trail(served))
    client = served.acting(Role.CONSUMER)
    asked = type(served.identity).authorize

    def then_ends(*args: object) -> object:
        try:
            return asked(*args)  # type: ignore[arg-type]
        finally:
            served.world.clock.pass_(days=400)

    monkeypatch.setattr(type(served.identity), "authorize", then_ends)
    assert problem(client.post("/v1/teams", json={"name": "x"})) == (401, "unauthenticated")
    (line,) = trail(served)[before:]
    assert (line.team, line.action, line.outcome) == ("-", Action.TEAM_CREATE.value, "unauthenticated")
