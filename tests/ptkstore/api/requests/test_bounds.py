"""Hostile requests: too large, too slow, too deep, too strange."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from ptkstore.api import connections
from ptkstore.api.limits import Limits
from ptkstore.domain.identity import Role
from tests.support.api_server import TEAM, Api, problem
from tests.support.routes import EXPECTED
from tests.support.world import STREAM, speed

IMPATIENT = Limits(body_within=2.0, chunk_within=0.5, answer_within=0.5)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home"), Limits(json_body=2_000)) as api:
        api.world.stream()
        api.world.register()
        yield api


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server that waits for hardly anything: only for tests that outwait it."""
    with Api(tmp_path_factory.mktemp("impatient"), IMPATIENT) as api:
        yield api


@pytest.fixture(scope="module")
def client(api: Api) -> httpx.Client:
    return api.acting(*Role)


def raw(api: Api, request: bytes, *, pause: float = 0.0, rest: bytes = b"") -> tuple[int, bytes]:
    """Status and body of what comes back over a bare connection."""
    with socket.create_connection(("127.0.0.1", api.port), timeout=60.0) as connection:
        connection.sendall(request)
        if pause:
            time.sleep(pause)
        if rest:
            connection.sendall(rest)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def head(api: Api, path: str = "/v1/teams", *, length: int | None = 20, **headers: str) -> bytes:
    lines = {
        "Host": "x",
        "Authorization": f"Bearer {api.token(Role.ADMINISTRATOR)}",
        "Content-Type": "application/json",
        "Connection": "close",
        **({} if length is None else {"Content-Length": str(length)}),
        **headers,
    }
    text = f"POST {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
    return text.encode() + b"\r\n"


def test_a_long_body_is_refused_by_its_length_before_it_is_sent(api: Api) -> None:
    status, body = raw(api, head(api, length=10**12))
    assert (status, json.loads(body)["code"]) == (413, "too-large")


def test_a_long_body_is_refused_without_a_length_as_it_comes(client: httpx.Client) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(4):
            yield b" " * 1_000

    reply = client.post("/v1/teams", content=parts(), headers={"Content-Type": "application/json"})
    assert problem(reply) == (413, "too-large")


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "9" * 30, "٣"])
def test_a_length_that_is_none_is_refused(api: Api, length: str) -> None:
    status, _ = raw(api, head(api, **{"Content-Length": length}))
    assert status in (400, 413)


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "identity, gzip", "zstd"])
def test_an_encoded_body_is_refused_unread(client: httpx.Client, encoding: str) -> None:
    body = gzip.compress(b" " * 10_000_000)[:1_900]
    headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
    assert problem(client.post("/v1/teams", content=body, headers=headers)) == (415, "unknown-format")


def test_a_body_that_stops_coming_is_not_waited_for(impatient: Api) -> None:
    status, body = raw(impatient, head(impatient, length=20) + b'{"name"')
    assert (status, json.loads(body)["code"]) == (408, "too-slow")


@pytest.mark.long
def test_a_body_that_trickles_is_not_waited_for_either(impatient: Api) -> None:
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=60.0) as connection:
        connection.sendall(head(impatient, length=1_000))
        stop = threading.Event()

        def trickle() -> None:
            while not stop.wait(0.2):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        status = int(connection.recv(65_536).split()[1])
        stop.set()
        thread.join()
    assert status == 408


@pytest.mark.long
def test_work_that_takes_too_long_is_told_as_not_known(
    impatient: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr(impatient.app.state.identity, "create_team", lambda _: release.wait(60))
    reply = impatient.acting(Role.ADMINISTRATOR).post("/v1/teams", json={"name": "slow"})
    release.set()
    assert problem(reply) == (504, "outcome-unknown")


def test_reading_that_takes_too_long_may_be_tried_again(
    impatient: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr(impatient.app.state.identity, "teams", lambda: release.wait(60) and ())
    reply = impatient.acting(Role.ADMINISTRATOR).get("/v1/teams")
    release.set()
    assert problem(reply) == (503, "unavailable")
    assert reply.headers["retry-after"] == "2"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"null",
        b"\xff",
        b'{"name": NaN}',
        b'{"name": Infinity}',
        b'{"name": 1e999}',
        b'{"name": "a", "name": "b"}',
        b'{"name": "\\u0000"}',
        b'{"name": "\\ud800"}',
        b"[" * 1_500,
        b'{"name":' * 240,
        b'{"name": ' + b"9" * 1_500 + b"}",
        b'{"name": "x", "more": 1}',
    ],
    ids=lambda body: body[:16].decode(errors="replace"),
)
def test_what_is_no_document_is_a_problem(client: httpx.Client, body: bytes) -> None:
    reply = client.post("/v1/teams", content=body, headers={"Content-Type": "application/json"})
    status, code = problem(reply)
    assert (status in (400, 422), code) == (True, "invalid-request")


