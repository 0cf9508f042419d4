"""Places for long bodies: whoever sends slowly, takes long or has code examined holds up nobody of another team."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from ptkstore.api.limits import Limits
from ptkstore.api.load import body_slots
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.identity import Role
from ptkstore.ports.team_code import Examined
from tests.support.api_server import Api, arrow, ingest, problem
from tests.support.team_code import Inspector, bundle_with, described
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.support.world import trips

SHORT, LONG = 10_000, 60_000
LIMITS = Limits(
    json_body=SHORT,
    exchange_body=LONG,
    ingest_body=LONG,
    body_within=PATIENCE_SECONDS,
    chunk_within=PATIENCE_SECONDS,
)
NOTHING = json.dumps({"ptks": [], "deregister": []}).encode()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with Api(tmp_path / "home", LIMITS) as api:
        api.world.stream(minimum_assurance=Assurance.ASSERTED)
        api.identity.create_team("strangers")
        (taxi,) = api.world.service.streams()
        api.world.service.create_stream(replace(taxi, name="bikes", team="strangers"))
        yield api


def admit(client: httpx.Client, stream: str = "taxi") -> httpx.Response:
    return client.post(
        f"/v1/streams/{stream}/admission",
        content=NOTHING.ljust(LONG),
        headers={"Content-Type": "application/json"},
    )


def store(client: httpx.Client, stream: str = "taxi") -> httpx.Response:
    return ingest(client, arrow(trips()), stream)


KINDS = [("admission", Role.DEVELOPER, admit, 4), ("ingest", Role.PRODUCER, store, 16)]
ACT = Callable[..., httpx.Response]


def opened(api: Api, token: str, verb: str, stream: str = "bikes") -> socket.socket:
    """A connection that sends the first byte of a long body."""
    connection = socket.create_connection(("127.0.0.1", api.port), timeout=PATIENCE_SECONDS)
    connection.sendall(
        (
            f"POST /v1/streams/{stream}/{verb} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {LONG}\r\n\r\n{{"
        ).encode()
    )
    return connection


def status_on(connection: socket.socket) -> int:
    return int(connection.recv(65_536).split()[1])


def has_answer(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    with suppress(TimeoutError):
        return bool(connection.recv(1, socket.MSG_PEEK))
    return False


@contextmanager
def held(api: Api, tokens: list[str], verb: str, each: int) -> Iterator[list[socket.socket]]:
    """So many connections of each token, which send no more; those that are answered are refused."""
    with ExitStack() as stack:
        yield [stack.enter_context(opened(api, token, verb)) for token in tokens for _ in range(each)]


@pytest.mark.long
@pytest.mark.parametrize(("verb", "role", "act", "places"), KINDS)
def test_a_team_holds_half_of_the_places_and_who_is_of_another_is_not_held_up(
    api: Api, monkeypatch: pytest.MonkeyPatch, verb: str, role: Role, act: ACT, places: int
) -> None:
    monkeypatch.setattr(body_slots, "WAIT_SECONDS", 0.5)
    tokens = [api.token(role, team="strangers") for _ in range(3)]
    with held(api, tokens, verb, places) as connections:
        until(lambda: sum(map(has_answer, connections)) >= 3 * places - places // 2)
        assert {status_on(one) for one in connections if has_answer(one)} == {429}
        assert problem(act(api.client(tokens[0]), "bikes")) == (429, "too-many-requests")
        assert act(api.acting(role)).status_code == 200
    until(lambda: act(api.client(tokens[0]), "bikes").status_code == 200)


@pytest.mark.parametrize(("verb", "role", "act", "places"), KINDS)
def test_a_token_holds_half_of_what_its_team_may(
    api: Api, monkeypatch: pytest.MonkeyPatch, verb: str, role: Role, act: ACT, places: int
) -> None:
    monkeypatch.setattr(body_slots, "WAIT_SECONDS", 0.5)
    mine, other = (api.token(role, team="strangers") for _ in range(2))
    with held(api, [mine], verb, places) as connections:
        until(lambda: sum(map(has_answer, connections)) >= places - places // 4)
        assert problem(act(api.client(mine), "bikes")) == (429, "too-many-requests")
        assert act(api.client(other), "bikes").status_code == 200


def test_teams_that_hold_all_places_are_told_apart_from_who_sends_too_much(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_slots, "WAIT_SECONDS", 0.5)
    api.grant("others", "bikes", Role.DEVELOPER)
    tokens = [api.token(Role.DEVELOPER, team=team) for team in ("strangers", "others") for _ in range(2)]
    with held(api, tokens, "admission", 1):
        client = api.acting(Role.DEVELOPER)
        until(lambda: admit(client).status_code == 503)
    until(lambda: admit(client).status_code == 200)


class Slow:
    """A use case that takes until it is released, on one stream."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch, name: str, stream: str = "bikes") -> None:
        self.begun, self.release = 0, threading.Event()
        self._act, self._stream = getattr(api.world.service, name), stream
        monkeypatch.setattr(api.world.service, name, self._slow)

    def _slow(self, *given: Any, **named: Any) -> Any:
        if self._stream in (*given, *named.values()):
            self.begun += 1
            assert self.release.wait(2 * PATIENCE_SECONDS)  # longer than anybody waits for what it holds up
        return self._act(*given, **named)


WORK = [
    ("admit_ptks", Role.DEVELOPER, admit, 1),
    ("ingest", Role.PRODUCER, store, 2),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "role", "act", "share"), WORK)
