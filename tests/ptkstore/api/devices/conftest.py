"""A real server whose devices train a model of 33 weights, on a real Redis that keeps nothing."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import httpx
import numpy as np
import pytest
import redis

from ptklib.draw_discard import Limits, Numeric, Specification
from ptkstore.adapters.processes import ForgetfulRedisServer
from ptkstore.api import device_counts
from ptkstore.domain.identity import Role
from ptkstore.domain.tickets import Ticket
from ptkstore.errors import UnknownName
from ptkstore.ports.devices import DevicePtk
from ptkstore.wiring.devices import Devices
from tests.support.api_server import Api

STREAM, PTK = "taxi", "taxi.phishy"
OCTETS = {"Content-Type": "application/octet-stream"}
COLUMNS = [*(f"x{i:05}" for i in range(32)), "y"]
ROWS = {name: [0.25, 1.0] for name in COLUMNS}
LIMITS = Limits(report_epsilon=3.5, reports_per_window=1, reports_in_all=8, columns=COLUMNS)


def specification(n_weights: int = 33, epsilon: float = 3.47) -> Specification:
    columns = [Numeric(f"x{i:05}", 0.0, 1.0) for i in range(n_weights - 1)]
    return Specification(features=columns, label=Numeric("y", 0.0, 1.0), epsilon=epsilon, k=5)


@dataclass
class Phones:
    """A store with a PTK that devices train, and what they ask for."""

    api: Api
    ptk: DevicePtk
    redis: Any
    gateway: httpx.Client
    device: httpx.Client

    @property
    def n_bytes(self) -> int:
        return 4 * self.ptk.specification.n_weights

    def tickets(self, count: int = 1) -> list[str]:
        asked = {"ptk": PTK, "count": count}
        reply = self.gateway.post(f"/v1/device-streams/{STREAM}/tickets", json=asked)
        assert reply.status_code == 201, reply.text
        tickets: list[str] = reply.json()["tickets"]
        return tickets

    def read(self, ticket: str) -> Ticket:
        found = self.api.world.service.devices.read_ticket(ticket)
        assert isinstance(found, Ticket)
        return found

    def specified(self, ticket: str) -> httpx.Response:
        return self.device.get("/v1/device/specification", headers=carrying(ticket))

    def draw(self, ticket: str) -> httpx.Response:
        return self.device.post("/v1/device/draw", headers=carrying(ticket))

    def put(self, ticket: str, report: bytes, **headers: str) -> httpx.Response:
        return self.device.post(
            "/v1/device/put", content=report, headers={**carrying(ticket), **OCTETS, **headers}
        )

    def drawn(self) -> tuple[str, bytes]:
        """A ticket that was drawn with, and what was drawn."""
        (ticket,) = self.tickets()
        reply = self.draw(ticket)
        assert reply.status_code == 200, reply.text
        return ticket, reply.content

    def counts(self) -> dict[str, int]:
        """What came of reports, for all processes."""
        (key,) = self.redis.keys("*:counts")
        found = {outcome.decode(): int(count) for outcome, count in self.redis.hgetall(key).items()}
        return {outcome: count for outcome, count in found.items() if outcome != "before"}

    def instances(self) -> dict[bytes, bytes]:
        (key,) = self.redis.keys("*:instances")
        found: dict[bytes, bytes] = self.redis.hgetall(key)
        return found

    def shown(self, monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str]]:
        """What this process has counted, by PTK and outcome, once the minute is over."""
        clock = time.monotonic() + 2 * device_counts.TICK_SECONDS
        tally = self.api.app.state.device_counts
        monkeypatch.setattr(tally, "_clock", lambda: clock)
        return Counter(tally.shown())

    def sent(self, head: str, body: bytes = b"", *, cut: bool = False) -> bytes:
        """What the server answers until it ends the connection; `cut` ends it from here, however little was sent."""
        with socket.create_connection(("127.0.0.1", self.api.port), timeout=30) as wire:
            wire.sendall(head.replace("\n", "\r\n").encode("latin-1") + body)
            if cut:
                wire.shutdown(socket.SHUT_WR)
            answer = b""
            while part := wire.recv(65536):
                answer += part
        return answer


def carrying(ticket: str) -> dict[str, str]:
    return {"Authorization": f"Ticket {ticket}"}


def step(drawn: bytes, by: int = 3) -> bytes:
    """An honest report: what was drawn, and a step."""
    return bytes((np.frombuffer(drawn, "<i4") + by).astype("<i4").tobytes())


@contextmanager
def phones_of(api: Api, **changes: Any) -> Iterator[Phones]:
    """The devices of a server that is not running yet; `changes` are of the PTK."""
    ends = datetime(2030, 1, 1, tzinfo=UTC)
    ptk = replace(DevicePtk(PTK, STREAM, specification(), 4, ends, 3.47, 1, 8), **changes)
    service = api.world.service
    with ForgetfulRedisServer(service.settings.root) as server:
        made = Phones(
            api,
            ptk,
            redis.Redis.from_url(server.client_url),
            api.acting(Role.DEVICE_GATEWAY),
            api.client(),
        )
        service.__dict__["devices"] = Devices(service, lambda ptk_id: read(made, ptk_id))
        yield made
        made.redis.close()


def read(phones: Phones, ptk_id: str) -> DevicePtk:
    if ptk_id != phones.ptk.ptk_id:
        raise UnknownName("PTK", ptk_id)
    return phones.ptk


@pytest.fixture
def phones(api: Api) -> Iterator[Phones]:
    with phones_of(api) as made:
        yield made
