"""Every route held against every role: what is not in the table below does not pass."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute

from ptkstore.adapters.feast.names import view_name
from ptkstore.api.app import create_app, routes_of
from ptkstore.api.requests.routers import rules_of
from ptkstore.api.routes.lookups import _ptks_in
from ptkstore.application.identity.authorize import Named
from ptkstore.domain.identity import EVERY, STREAM_ROLES, Grant, Role
from ptkstore.errors import InvariantBroken
from ptkstore.wire.ptks import LookupIn
from tests.support.api_server import Api, problem
from tests.support.routes import ANY, EXPECTED, OWN, STORE, A, C, D, O, P
from tests.support.world import speed

OPEN = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics")}

OWNER, GRANTED, EVERYWHERE, STRANGER = "taxi", "granted", "everywhere", "strangers"


def routes(api: Api) -> dict[tuple[str, str], APIRoute]:
    return {(method, route.path): route for route in routes_of(api.app) for method in route.methods or ()}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home")) as api:
        api.world.stream(epsilon=10, retention_windows=20)
        for role in (P, D, C, O):
            api.grant(GRANTED, OWNER, role)
            api.grant(EVERYWHERE, EVERY, role)
        for team in (OWNER, STRANGER):
            api.identity.create_team(team)
        api.world.register(epsilon=0.001)
        api.world.publish(0)
        yield api


NUMBERS = count()


class Requests:
    """A request for each route that reaches its use case if it is let through."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def _fresh(self, kind: str) -> str:
        return f"{kind}{next(NUMBERS)}"

    def ptk(self) -> str:
        return self._api.world.register(self._fresh("p"), epsilon=0.001)

    def subscription(self) -> str:
        made, _ = self._api.world.service.subscribe_to_ptk("taxi.speed", "http://127.0.0.1:9/", team=OWNER)
        return made.id

    def token(self) -> str:
        return self._api.identity.issue_token(OWNER, [P])[0].id

    def grant(self) -> dict[str, str]:
        self._api.grant("visitors", "taxi", C)
        return {"team": "visitors", "stream": "taxi", "role": "consumer"}

    def arguments(self, method: str, path: str) -> tuple[str, dict[str, Any]]:
        """The path to ask for, and what goes with it."""
        fixed = {"stream": "taxi", "number": "1", "window": "0", "name": "none.parquet", "sha256": "0" * 64}
        makers: dict[str, Callable[[], str]] = {
            "ptk_id": self.ptk if method == "DELETE" else lambda: "taxi.speed",
            "subscription_id": self.subscription,
            "token_id": self.token,
        }
        for name, make in makers.items():
            if f"{{{name}}}" in path:
                fixed[name] = make()
        bodies: dict[str, Callable[[], dict[str, Any]]] = {
            "POST /v1/ptks": lambda: {
                "json": {
                    "name": self._fresh("n"),
                    "stream": "taxi",
                    "estimator": speed(0.001),
                    "target": 0.1,
                }
            },
            "POST /v1/lookups": lambda: {"json": {"features": ["taxi__speed:x"], "entities": [{"hour": 1}]}},
            "POST /v1/subscriptions": lambda: {
                "json": {"ptk_id": "taxi.speed", "endpoint": "http://127.0.0.1:9/"}
            },
            "DELETE /v1/grants": lambda: {"params": self.grant()},
            "GET /v1/ledger/person": lambda: {"params": {"stream": "taxi"}},
        }
        # Others are refused for their empty body once they are let through.
        empty = {"json": {"nothing": 0}} if method in ("POST", "PATCH") else {}
        return path.format(**fixed), bodies.get(f"{method} {path}", lambda: empty)()


def expected(method: str, path: str, role: Role, team: str) -> int | None:
    """The refusal, None where the request is let through."""
    roles, reach = EXPECTED[(method, path)]
    if role not in roles:
        return 403
    if reach == ANY or role is A:
        return None
    if reach == STORE:
        return None if team == EVERYWHERE else 403
    if team == STRANGER:
        return 404
    if reach == OWN and team != OWNER:
        return 404 if "subscription" in path else 403  # what somebody else subscribes to is not told
    return None


def ask(client: httpx.Client, method: str, path: str, arguments: dict[str, Any]) -> tuple[int, str]:
    with client.stream(method, path, **arguments) as response:  # an event stream has no end
        if response.status_code < 400:
            return response.status_code, ""
        response.read()
        return problem(response)


def test_every_route_stands_in_the_table_and_has_a_guard(api: Api) -> None:
    found = routes(api)
    assert set(found) - OPEN == set(EXPECTED)
    for key, route in found.items():
        assert len(rules_of(route)) == (key not in OPEN), key


def test_no_document_is_held_against_its_model_before_it_is_known_who_asks(api: Api) -> None:
    fields = [field for route in routes(api).values() for field in route.dependant.body_params]
    assert len(fields) > 10
    for field in fields:
        assert field.validate({"nothing": 0}, {}, loc=("body",)) == ({"nothing": 0}, [])
    for method, path in (("POST", "/v1/lookups"), ("POST", "/v1/streams")):
        for client, status in ((api.client(), 401), (api.acting(*Role), 422)):
            assert client.request(method, path, json={"nothing": 0}).status_code == status


