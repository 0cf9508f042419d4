"""The resources over HTTP: what only HTTP adds to their use cases."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from ptkstore.adapters.sql.subscriptions import SqlSubscriptions
from ptkstore.api.limits import Limits
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.identity import EVERY, Action, Role
from ptkstore.domain.subscriptions import FIRST_RETRY, JITTER, DeadLetter
from ptkstore.ports.features import Answers
from ptkstore.sdk import Store, connect
from ptkstore.wire.base import LIST_MAX, NAME
from tests.support.api_server import Api, all_items, problem
from tests.support.receiver import WebhookReceiver
from tests.support.world import DAY, ORIGIN, STREAM, speed

STREAM_BODY = {
    "name": "clicks",
    "team": "taxi",
    "columns": {"at": "timestamp", "hour": "int64"},
    "time_column": "at",
    "epsilon": "0.5",
}


def ptk(name: str = "speed", **more: Any) -> dict[str, Any]:
    return {"name": name, "stream": STREAM, "estimator": speed(0.01), "target": 0.1, **more}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server for tests that are refused."""
    with Api(tmp_path_factory.mktemp("shared")) as api:
        api.world.stream()
        api.world.register()
        yield api


@pytest.fixture
def client(api: Api) -> httpx.Client:
    return api.acting()


@pytest.fixture
def admin(api: Api) -> httpx.Client:
    return api.acting(Role.ADMINISTRATOR, team="administrators")


# idempotency


def test_a_request_repeated_with_its_key_is_answered_as_first(api: Api, client: httpx.Client) -> None:
    headers = {"Idempotency-Key": "k"}
    first = client.post("/v1/ptks", json=ptk(), headers=headers)
    again = client.post("/v1/ptks", json=ptk(), headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json() == {"ptk_id": "taxi.speed"}
    assert ("idempotency-replayed" in first.headers, again.headers["idempotency-replayed"]) == (False, "true")
    assert problem(client.post("/v1/ptks", json=ptk("other"), headers=headers)) == (409, "conflict")
    assert client.post("/v1/ptks", json=ptk()).json() == {"ptk_id": "taxi.speed"}  # without the key
    assert problem(client.post("/v1/ptks", json=ptk() | {"target": 0.9})) == (409, "name-taken")
    assert len(api.world.service.ptks()) == 1


def test_the_key_of_one_operation_is_none_of_another(admin: httpx.Client) -> None:
    headers = {"Idempotency-Key": "k"}
    assert admin.post("/v1/teams", json={"name": "ads"}, headers=headers).status_code == 201
    body = {"team": "ads", "scopes": ["producer"]}
    assert problem(admin.post("/v1/tokens", json=body, headers=headers)) == (409, "conflict")


def test_a_refused_request_may_be_sent_again_under_its_key(api: Api, admin: httpx.Client) -> None:
    headers = {"Idempotency-Key": "k"}
    body = {"team": "ads", "stream": STREAM, "role": "developer"}
    assert problem(admin.post("/v1/grants", json=body, headers=headers)) == (404, "unknown-name")
    api.identity.create_team("ads")
    assert admin.post("/v1/grants", json=body, headers=headers).status_code == 201


def test_a_secret_is_shown_once_and_stored_in_no_table(api: Api, admin: httpx.Client) -> None:
    client, headers = api.acting(), {"Idempotency-Key": "k"}
    api.world.register()
    asked = {"ptk_id": "taxi.speed", "endpoint": "http://127.0.0.1:9/"}
    first = client.post("/v1/subscriptions", json=asked, headers=headers).json()
    again = client.post("/v1/subscriptions", json=asked, headers=headers).json()
    assert first["secret"].startswith("whsec_")
    assert again == {**first, "secret": None}
    assert len(all_items(client, "/v1/subscriptions")) == 1
    body = {"team": "taxi", "scopes": ["consumer"], "label": "x"}
    issued = admin.post("/v1/tokens", json=body, headers=headers).json()
    replayed = admin.post("/v1/tokens", json=body, headers=headers).json()
    assert replayed == {**issued, "token": None}
    secrets = [first["secret"].removeprefix("whsec_"), issued["token"].removeprefix(issued["prefix"])]
    with api.world.service.begin() as uow:
        dump = "\n".join(uow._connection.connection.dbapi_connection.iterdump())  # type: ignore[attr-defined]
    assert issued["id"] in dump
    assert not any(secret in dump for secret in secrets)


def test_the_trail_of_a_new_subscription_names_it_and_its_ptk_and_not_its_endpoint(
    api: Api, admin: httpx.Client
) -> None:
    client = api.acting()
    api.world.register()
    asked = {"ptk_id": "taxi.speed", "endpoint": "http://127.0.0.1:9/of-a-secret-path"}
    made = client.post("/v1/subscriptions", json=asked).json()
    assert problem(client.post("/v1/subscriptions", json={**asked, "ptk_id": "taxi.none"})) == (
        404,
        "unknown-name",
    )
    lines = [one for one in all_items(admin, "/v1/audit-log") if one["action"] == "subscription.create"]
    assert [(one["subject"], one["outcome"]) for one in lines] == [
        ("ptk/taxi.speed", "done"),
        (f"subscription/{made['id']}", "done"),
        ("ptk/taxi.none", "unknown-name"),
    ]
    assert len({one["request_id"] for one in lines}) == 2
    assert "secret" not in json.dumps(lines)


def test_of_many_at_once_with_one_key_one_creates(api: Api, client: httpx.Client) -> None:
    found: list[int] = []

    def ask() -> None:
        reply = client.post("/v1/ptks", json=ptk(), headers={"Idempotency-Key": "k"})
        found.append(reply.status_code)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) <= {201, 409}
    assert 201 in found
    assert len(api.world.service.ptks()) == 1