def test_a_strangers_document_is_not_even_read(api: Api) -> None:
    for client, status in ((api.client(), 401), (api.acting(*Role), 400)):
        reply = client.post("/v1/teams", content=b"{", headers={"Content-Type": "application/json"})
        assert problem(reply)[0] == status


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "", "a/b/c"])
def test_json_is_read_as_json_only(client: httpx.Client, media_type: str) -> None:
    reply = client.post("/v1/teams", content=b'{"name": "x"}', headers={"Content-Type": media_type})
    assert problem(reply) == (422, "invalid-request")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/streams/..%2f..%2fetc%2fpasswd",
        "/v1/streams/%00",
        "/v1/streams/%ed%a0%80",
        "/v1/streams/a%0d%0aX-Evil:%201",
        "/v1/streams/taxi'--",
        "/v1/streams/" + "a" * 5_000,
        "/v1/ptks/taxi.speed%00",
        "/v1/ptks/..%2f..%2fx.y",
        "/v1/ptks/taxi.speed/versions/1/files/..%2f..%2fmanifest.json",
        "/v1/ptks/taxi.speed/versions/1/files/%2fetc%2fpasswd",
        "/v1/ptks/taxi.speed/versions/99999999999999999999/manifest",
        "/v1/ptks/taxi.speed/versions/-1/manifest",
        "/v1/ptks/taxi.speed/versions/0x1/manifest",
        "/v1/subscriptions/sub_%00/deliveries",
        "/v1/streams/taxi/",
        "//v1/streams",
        "/v1/../v1/streams/%2e%2e",
    ],
)
def test_a_path_names_a_thing_or_nothing(client: httpx.Client, path: str) -> None:
    reply = client.request("GET", httpx.URL(client.base_url).copy_with(raw_path=path.encode()))
    status, code = problem(reply)
    assert (status, code) in ((404, "unknown-name"), (422, "invalid-request"))
    assert "x-evil" not in reply.headers


def test_a_slash_within_a_name_leads_to_no_other_route(api: Api) -> None:
    api.world.register()
    client = api.acting(*Role)
    names = {
        "stream": "taxi",
        "ptk_id": "taxi.speed",
        "subscription_id": f"sub_{'0' * 16}",
        "token_id": "0" * 16,
    }
    fixed = {**names, "number": "1", "window": "0", "name": "x.parquet", "sha256": "0" * 64}
    below = {path.partition("}")[2].removeprefix("/") for _, path in EXPECTED if "}/" in path}
    assert {"budget", "versions", "rollback", "rotate"} <= below
    for (method, path), rest in product(EXPECTED, below):
        for name in (name for name in fixed if f"{{{name}}}" in path):
            hidden = f"{fixed[name]}%2F{rest.format(**fixed).replace('/', '%2f')}"
            body = None if method == "GET" else {}
            reply = client.request(method, path.format(**{**fixed, name: hidden}), json=body)
            wanted = (
                [(404, "unknown-name")]
                if name in names
                else [(404, "unknown-name"), (422, "invalid-request")]
            )
            assert problem(reply) in wanted, (method, path, hidden)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Idempotency-Key", "a\x00b"),
        ("Idempotency-Key", "a b"),
        ("Idempotency-Key", "x" * 300),
        ("Idempotency-Key", "\xff"),
        ("Last-Event-ID", "-1"),
        ("Last-Event-ID", "1\r\nX-Evil: 1"),
        ("If-None-Match", "x" * 5_000),
    ],
)
def test_headers_are_held_to_their_form(api: Api, name: str, value: str) -> None:
    path = {"Idempotency-Key": "/v1/teams"}.get(name, "/v1/ptks/taxi.speed/events")
    body = b'{"name": "x"}'
    request = head(api, path, length=len(body)).replace(
        b"\r\n\r\n", f"\r\n{name}: {value}\r\n\r\n".encode("latin-1")
    )
    if name != "Idempotency-Key":
        request = request.replace(b"POST", b"GET", 1).replace(b"administrator", b"consumer")
    status, answer = raw(api, request + body)
    assert status in (400, 403, 422)
    assert b"X-Evil" not in answer


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Basic dXNlcjpwYXNz",
        "Bearer ptk_" + "0" * 16 + "_" + "s" * 43,
        "Bearer " + "x" * 10_000,
        "Bearer a b",
        "ptk_" + "0" * 16 + "_" + "s" * 43,
        "Bearer \u00e9",
    ],
    ids=range(8),
)
def test_whatever_is_wrong_with_a_token_the_answer_is_the_same(api: Api, authorization: str) -> None:
    reply = api.client().get("/v1/streams", headers={"Authorization": authorization.encode()})
    assert problem(reply) == (401, "unauthenticated")
    assert reply.headers["www-authenticate"].startswith("Bearer")
    document = reply.json()
    document.pop("request_id")
    assert document == {
        "type": "urn:ptkstore:problem:unauthenticated",
        "title": "The caller is not known",
        "status": 401,
        "code": "unauthenticated",
        "detail": "a valid token is needed: Authorization: Bearer ptk_...",
        "faults": [],
        "page": "docs/reference/errors.md#unauthenticated",
    }