def test_an_application_with_a_route_without_a_rule_does_not_start(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    unguarded = APIRouter(prefix="/v1")
    unguarded.get("/forgotten")(lambda: {})
    module = SimpleNamespace(resource=SimpleNamespace(router=unguarded))
    monkeypatch.setattr("ptkstore.api.app.RESOURCES", (module,))
    with pytest.raises(InvariantBroken, match="/v1/forgotten has 0 rules"):
        create_app(api.world.service)


@pytest.mark.long
@pytest.mark.parametrize("role", list(Role))
def test_every_route_by_every_team_in_this_role(api: Api, role: Role) -> None:
    requests = Requests(api)
    wrong = []
    for team in (OWNER, GRANTED, EVERYWHERE, STRANGER):
        client = api.acting(role, team=team)
        for method, path in EXPECTED:
            if team == EVERYWHERE and EXPECTED[(method, path)][1] != STORE:
                continue  # on one stream a grant on all is as one on it
            place, arguments = requests.arguments(method, path)
            status, code = ask(client, method, place, arguments)
            wanted = expected(method, path, role, team)
            refused = status == 403 and code == "not-allowed"
            hidden = status == 404 and code == "unknown-name" and wanted == 404
            let_through = not refused and status != 401 and status < 500 and not hidden
            right = {403: refused, 404: hidden, None: let_through}[wanted]
            if not right:
                wrong.append((team, method, path, status, code, wanted))
    assert wrong == []


def test_nothing_is_done_without_a_token(api: Api) -> None:
    requests = Requests(api)
    for client in (api.client(), api.client("ptk_" + "0" * 16 + "_" + "s" * 43)):
        for method, path in EXPECTED:
            place, arguments = requests.arguments(method, path)
            assert ask(client, method, place, arguments) == (401, "unauthenticated"), path


def test_what_one_may_not_see_is_told_as_what_does_not_exist(api: Api) -> None:
    client = api.acting(*(set(Role) - {A}), team=STRANGER)
    for path, kind in (("/v1/streams/{}", "taxi"), ("/v1/ptks/{}", "taxi.speed")):
        there = client.get(path.format(kind)).json()
        absent = client.get(path.format(kind[:-1] + "x")).json()
        for one in (there, absent):
            one.pop("request_id")
        assert there["detail"].replace(kind, "?") == absent["detail"].replace(kind[:-1] + "x", "?")
        assert (there["code"], there["status"]) == (absent["code"], absent["status"])


def test_that_a_ptk_was_deregistered_is_told_to_who_may_read_its_stream_alone(api: Api) -> None:
    asked = [key for key in EXPECTED if "{ptk_id}" in key[1]] + [("POST", "/v1/subscriptions")]

    def answers(client: httpx.Client, name: str) -> list[tuple[int, dict[str, Any]]]:
        found = []
        for method, path in asked:
            fixed = path.format(ptk_id=name, number=1, name="x.parquet")
            body = {"to": 1} if "rollback" in path else {}
            if "subscriptions" in path:
                body = {"ptk_id": name, "endpoint": "http://127.0.0.1:9/"}
            reply = client.request(method, fixed, json=None if method == "GET" else body)
            document = json.loads(reply.text.replace(name, "NAME")) if reply.text else {}
            document.pop("request_id", None)
            found.append((reply.status_code, document))
        return found

    gone = api.world.register("gone", epsilon=0.001)
    api.world.service.deregister_ptk(gone)
    stranger = api.acting(*(set(Role) - {A}), team=STRANGER)
    assert answers(stranger, gone) == answers(stranger, "taxi.gune")
    assert {status for status, _ in answers(stranger, gone)} == {404}
    for team in (OWNER, GRANTED):
        told = api.acting(*STREAM_ROLES, team=team).get(f"/v1/ptks/{gone}")
        assert problem(told) == (404, "deregistered")
        assert "it was deregistered on 2026-02-" in told.json()["detail"]


@pytest.mark.parametrize("ptk_id", ["a.b", "a.b_", "a_.b", "a_.b_", "a_b.c_d"])
@pytest.mark.parametrize("table", ["", "t", "t_"])
def test_a_lookup_is_held_against_the_ptk_whose_view_it_names(ptk_id: str, table: str) -> None:
    view = view_name(ptk_id, table, 2 if table else 1)
    for reference in (f"{view}:x", f"{view}@v3:x"):
        body = LookupIn(features=[reference], entities=[{"hour": 1}])
        assert _ptks_in(body) == [Named(ptk_id=ptk_id)]


def test_lists_hold_what_the_caller_may_see(api: Api) -> None:
    stranger, granted = api.acting(C, team=STRANGER), api.acting(C, team=GRANTED)
    assert stranger.get("/v1/streams").json()["items"] == []
    assert stranger.get("/v1/ptks").json()["items"] == []
    assert [s["name"] for s in granted.get("/v1/streams").json()["items"]] == ["taxi"]
    assert "taxi.speed" in [p["ptk_id"] for p in granted.get("/v1/ptks").json()["items"]]


def test_a_withdrawn_grant_and_a_revoked_token_end_at_once(api: Api) -> None:
    api.grant("guests", "taxi", C)
    token, text = api.identity.issue_token("guests", [C])
    client = api.client(text)
    assert client.get("/v1/streams/taxi").status_code == 200
    api.identity.withdraw(Grant("guests", "taxi", C))
    assert client.get("/v1/streams/taxi").status_code == 404
    api.grant("guests", "taxi", C)
    api.identity.revoke_token(token.id)
    api.world.clock.pass_(seconds=1)
    assert client.get("/v1/streams/taxi").status_code == 401


def test_refusals_by_the_table_are_in_the_trail(api: Api) -> None:
    client = api.acting(C, team="curious")
    assert problem(client.post("/v1/teams", json={"name": "x"})) == (403, "not-allowed")
    entries = api.identity.audit_log(limit=1000, team="curious")
    assert [(e.action, e.subject, e.outcome) for e in entries] == [("team.create", "store", "not-allowed")]
