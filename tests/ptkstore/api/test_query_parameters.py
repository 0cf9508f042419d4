"""A query parameter that a route does not have is refused, by name: it is never ignored."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from ptkstore.api.app import routes_of
from ptkstore.api.requests.routers import rules_of
from ptkstore.domain.identity import Role
from tests.support.api_server import Api, all_items, problem


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home")) as api:
        api.world.stream()
        api.world.register(description="Mean speed of a trip", tags=("rides",))
        api.world.register("pace")
        yield api


@pytest.fixture
def client(api: Api) -> httpx.Client:
    return api.acting()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("/v1/ptks?limt=1", "there is no query parameter 'limt'; did you mean 'limit'?"),
        ("/v1/ptks?words=x", "'words'; those here are cursor, limit, stream, team, tag, q"),
        ("/v1/ptks?tag=a&Q=speed", "'Q'"),
        ("/v1/streams/taxi?q=x", "'q'; none is read here"),
        ("/v1/streams/taxi/simulation?rate=1&window=2", "'window'; did you mean 'windows'?"),
    ],
)
def test_the_parameter_is_named_with_those_there_are(client: httpx.Client, address: str, says: str) -> None:
    refused = client.get(address)
    assert problem(refused) == (400, "invalid-request")
    assert says in refused.json()["detail"]


@pytest.mark.parametrize("name", ["<script>", "a" * 41, "0", "x\n", "\x1b[31m", "é"])
def test_a_name_that_no_parameter_can_have_is_not_repeated(client: httpx.Client, name: str) -> None:
    refused = client.get("/v1/ptks", params={name: "1"})
    assert problem(refused) == (400, "invalid-request")
    assert refused.json()["detail"].startswith("there is no query parameter of that name; ")


def test_nothing_is_done_and_the_trail_has_the_refusal(api: Api) -> None:
    client = api.acting(Role.DEVELOPER)
    assert problem(client.delete("/v1/ptks/taxi.pace?dry_run=true")) == (400, "invalid-request")
    assert client.get("/v1/ptks/taxi.pace").status_code == 200
    admin = api.acting(Role.ADMINISTRATOR, team="administrators")
    told = [one for one in all_items(admin, "/v1/audit-log") if one["action"] == "ptk.deregister"]
    assert told[-1]["outcome"] == "invalid-request"


def test_who_may_not_ask_hears_nothing_of_parameters(api: Api) -> None:
    assert problem(api.client().get("/v1/ptks?x=1")) == (401, "unauthenticated")
    assert problem(api.acting(Role.PRODUCER).delete("/v1/ptks/taxi.pace?x=1"))[0] == 403


def test_every_route_knows_the_parameters_of_its_document(api: Api) -> None:
    paths, n_named = api.app.openapi()["paths"], 0
    for route in routes_of(api.app):
        if not route.path.startswith("/v1/"):
            continue
        (rule,) = rules_of(route)
        for method in route.methods or ():
            shown = paths[route.path][method.lower()].get("parameters", ())
            assert list(rule.query_names) == [one["name"] for one in shown if one["in"] == "query"]
            n_named += len(rule.query_names)
    assert n_named > 20


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("pace", ["taxi.pace"]),
        ("TRIP mean", ["taxi.speed"]),
        ("rides", ["taxi.speed"]),
        ("taxi", ["taxi.pace", "taxi.speed"]),
        ("", ["taxi.pace", "taxi.speed"]),
        ("speed elephant", []),
    ],
)
def test_ptks_are_found_by_words(client: httpx.Client, words: str, found: list[str]) -> None:
    assert [one["ptk_id"] for one in all_items(client, "/v1/ptks", q=words)] == found
    assert problem(client.get("/v1/ptks", params={"q": "x" * 101})) == (422, "invalid-request")