def test_what_takes_long_holds_half_of_the_places_to_work_and_no_other_team_is_held_up(
    api: Api, monkeypatch: pytest.MonkeyPatch, name: str, role: Role, act: ACT, share: int
) -> None:
    monkeypatch.setattr(body_slots, "WAIT_SECONDS", 0.5)
    slow = Slow(api, monkeypatch, name)
    strangers = [api.acting(role, team="strangers") for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        try:
            replies = [pool.submit(act, client, "bikes") for client in strangers]
            until(lambda: sum(reply.done() for reply in replies) == 4 - share)
            refused = {problem(reply.result()) for reply in replies if reply.done()}
            assert (slow.begun, refused) == (share, {(429, "too-many-requests")})
            assert problem(act(strangers[0], "bikes")) == (429, "too-many-requests")
            assert act(api.acting(role)).status_code == 200
        finally:
            slow.release.set()
        assert sum(reply.result().status_code == 200 for reply in replies) == share
    assert act(strangers[0], "bikes").status_code == 200


@pytest.mark.long
@pytest.mark.parametrize(("name", "role", "act", "share"), WORK)
def test_what_takes_longer_than_it_is_waited_for_holds_up_no_other_team_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, role: Role, act: ACT, share: int
) -> None:
    monkeypatch.setattr(body_slots, "WAIT_SECONDS", 0.5)
    with Api(tmp_path / "home", replace(LIMITS, answer_within=2.0, body_within=1.0)) as api:
        api.world.stream()
        api.identity.create_team("strangers")
        (taxi,) = api.world.service.streams()
        api.world.service.create_stream(replace(taxi, name="bikes", team="strangers"))
        slow = Slow(api, monkeypatch, name)
        client = api.acting(role, team="strangers")
        with ThreadPoolExecutor(share) as pool:
            try:
                replies = [pool.submit(act, client, "bikes") for _ in range(share)]
                assert {problem(one.result()) for one in replies} == {(504, "outcome-unknown")}
                other = api.acting(role, team="strangers")
                assert (act(other, "bikes").status_code, slow.begun) == (429, share)
                until(lambda: act(api.acting(role)).status_code == 200)
            finally:
                slow.release.set()
        until(lambda: act(client, "bikes").status_code == 200)


def test_teams_that_hold_all_places_to_work_are_told_apart_too(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_slots, "WAIT_SECONDS", 0.5)
    api.grant("others", "bikes", Role.DEVELOPER)
    slow = Slow(api, monkeypatch, "admit_ptks")
    with ThreadPoolExecutor(2) as pool:
        try:
            for number, team in enumerate(("strangers", "others"), start=1):
                pool.submit(admit, api.acting(Role.DEVELOPER, team=team), "bikes")
                until(lambda number=number: slow.begun == number)  # type: ignore[misc]
            assert problem(admit(api.acting(Role.DEVELOPER))) == (503, "unavailable")
        finally:
            slow.release.set()
    assert admit(api.acting(Role.DEVELOPER)).status_code == 200


@pytest.mark.parametrize(("verb", "role"), [("admission", Role.DEVELOPER), ("ingest", Role.PRODUCER)])
def test_a_long_body_has_a_least_rate(tmp_path: Path, verb: str, role: Role) -> None:
    limits = replace(LIMITS, chunk_within=1.0, bytes_per_second=5_000.0)
    with Api(tmp_path / "home", limits) as api:
        api.world.stream()
        with opened(api, api.token(role), verb, "taxi") as slow:
            begun = time.monotonic()
            while not has_answer(slow):
                assert time.monotonic() - begun < PATIENCE_SECONDS / 4, "it may send a byte now and then"
                slow.sendall(b" ")
                time.sleep(0.1)
            assert status_on(slow) == 408


@pytest.mark.long
def test_a_long_body_that_comes_at_its_rate_is_read_to_its_end(tmp_path: Path) -> None:
    limits = replace(LIMITS, chunk_within=2.0, bytes_per_second=1_000.0)

    def parts() -> Iterator[bytes]:
        yield NOTHING
        for _ in range(12):
            time.sleep(0.3)
            yield b" " * 4_000

    with Api(tmp_path / "home", limits) as api:
        api.world.stream()
        reply = api.acting(Role.DEVELOPER).post(
            "/v1/streams/taxi/admission", content=parts(), headers={"Content-Type": "application/json"}
        )
        assert reply.status_code == 200


class Slowly(Inspector):
    """An examination that lasts until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.release = threading.Event(), threading.Event()

    def examine(self, estimator: Any, bundle: bytes, runs: int, team: str = "") -> Examined:
        self.begun.set()
        assert self.release.wait(PATIENCE_SECONDS)
        return super().examine(estimator, bundle, runs, team)


def test_who_has_team_code_examined_holds_no_place_meanwhile(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_slots, "WAIT_SECONDS", 0.5)
    sandbox = api.world.service.__dict__["sandbox"] = Slowly()
    bundle = bundle_with("own")
    api.world.service.put_bundle(bundle, team="taxi")
    own = {"name": "own", "estimator": described(bundle), "target": 0.1, "train_frequency": "1d"}
    body = json.dumps({"ptks": [own], "deregister": []}).encode().ljust(LONG)
    client = api.acting(Role.DEVELOPER)

    def exchange() -> httpx.Response:
        return client.post(
            "/v1/streams/taxi/exchange", content=body, headers={"Content-Type": "application/json"}
        )

    with ThreadPoolExecutor(1) as pool:
        try:
            reply = pool.submit(exchange)
            assert sandbox.begun.wait(PATIENCE_SECONDS)
            assert admit(api.acting(Role.DEVELOPER, team="strangers"), "bikes").status_code == 200
            assert admit(client).status_code == 200
        finally:
            sandbox.release.set()
        assert reply.result().status_code == 200, reply.result().text
    assert [spec.ptk_id for spec in api.world.service.ptks()] == ["taxi.own"]
    assert admit(client).status_code == 200