# pages


def test_a_list_comes_in_pages_and_nothing_is_left_out_or_twice(api: Api, client: httpx.Client) -> None:
    for name in ("a", "c", "e", "g"):
        api.world.stream(name)
    page = client.get("/v1/streams", params={"limit": 2}).json()
    assert [s["name"] for s in page["items"]] == ["a", "c"]
    api.world.stream("b")  # behind the cursor
    api.world.stream("f")
    rest = all_items(client, "/v1/streams", limit=2, cursor=page["next_cursor"])
    assert [s["name"] for s in rest] == ["e", "f", "g", "taxi"]
    assert [s["name"] for s in all_items(client, "/v1/streams", limit=1)] == [*"abcefg", "taxi"]


@pytest.mark.parametrize(
    "params", [{"limit": 0}, {"limit": LIST_MAX + 1}, {"limit": "x"}, {"cursor": "!"}, {"cursor": "x" * 999}]
)
def test_pages_are_asked_for_within_limits(shared: Api, params: dict[str, Any]) -> None:
    assert problem(shared.acting().get("/v1/streams", params=params)) == (422, "invalid-request")


def test_a_name_that_is_none_is_refused_with_what_names_are_made_of(shared: Api) -> None:
    client = shared.acting(*Role)
    for path, body in (("/v1/ptks", ptk(name="a/b")), ("/v1/streams", {**STREAM_BODY, "name": "a/b"})):
        refused = client.post(path, json=body)
        assert problem(refused) == (422, "invalid-request")
        assert refused.json()["faults"] == [
            {"where": "body.name", "reason": "string-pattern-mismatch", "pattern": NAME}
        ]


def test_a_cursor_of_somebodys_making_is_refused_or_harmless(
    client: httpx.Client, admin: httpx.Client
) -> None:
    assert problem(client.get("/v1/streams", params={"cursor": "a"})) == (400, "invalid-request")
    assert problem(admin.get("/v1/audit-log", params={"cursor": "Zm9v"})) == (400, "invalid-request")


# streams


