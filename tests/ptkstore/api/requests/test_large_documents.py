"""Documents that are longer than others: read only from those who may send them, few at once, up to a bound."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from ptklib import HistoricalStatistics
from ptkstore import connect
from ptkstore import errors as e
from ptkstore.api.limits import Limits
from ptkstore.api.load import body_slots
from ptkstore.application.ptks.exchange_ptks import Admission
from ptkstore.domain.identity import Role
from ptkstore.sdk import PTK, Repository
from ptkstore.sdk.remote import repositories
from tests.support.api_server import Api, problem
from tests.support.waiting import PATIENCE_SECONDS, until

ORDINARY, LARGE = 10_000, 60_000
VERBS = ["admission", "exchange"]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with Api(tmp_path / "home", Limits(json_body=ORDINARY, exchange_body=LARGE)) as api:
        api.world.stream()
        yield api


def zones(name: str, n_zones: int = 250) -> PTK:
    """About 40 bytes for each zone."""
    estimator = HistoricalStatistics(
        keys=["zone"],
        values=["speed"],
        domains={"zone": [f"zone {number:05d} of a town that has many" for number in range(n_zones)]},
        bounds={"speed": (0.0, 60.0)},
        epsilon=0.01,
    )
    return PTK(name=name, stream="taxi", estimator=estimator, target=0.1, every="1d")


def padded(length: int, **more: Any) -> bytes:
    """A document of so many bytes that asks for nothing."""
    return json.dumps({"ptks": [], "deregister": [], **more}).encode().ljust(length)


def post(client: httpx.Client, verb: str, body: Any) -> httpx.Response:
    return client.post(f"/v1/streams/taxi/{verb}", content=body, headers={"Content-Type": "application/json"})


def test_ptks_that_are_longer_together_than_a_request_are_applied(api: Api) -> None:
    repository = Repository("taxi", tuple(zones(name, 200) for name in ("a", "b", "c", "d")))
    with connect(api.url, token=api.token(Role.DEVELOPER)) as store:
        assert {change.refused for change in store.plan(repository, audit=False)} == {None}
        store.apply(repository)
        assert {change.action for change in store.apply(repository)} == {"keep"}
    assert len(api.world.service.ptks()) == 4


def test_ptks_that_are_longer_than_that_are_refused_before_anything_is_changed(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "EXCHANGE_BYTES_MAX", LARGE)
    repository = Repository("taxi", tuple(zones(f"p{n}") for n in range(7)))
    with connect(api.url, token=api.token(Role.DEVELOPER)) as store:
        for act in (store.plan, store.apply):
            with pytest.raises(
                e.TooLarge, match=r"has 6\d{4} bytes as JSON, and over HTTP one stream takes 60000 at once"
            ):
                act(repository)
    assert api.world.service.ptks() == ()


@pytest.mark.parametrize("verb", VERBS)
def test_a_document_has_a_bound_however_it_comes(api: Api, verb: str) -> None:
    client = api.acting(Role.DEVELOPER)
    in_parts = iter([b" " * ORDINARY] * 7)
    assert post(client, verb, padded(LARGE)).status_code == 200
    assert post(client, verb, iter([padded(ORDINARY), b" " * ORDINARY])).status_code == 200
    assert problem(post(client, verb, padded(LARGE + 1))) == (413, "too-large")
    assert problem(post(client, verb, in_parts)) == (413, "too-large")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("length", [f"Content-Length: {LARGE}", "Transfer-Encoding: chunked"])
def test_nothing_of_a_long_document_is_read_from_who_may_not_send_it(
    api: Api, verb: str, length: str
) -> None:
    def answered(token: str, stream: str = "taxi") -> tuple[int, str]:
        request = (
            f"POST /v1/streams/{stream}/{verb} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nConnection: close\r\n{length}\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", api.port), timeout=PATIENCE_SECONDS) as connection:
            connection.sendall(request.encode())  # and nothing of the body
            answer = b""
            while part := connection.recv(65_536):
                answer += part
        return int(answer.split()[1]), json.loads(answer.partition(b"\r\n\r\n")[2])["code"]

    assert answered("ptk_" + "0" * 16 + "_" + "s" * 43) == (401, "unauthenticated")
    assert answered(api.token(Role.CONSUMER)) == (403, "not-allowed")
    assert answered(api.token(Role.DEVELOPER), "nowhere") == (404, "unknown-name")
    assert answered(api.token(Role.DEVELOPER, team="strangers")) == (404, "unknown-name")


def test_a_long_document_counts_as_one_request_and_nothing_is_read_of_one_too_many(tmp_path: Path) -> None:
    with Api(tmp_path / "home", Limits(json_body=ORDINARY, requests_per_second=1.0)) as api:
        api.world.stream()
        api.app.state.rates._clock = lambda: 0.0
        token = api.token(Role.DEVELOPER)
        assert [post(api.client(token), "admission", padded(LARGE)).status_code for _ in range(2)] == [
            200
        ] * 2
        request = (
            f"POST /v1/streams/taxi/admission HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {LARGE}\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", api.port), timeout=PATIENCE_SECONDS) as connection:
            connection.sendall(request.encode())  # and nothing of the body
            assert connection.recv(65_536).split()[1] == b"429"


def test_a_refused_long_exchange_is_on_record_once_and_a_done_one_as_any_other(api: Api) -> None:
    post(api.acting(Role.CONSUMER), "exchange", padded(LARGE))
    post(api.acting(Role.DEVELOPER), "exchange", padded(LARGE))
    lines = [(one.subject, one.outcome) for one in api.identity.audit_log() if one.action == "ptk.exchange"]
    assert lines == [("stream/taxi", "not-allowed"), ("stream/taxi", "done")]


@pytest.mark.parametrize("name", ["ingest", "admission", "exchange"])
def test_a_stream_of_that_name_has_no_longer_documents_than_others(api: Api, name: str) -> None:
    reply = api.acting(*Role).patch(
        f"/v1/streams/{name}", content=padded(ORDINARY + 1), headers={"Content-Type": "application/json"}
    )
    assert problem(reply) == (413, "too-large")


def test_of_a_team_one_long_document_is_worked_on_at_once_and_short_ones_pass_by(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_slots, "WAIT_SECONDS", 0.2)
    release, begun = threading.Event(), []

    def waiting(**asked: Any) -> Admission:
        if asked["leaving"]:
            begun.append(asked)
            assert release.wait(PATIENCE_SECONDS)
        return Admission({})

    monkeypatch.setattr(api.world.service, "admit_ptks", waiting)
    client = api.acting(Role.DEVELOPER)
    held = padded(LARGE, deregister=["taxi.x"])
    with ThreadPoolExecutor(1) as pool:
        try:
            reply = pool.submit(post, client, "admission", held)
            until(lambda: len(begun) == 1)
            other = api.acting(Role.DEVELOPER)
            assert problem(post(other, "admission", padded(LARGE))) == (429, "too-many-requests")
            assert post(client, "admission", padded(ORDINARY)).status_code == 200
        finally:
            release.set()
        assert reply.result().status_code == 200
    assert post(client, "admission", padded(LARGE)).status_code == 200