@pytest.mark.parametrize("method", ["PUT", "HEAD", "OPTIONS", "TRACE", "PROPFIND"])
def test_other_methods_are_problems(client: httpx.Client, method: str) -> None:
    reply = client.request(method, "/v1/streams")
    assert reply.status_code == 405
    assert reply.headers["content-type"] == "application/problem+json"


def test_every_answer_carries_safe_headers_and_an_id_of_ours(client: httpx.Client) -> None:
    for reply in (
        client.get("/v1/streams", headers={"X-Request-Id": "mine"}),
        client.get("/nowhere"),
        client.get("/healthz"),
        client.post("/v1/teams", content=b"x"),
    ):
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert len(reply.headers["x-request-id"]) == 16


def test_an_estimator_that_makes_no_sense_is_refused(client: httpx.Client) -> None:
    def register(**changes: Any) -> tuple[int, str]:
        body = {"name": "odd", "stream": STREAM, "target": 0.1, "estimator": speed(), **changes}
        return problem(client.post("/v1/ptks", json=body))

    deep: Any = 1
    for _ in range(30):
        deep = [deep]
    assert register(target=-1.0)[0] == 400
    assert register(target=True) == (422, "invalid-request")
    assert register(estimator={"family": "os.system", "params": {}}) == (422, "invalid-request")
    assert register(estimator={"family": "Nothing", "params": {}})[0] == 400
    assert register(estimator={"family": "HistoricalStatistics", "params": {"keys": deep}})[0] in (400, 422)
    assert register(estimator={**speed(), "params": {**speed()["params"], "epsilon": 2**70}})[0] == 400
    assert register(train_frequency="1 fortnight") == (422, "invalid-request")
    assert register(config={"colour": "red"})[0] == 400
    assert register(team="ads") == (403, "not-allowed")


# who sends or takes too slowly, or too much


def test_a_connection_that_sends_no_request_is_cut(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_WITHIN_SECONDS", 0.3)
    half = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
    for beginning in (b"", half):
        with socket.create_connection(("127.0.0.1", api.port), timeout=60.0) as connection:
            connection.sendall(beginning)
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""
    with socket.create_connection(("127.0.0.1", api.port), timeout=60.0) as connection:
        connection.sendall(half + b"\r\n")  # the first request is whole, the second never is
        with suppress(ConnectionResetError):
            answer = connection.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 200")
            connection.sendall(half)
            while connection.recv(65_536):
                pass


def test_a_client_that_does_not_take_its_answer_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "TAKEN_WITHIN_SECONDS", 0.3)
    cut = threading.Event()
    right = connections.TimeoutProtocol._cut

    def seen(self: connections.TimeoutProtocol) -> None:
        right(self)
        cut.set()

    monkeypatch.setattr(connections.TimeoutProtocol, "_cut", seen)
    with Api(tmp_path / "home") as api, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", api.port))
        asked = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
        with suppress(OSError):  # it is cut while this sends
            for _ in range(200):
                connection.sendall(asked)
        assert cut.wait(60)
        assert api.client().get("/healthz").status_code == 200


def test_a_token_that_asks_too_often_waits_and_others_do_not(tmp_path: Path) -> None:
    with Api(tmp_path / "home", Limits(requests_per_second=0.001)) as api:
        slow = api.acting(Role.CONSUMER)
        assert slow.get("/v1/identity").status_code == 200
        refused = slow.get("/v1/identity")
        assert (problem(refused), int(refused.headers["Retry-After"]) > 1) == (
            (429, "too-many-requests"),
            True,
        )
    with Api(tmp_path / "home", Limits(requests_per_second=1.0)) as api:
        often, other, elsewhere = (api.acting(Role.CONSUMER, team=team) for team in ("taxi", "taxi", "ads"))
        api.app.state.rates._clock = lambda: 0.0
        assert [often.get("/v1/identity").status_code for _ in range(4)] == [200, 200, 429, 429]
        assert [other.get("/v1/identity").status_code for _ in range(4)] == [200, 200, 429, 429]
        third = api.acting(Role.CONSUMER)  # its team has sent what it may
        assert problem(third.get("/v1/identity")) == (429, "too-many-requests")
        assert elsewhere.get("/v1/identity").status_code == 200
        assert problem(api.client("ptk_" + "0" * 16 + "_" + "x" * 43).get("/v1/identity"))[0] == 401
        api.app.state.rates._clock = lambda: 1.0
        assert [often.get("/v1/identity").status_code for _ in range(2)] == [200, 429]


def test_a_request_refused_for_its_rate_did_nothing(tmp_path: Path) -> None:
    with Api(tmp_path / "home", Limits(requests_per_second=1.0)) as api:
        api.app.state.rates._clock = lambda: 0.0
        admin = api.acting(Role.ADMINISTRATOR)
        answers = [admin.post("/v1/teams", json={"name": f"team{n}"}).status_code for n in range(3)]
        assert answers == [201, 201, 429]
        assert api.identity.teams() == (TEAM, "team0", "team1")