def test_a_stream_is_created_for_a_team_that_exists_and_never_changed(api: Api, admin: httpx.Client) -> None:
    made = admin.post("/v1/streams", json=STREAM_BODY)
    assert made.status_code == 404  # no token of the team was ever made
    api.identity.create_team("taxi")
    made = admin.post("/v1/streams", json=STREAM_BODY)
    assert (made.status_code, made.json()["epsilon"], made.json()["delta"]) == (201, "0.5", "0")
    assert made.json()["origin"] == api.world.clock.now().isoformat()  # midnight, as it happens
    api.world.clock.pass_(days=1)
    assert admin.post("/v1/streams", json=STREAM_BODY).json() == made.json()  # the origin stays
    assert problem(admin.post("/v1/streams", json={**STREAM_BODY, "epsilon": 1})) == (409, "name-taken")
    assert admin.get("/v1/streams/clicks").json() == made.json()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"epsilon": 0}, 400),
        ({"epsilon": "1e-99"}, 400),
        ({"epsilon": True}, 422),
        ({"epsilon": "1 nat"}, 422),
        ({"delta": -1}, 400),
        ({"columns": {}}, 422),
        ({"columns": {"at": "date"}}, 422),
        ({"columns": {"At": "timestamp"}}, 422),
        ({"time_column": "hour"}, 400),
        ({"window_seconds": 1.5}, 422),
        ({"window_seconds": 10**12}, 422),
        ({"origin": "yesterday"}, 422),
        ({"origin": "2026-13-01T00:00:00Z"}, 400),
        ({"origin": "0001-01-01T00:00:00+23:00"}, 400),
        ({"accountant": "pld"}, 422),
        ({"scheduler": "lottery"}, 422),
        ({"scheduler": "budgeting"}, 400),
        ({"scheduler": "budgeting", "least_significance": 2.0, "most_significance": 2.0}, 400),
        ({"scheduler": "budgeting", "least_significance": "2", "most_significance": 3.0}, 422),
        ({"scheduler": "budgeting", "least_significance": 2.0, "most_significance": 1e300}, 400),
        ({"block_by": {"hour": [1, 1]}}, 400),
        ({"block_by": {"hour": ["x"]}}, 400),
        ({"block_by": {"hour": [2**70]}}, 400),
        ({"reserve": {"taxi.speed": "2"}}, 400),
        ({"contexts": {"east": ["taxi"]}}, 400),
        ({"surprise": 1}, 422),
    ],
    ids=str,
)
def test_a_stream_that_makes_no_sense_is_refused(shared: Api, change: dict[str, Any], status: int) -> None:
    admin = shared.acting(Role.ADMINISTRATOR)
    shared.identity.create_team("taxi")
    reply = admin.post("/v1/streams", json={**STREAM_BODY, **change})
    assert problem(reply) == (status, "invalid-request")
    assert [s.name for s in shared.world.service.streams()] == [STREAM]


def test_what_is_kept_and_what_is_recommended_is_told(api: Api, client: httpx.Client) -> None:
    api.world.register()
    api.world.publish(0)
    exposure = client.get(f"/v1/streams/{STREAM}/exposure").json()
    assert (exposure["holds"], [kept["window"] for kept in exposure["kept"]]) == (True, [0])
    advice = client.get(f"/v1/streams/{STREAM}/recommendation", params={"partitions": 2}).json()
    assert advice["rows"] is not None
    assert advice["lines"]["common"]["by_ptks"][0]["ptks"] == 1


# PTKs


def test_a_ptk_of_one_team_on_the_stream_of_another(api: Api) -> None:
    api.grant("ads", STREAM, Role.DEVELOPER)
    ads, taxi = api.acting(team="ads"), api.acting()
    assert ads.post("/v1/ptks", json=ptk("clicks")).json() == {"ptk_id": "ads.clicks"}
    assert problem(taxi.patch("/v1/ptks/ads.clicks", json={"target": 0.2})) == (403, "not-allowed")
    assert problem(taxi.delete("/v1/ptks/ads.clicks")) == (403, "not-allowed")
    assert ads.patch("/v1/ptks/ads.clicks", json={"target": 0.2}).json()["target"] == 0.2
    assert [p["ptk_id"] for p in all_items(taxi, "/v1/ptks", team="ads")] == ["ads.clicks"]
    assert ads.delete("/v1/ptks/ads.clicks").status_code == 204
    assert problem(ads.get("/v1/ptks/ads.clicks")) == (404, "deregistered")
    assert ads.get("/v1/ptks/ads.clicks/versions").json()["items"] == []  # its history stays


def test_a_ptk_without_room_is_refused_with_what_is_left(api: Api, client: httpx.Client) -> None:
    reply = client.post("/v1/ptks", json=ptk(estimator=speed(2)))
    assert problem(reply) == (403, "ptk-rejected")
    assert "epsilon 1" in reply.json()["detail"]


