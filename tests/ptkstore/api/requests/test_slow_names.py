"""Host names that are answered slowly, or never: whoever gives them holds up no request of another team."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from ptkstore.adapters.webhooks import HttpMessenger
from ptkstore.adapters.webhooks.destinations import LOOKUPS_PER_TEAM
from ptkstore.api.limits import Limits
from ptkstore.domain.identity import Role
from tests.support.api_server import Api, problem
from tests.support.waiting import PATIENCE_SECONDS, until

ASKED = 3 * LOOKUPS_PER_TEAM
PTK_ID = "taxi.speed"


class NameServer:
    """Answers names of `slow.example` once it is let go, and all others at once."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, *_: object) -> Sequence[Any]:
        self.asked.append(host)
        if host.endswith("slow.example"):
            assert self.let_go.wait(PATIENCE_SECONDS)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", port))]


@pytest.fixture
def names() -> Iterator[NameServer]:
    names = NameServer()
    yield names
    names.let_go.set()


@pytest.fixture
def api(tmp_path: Path, names: NameServer) -> Iterator[Api]:
    """A server with two threads for requests, fewer than there are slow names."""
    with Api(tmp_path / "home", Limits(threads=2, answer_within=PATIENCE_SECONDS)) as api:
        api.world.service.__dict__["messenger"] = HttpMessenger(
            resolver=names, timeout_seconds=PATIENCE_SECONDS
        )
        api.world.stream()
        api.world.register("speed")
        for team in ("strangers", "others"):
            api.grant(team, "taxi", Role.CONSUMER)
        yield api
        names.let_go.set()


def subscribe(client: httpx.Client, host: str) -> httpx.Response:
    return client.post("/v1/subscriptions", json={"ptk_id": PTK_ID, "endpoint": f"https://{host}/hook"})


def test_slow_names_of_one_team_hold_up_no_other_team_and_are_refused_beyond_its_share(
    api: Api, names: NameServer
) -> None:
    stranger, other = (api.acting(Role.CONSUMER, team=team) for team in ("strangers", "others"))
    with ThreadPoolExecutor(ASKED) as pool:
        try:
            asked = [pool.submit(subscribe, stranger, f"n{n}.slow.example") for n in range(ASKED)]
            until(lambda: sum(one.done() for one in asked) == ASKED - LOOKUPS_PER_TEAM)
            refused = [one.result() for one in asked if one.done()]
            assert {problem(one) for one in refused} == {(429, "too-many-requests")}
            assert all(int(one.headers["retry-after"]) > 0 for one in refused)
            assert all("host names of this team" in one.json()["detail"] for one in refused)
            assert len(names.asked) == LOOKUPS_PER_TEAM
            assert other.get("/v1/ptks").status_code == 200
            assert stranger.get("/v1/ptks").status_code == 200
            assert subscribe(other, "quick.example").status_code == 201
            assert problem(subscribe(stranger, "quick.example")) == (429, "too-many-requests")
        finally:
            names.let_go.set()
        assert sum(one.result().status_code == 201 for one in asked) == LOOKUPS_PER_TEAM
    assert subscribe(stranger, "quick.example").status_code == 201


def test_a_lookup_counts_after_its_request_was_given_up(api: Api, names: NameServer) -> None:
    api.world.service.messenger.timeout_seconds = 0.01
    stranger = api.acting(Role.CONSUMER, team="strangers")
    told = [problem(subscribe(stranger, f"n{n}.slow.example")) for n in range(LOOKUPS_PER_TEAM + 1)]
    assert told == [(400, "invalid-request")] * LOOKUPS_PER_TEAM + [(429, "too-many-requests")]
    names.let_go.set()
    api.world.service.messenger.timeout_seconds = PATIENCE_SECONDS
    until(lambda: subscribe(stranger, "quick.example").status_code == 201)