# versions


def test_a_version_is_downloaded_as_it_lies_in_the_lake(api: Api, client: httpx.Client) -> None:
    api.world.register()
    api.world.publish(0)
    manifest = client.get("/v1/ptks/taxi.speed/versions/1/manifest")
    folder = Path(api.world.service.settings.lake) / "ptks/taxi.speed/v00000001"
    assert manifest.content == (folder / "manifest.json").read_bytes()
    (file,) = manifest.json()["files"]
    path = f"/v1/ptks/taxi.speed/versions/1/files/{file['name']}"
    reply = client.get(path)
    assert reply.content == (folder / file["name"]).read_bytes()
    assert reply.headers["etag"] == f'"{file["sha256"]}"'
    assert "immutable" in reply.headers["cache-control"]
    assert client.get(path, headers={"If-None-Match": reply.headers["etag"]}).status_code == 304
    assert problem(client.get("/v1/ptks/taxi.speed/versions/2/manifest")) == (404, "unknown-name")


def test_versions_come_in_pages(api: Api, client: httpx.Client) -> None:
    api.world.register()
    for day in range(5):
        api.world.publish(day)
    path = "/v1/ptks/taxi.speed/versions"
    for limit in (1, 2, 4, 5, 6):
        assert [one["version"] for one in all_items(client, path, limit=limit)] == [1, 2, 3, 4, 5]
    page = client.get(path, params={"limit": 2}).json()
    assert [one["version"] for one in page["items"]] == [1, 2]
    assert problem(client.get(path, params={"cursor": "eHg"})) == (400, "invalid-request")
    api.world.ingest((5.5,))
    api.world.close(6)
    api.world.work("prepare", "allocate", "train")  # elected, and not yet in the lake
    assert len(all_items(client, path, limit=3)) == 5


def test_budgets_come_in_pages_of_blocks_with_all_their_lines(api: Api, client: httpx.Client) -> None:
    windows = 70  # of three blocks each
    reserved = (("taxi.vip", Decimal("0.5")),)
    api.world.stream(
        "shared", sharing=Sharing(reserved=reserved), window=DAY / 24, retention_windows=2 * windows
    )
    api.world.service.close_windows("shared", ORIGIN + windows * DAY / 24)
    path = "/v1/streams/shared/budget"
    blocks = all_items(client, path, items="blocks")
    lines = {(block["block"], block["line"]) for block in blocks}
    assert len(blocks) == len(lines) == 2 * 3 * windows > 2 * LIST_MAX
    for limit in (70, LIST_MAX - 1):
        assert all_items(client, path, items="blocks", limit=limit) == blocks
    page = client.get(path, params={"limit": 2}).json()
    assert len(page["blocks"]) == 2 * 2
    with connect(api.url, token=api.token(*Role)) as remote:
        assert remote.budget("shared") == Store(api.world.service).budget("shared")


def test_a_version_that_was_changed_in_the_lake_is_not_handed_out(api: Api, client: httpx.Client) -> None:
    api.world.register()
    api.world.publish(0)
    (file,) = Path(api.world.service.settings.lake).rglob("*.parquet")
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    reply = client.get(f"/v1/ptks/taxi.speed/versions/1/files/{file.name}")
    assert problem(reply) == (500, "corrupt-object")
    assert "request id" in reply.json()["detail"]


# lookups


def test_a_lookup_is_held_against_every_ptk_it_names(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.world.stream("secret")
    api.world.register()
    api.world.register("other", stream="secret")
    api.grant("ads", STREAM, Role.CONSUMER)
    ads = api.acting(team="ads")

    def ask(*features: str, **entity: Any) -> httpx.Response:
        return ads.post("/v1/lookups", json={"features": list(features), "entities": [entity or {"hour": 1}]})

    assert ask("taxi__speed:count").status_code == 200
    assert ask("taxi__speed@v1:count").status_code == 200
    assert ask("ptk_state:version", ptk="taxi.speed").status_code == 200
    for features, entity in (
        (["taxi__other:count"], {}),
        (["taxi__speed:count", "taxi__other__table:count"], {}),
        (["ptk_state:version"], {"ptk": "taxi.other"}),
        (["ptk_state:version"], {"ptk": "*"}),
        (["ptk_state:version"], {"hour": 1}),
        (["nothing:count"], {}),
        (["taxi:count"], {}),
    ):
        assert problem(ask(*features, **entity)) == (404, "unknown-name"), features


def test_values_that_json_lacks_are_told_as_null(api: Api, client: httpx.Client, monkeypatch: Any) -> None:
    api.world.register()
    rows = [{"a": float("nan"), "b": [1.0, float("inf")], "c": None, "d": b"\xff", "e": 1, "f": "x"}]
    monkeypatch.setattr(api.world.views, "look_up", lambda features, entities: Answers(rows))
    reply = client.post("/v1/lookups", json={"features": ["taxi__speed:a"], "entities": [{"hour": 1}]})
    assert reply.json() == {
        "results": [{"a": None, "b": [1.0, None], "c": None, "d": "/w==", "e": 1, "f": "x"}],
        "assured": {},
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"features": [], "entities": []}, 422),
        ({"features": ["taxi__speed:a"] * 501, "entities": []}, 422),
        ({"features": ["x"], "entities": []}, 422),
        ({"features": ["taxi__speed:a"], "entities": [{"hour": [1]}]}, 422),
        ({"features": ["taxi__speed:a"], "entities": [{"hour": True}]}, 422),
        ({"features": ["taxi__speed:a"], "entities": [{"hour": 1}] * 10_001}, 422),
        ({"features": [f"taxi__speed:a{i}" for i in range(100)], "entities": [{"h": 1}] * 9_000}, 413),
        ({"features": "taxi__speed:a", "entities": [{"hour": 1}]}, 422),
    ],
    ids=["none", "many", "short", "list", "bool", "entities", "cells", "text"],
)
def test_lookups_are_bounded(shared: Api, body: dict[str, Any], expected: int) -> None:
    assert problem(shared.acting().post("/v1/lookups", json=body))[0] == expected


# subscriptions


def test_subscriptions_belong_to_the_team_that_made_them(api: Api, admin: httpx.Client) -> None:
    api.world.register()
    api.grant("ads", STREAM, Role.CONSUMER)
    ads, taxi = api.acting(team="ads"), api.acting()
    asked = {"ptk_id": "taxi.speed", "endpoint": "http://127.0.0.1:9/"}
    mine = ads.post("/v1/subscriptions", json=asked).json()["id"]
    local, _ = api.world.service.subscribe_to_ptk("taxi.speed", "http://127.0.0.1:9/")
    assert [s["id"] for s in all_items(ads, "/v1/subscriptions")] == [mine]
    assert all_items(taxi, "/v1/subscriptions") == []
    assert {s["id"] for s in all_items(admin, "/v1/subscriptions")} == {mine, local.id}
    for name in (mine, local.id):
        for part in ("deliveries", "attempts"):
            assert problem(taxi.get(f"/v1/subscriptions/{name}/{part}")) == (404, "unknown-name")
    assert ads.get(f"/v1/subscriptions/{mine}/attempts").json() == {"items": [], "next_cursor": None}
    assert problem(taxi.delete(f"/v1/subscriptions/{mine}")) == (404, "unknown-name")
    assert ads.delete(f"/v1/subscriptions/{mine}").status_code == 204
    assert problem(ads.delete(f"/v1/subscriptions/{mine}")) == (404, "unknown-name")


@pytest.mark.parametrize(
    "endpoint",
    ["http://10.0.0.1/", "file:///etc/passwd", "http://127.0.0.1:9/\r\nX: 1", "http://[::1]/", "x" * 9],
)
def test_an_endpoint_that_is_not_allowed_is_refused(shared: Api, endpoint: str) -> None:
    reply = shared.acting().post("/v1/subscriptions", json={"ptk_id": "taxi.speed", "endpoint": endpoint})
    assert problem(reply)[1] == "invalid-request"


def test_a_subscriber_over_http_gets_signed_messages_and_sees_that_it_heard(
    api: Api, client: httpx.Client, webhook_receiver: WebhookReceiver
) -> None:
    api.world.register()
    asked = {"ptk_id": "taxi.speed", "endpoint": webhook_receiver.endpoint()}
    made = client.post("/v1/subscriptions", json=asked).json()
    webhook_receiver.trust(made["secret"])
    api.world.publish(0)
    api.world.work("notify")
    deliveries = client.get(f"/v1/subscriptions/{made['id']}/deliveries").json()
    last_success = deliveries.pop("last_success")
    assert last_success == api.world.clock.now().isoformat()
    assert deliveries == {
        "id": made["id"],
        **asked,
        "team": "taxi",
        "key": None,
        "heard_of_version": 1,
        "status": "ok",
        "failures": 0,
        "failing_since": None,
        "last_code": None,
        "disabled_at": None,
        "disabled_code": None,
        "missed": 0,
        "waiting_versions": 0,
        "next_attempts": [],
        "dead_letters": [],
        "next_cursor": None,
    }
    api.world.publish(1)
    webhook_receiver.answer_next(1, 503)
    for _ in range(2):
        api.world.work("notify")
        waits = client.get(f"/v1/subscriptions/{made['id']}/deliveries").json()
        if waits["failures"]:
            (one,) = waits["next_attempts"]
            assert (waits["waiting_versions"], one["version"], one["attempt"]) == (1, 2, 2)
            wait = datetime.fromisoformat(one["at"]) - api.world.clock.now()
            assert timedelta(seconds=0) < wait <= FIRST_RETRY * (1 + JITTER)
        api.world.clock.pass_(hours=1)
    assert (waits["waiting_versions"], waits["next_attempts"]) == (0, [])
    path = f"/v1/subscriptions/{made['id']}/attempts"
    attempts = all_items(client, path)
    assert [(one["sequence"], one["version"], one["attempt"]) for one in attempts] == [
        (3, 2, 2),
        (2, 2, 1),
        (1, 1, 1),
    ]
    at, seconds = attempts[1].pop("at"), attempts[1].pop("seconds")
    assert (at >= last_success, seconds >= 0) == (True, True)
    assert attempts[1] == {
        **{"sequence": 2, "version": 2, "attempt": 1, "redelivered": False},
        **{"delivered": False, "code": "status-5xx", "status": 503},
    }
    first = client.get(path, params={"limit": 2}).json()
    assert [one["sequence"] for one in first["items"]] == [3, 2]
    rest = client.get(path, params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [one["sequence"] for one in rest["items"]] == [1]
    assert rest["next_cursor"] is None


def test_subscriptions_come_in_pages_that_are_cut_where_they_are_kept(
    api: Api, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("speed", "other"):
        api.world.register(name)
    wanted = [*[("speed", "taxi")] * 5, *[("other", "taxi")] * 2, *[("speed", "ads")] * 3]
    made = [
        api.world.service.subscribe_to_ptk(f"taxi.{name}", f"redis-stream:s{n}", team=team)[0].id
        for n, (name, team) in enumerate(wanted)
    ]
    mine = sorted(made[:7])
    with api.world.service.begin() as uow:
        for one in made:
            uow.subscriptions.add_dead_letter(DeadLetter(one, 1, "timeout", api.world.clock.now()))
        uow.commit()
    seen: list[int] = []
    of = SqlSubscriptions.of

    def counted(self: SqlSubscriptions, *given: Any, **more: Any) -> Any:
        found = of(self, *given, **more)
        seen.append(len(found))
        return found

    monkeypatch.setattr(SqlSubscriptions, "of", counted)
    path = "/v1/subscriptions"
    for limit in (1, 2, 3, 6, 7, 8, 10, 11):
        items = all_items(client, path, limit=limit)
        assert [one["id"] for one in items] == mine
        assert {one["missed"] for one in items} == {1}
        assert max(seen) <= limit + 1
        seen.clear()
    of_one = all_items(client, path, ptk_id="taxi.other", limit=1)
    assert [one["ptk_id"] for one in of_one] == ["taxi.other"] * 2
    for cursor in ("AAAA", "4oKs"):  # a database takes no zeros in a text
        assert problem(client.get(path, params={"cursor": cursor})) == (400, "invalid-request")


def test_dead_letters_come_in_pages(api: Api, client: httpx.Client) -> None:
    api.world.register()
    made = client.post(
        "/v1/subscriptions", json={"ptk_id": "taxi.speed", "endpoint": "redis-stream:s"}
    ).json()["id"]
    with api.world.service.begin() as uow:
        for number in range(1, 8):
            uow.subscriptions.add_dead_letter(DeadLetter(made, number, "timeout", api.world.clock.now()))
        uow.commit()
    path = f"/v1/subscriptions/{made}/deliveries"
    for limit in (1, 3, 6, 7, 8):
        letters = all_items(client, path, items="dead_letters", limit=limit)
        assert [one["version"] for one in letters] == [1, 2, 3, 4, 5, 6, 7]
    page = client.get(path, params={"limit": 2}).json()
    assert ([one["version"] for one in page["dead_letters"]], page["missed"]) == ([1, 2], 7)
    assert problem(client.get(path, params={"cursor": "eHg"})) == (400, "invalid-request")


def test_a_secret_is_rotated_over_http_and_shown_once(
    api: Api, client: httpx.Client, webhook_receiver: WebhookReceiver
) -> None:
    api.world.register()
    asked = {"ptk_id": "taxi.speed", "endpoint": webhook_receiver.endpoint()}
    made = client.post("/v1/subscriptions", json=asked).json()
    path = f"/v1/subscriptions/{made['id']}"
    rotated = client.post(f"{path}/rotate", json={"overlap_hours": 0}).json()
    assert rotated["id"] == made["id"]
    assert rotated["secret"] != made["secret"]
    webhook_receiver.trust(rotated["secret"])
    api.world.publish(0)
    api.world.work("notify")
    assert [call.verified for call in webhook_receiver.calls] == [True]
    assert (
        rotated["secret"] not in client.get("/v1/subscriptions").text + client.get(f"{path}/deliveries").text
    )
    for overlap in (-1, 721, "1", None):
        assert problem(client.post(f"{path}/rotate", json={"overlap_hours": overlap}))[0] == 422
    for _ in range(3):
        assert client.post(f"{path}/rotate", json={}).status_code == 200
    assert problem(client.post(f"{path}/rotate", json={})) == (409, "conflict")


def test_dead_letters_are_sent_again_and_a_disabled_endpoint_is_enabled_over_http(
    api: Api, client: httpx.Client, webhook_receiver: WebhookReceiver
) -> None:
    api.world.register()
    asked = {"ptk_id": "taxi.speed", "endpoint": webhook_receiver.endpoint()}
    made = client.post("/v1/subscriptions", json=asked).json()
    webhook_receiver.trust(made["secret"])
    with api.world.service.begin() as uow:
        uow.subscriptions.add_dead_letter(DeadLetter(made["id"], 1, "timeout", api.world.clock.now()))
        uow.commit()
    api.world.publish(0)
    webhook_receiver.answer_next(1, 410)
    api.world.work("notify")
    path = f"/v1/subscriptions/{made['id']}"
    (listed,) = client.get("/v1/subscriptions").json()["items"]
    assert (listed["status"], listed["disabled_code"], listed["missed"]) == ("disabled", "gone", 1)
    assert problem(client.post(f"{path}/redeliver", json={}))[0] == 403
    enabled = client.post(f"{path}/enable", json={"redeliver": False}).json()
    assert (enabled["status"], enabled["heard_of_version"]) == ("ok", 0)
    assert client.post(f"{path}/redeliver", json={"version": 1}).json() == {"dead_letters": 1}
    assert problem(client.post(f"{path}/redeliver", json={"version": 9})) == (404, "unknown-name")
    assert client.post(f"{path}/redeliver", json={"since": "2030-01-01T00:00:00Z"}).json() == {
        "dead_letters": 0
    }
    (letter,) = client.get(f"{path}/deliveries").json()["dead_letters"]
    assert (letter["version"], letter["code"], letter["told"]) == (1, "timeout", False)
    assert letter["page"] == "docs/reference/codes.md#timeout"
    assert letter["redelivery_asked_at"] is not None
    api.world.work("redeliver")
    api.world.work("notify")
    heard = [
        call.message["data"].get("redelivered", False) for call in webhook_receiver.accepted if call.message
    ]
    assert heard == [True, False]
    assert client.get(f"{path}/deliveries").json()["dead_letters"] == []


# identity


def test_tokens_are_issued_listed_rotated_and_revoked(api: Api, admin: httpx.Client) -> None:
    admin.post("/v1/teams", json={"name": "ads"})
    issued = admin.post("/v1/tokens", json={"team": "ads", "scopes": ["consumer"], "days": 2}).json()
    ads = api.client(issued["token"])
    assert ads.get("/v1/identity").json() == {
        "team": "ads",
        "token_id": issued["id"],
        "scopes": ["consumer"],
    }
    (listed,) = all_items(admin, "/v1/tokens", team="ads")
    assert listed == {k: v for k, v in issued.items() if k != "token"}
    api.world.clock.pass_(days=1)
    new = admin.post(f"/v1/tokens/{issued['id']}/rotate", json={"overlap_hours": 1}).json()
    assert api.client(new["token"]).get("/v1/identity").status_code == 200
    api.world.clock.pass_(hours=1)
    assert problem(ads.get("/v1/identity")) == (401, "unauthenticated")
    assert admin.delete(f"/v1/tokens/{new['id']}").status_code == 204
    api.world.clock.pass_(seconds=1)
    assert problem(api.client(new["token"]).get("/v1/identity")) == (401, "unauthenticated")
    assert problem(admin.delete(f"/v1/tokens/{'f' * 16}")) == (404, "unknown-name")


def test_grants_are_given_listed_and_withdrawn(api: Api, admin: httpx.Client) -> None:
    api.identity.create_team("ads")
    one = {"team": "ads", "stream": STREAM, "role": "developer"}
    everyone = {"team": EVERY, "stream": EVERY, "role": "consumer"}
    for grant in (one, everyone, one):
        assert admin.post("/v1/grants", json=grant).json() == grant
    assert all_items(admin, "/v1/grants", stream=STREAM) == [everyone, one]
    assert admin.delete("/v1/grants", params=one).status_code == 204
    assert problem(admin.delete("/v1/grants", params=one)) == (404, "unknown-name")
    for wrong in ({**everyone, "role": "developer"}, {**one, "role": "administrator"}):
        assert problem(admin.post("/v1/grants", json=wrong))[1] == "invalid-request"


@pytest.mark.long
def test_the_trail_tells_who_did_what_and_holds_no_caller_s_text(api: Api, admin: httpx.Client) -> None:
    client = api.acting()
    client.post("/v1/ptks", json=ptk(description="canary-description"))
    client.post("/v1/ptks", json=ptk("Bad-Name-canary"))
    client.post(f"/v1/streams/{STREAM}/close", json={"until": "2026-01-06T00:00:00Z"})
    client.delete("/v1/ptks/taxi.canary")
    page = admin.get("/v1/audit-log", params={"team": "taxi", "limit": 2}).json()
    rest = admin.get("/v1/audit-log", params={"team": "taxi", "cursor": page["next_cursor"]}).json()
    told = [(e["action"], e["subject"], e["outcome"]) for e in page["items"] + rest["items"]]
    assert told == [
        ("ptk.register", "ptk/taxi.speed", "done"),
        ("ptk.register", "store", "failed"),
        ("stream.close", f"stream/{STREAM}", "done"),
    ]
    everything = json.dumps(all_items(admin, "/v1/audit-log"))
    assert "canary" not in everything
    assert "token_id" in everything


# operations


def test_without_places_no_event_stream_is_opened(tmp_path: Path) -> None:
    with Api(tmp_path / "home", Limits(event_streams=0)) as api:
        api.world.stream()
        api.world.register()
        reply = api.acting().get("/v1/ptks/taxi.speed/events")
        assert problem(reply) == (503, "unavailable")


def test_every_action_is_asked_for_by_some_route(api: Api) -> None:
    from ptkstore.api.app import routes_of
    from ptkstore.api.requests.routers import rules_of

    elsewhere = {
        Action.CONSOLE_SIGN_IN,  # in the console
        Action.LEDGER_RECOVER,  # the others in the store's home only
        Action.STREAM_PREPARE,
        Action.LAKE_CLEAN,
        Action.CATALOG_UPGRADE,
    }
    asked = {guard.action for route in routes_of(api.app) for guard in rules_of(route)}
    assert asked == set(Action) - elsewhere
