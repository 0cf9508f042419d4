"""Hostile calls, drawn by the thousand: refused, counted, no effect on instances, and never a 5xx."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptkstore.api.device_counts import UNKNOWN, Counted
from ptkstore.domain.tickets import expiry_of, write_ticket
from tests.ptkstore.api.devices.conftest import PTK, Phones, phones_of, specification, step
from tests.support.api_server import Api
from tests.support.waiting import until

QUICK, LONG = 200, 10_000
BATCH = 100
USES = 8
"""Of one ticket, so that none is refused for being sent too often."""

OTHER_TYPES = (
    "application/json",
    "text/plain",
    "",
    "application/octet-stream; charset=x",
    "multipart/form-data",
)
OTHER_METHODS = ("GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW")
ROUTES = {"specification": "GET", "draw": "POST", "put": "POST"}
NO_TICKETS = (
    "",
    "Ticket",
    "Ticket ",
    "Bearer ",
    "Basic dXNlcjpwdw==",
    "Ticket {} {}",
    "ticket\t{}",
    "Ticket ={}",
)
NO_PATHS = ("put/", "/put", "none", "put/../draw", "%00", "%ff%fe", "put;x", "." * 3000)
NO_LENGTHS = ("1e9", "-1", "+5", "0x84", "1 32", "132, 132", "\xb2", "9" * 40)
NOT_COUNTED: Mapping[int, Counted | None] = dict.fromkeys((0, 400, 404, 405))
FORGED = (UNKNOWN, "ticket-forged")
NO_REQUESTS = (
    "POST /v1/device/put HTTP/9.9\n\n",
    "POST /v1/device/put\n\n",
    "POST /v1/device/put HTTP/1.1\nHost: x\nContent-Length: 132\nContent-Length: 0\n\n",
    "POST /v1/device/put HTTP/1.1\nHost: x\nContent-Length: 0\nTransfer-Encoding: chunked\n\n",
    "POST /v1/device/draw HTTP/1.1\nHost x\n\n",
    "POST \xff\xfe HTTP/1.1\n\n",
    "GET\n\n",
)
ENDED_EARLY = (
    "POST /v1/device/draw HTTP/1.1\nHost: x\nAuthor",
    "PO",
    "\n\n\n",
    "\x16\x03\x01\x02\x00\x01",
    "PRI * HTTP/2.0\n\nSM\n\n",
)


@dataclass(frozen=True)
class Call:
    """One that is refused: what is sent, and what is counted for each status that may be answered (0: no answer)."""

    head: str
    body: bytes
    counted: Mapping[int, Counted | None]
    is_report: bool = False
    cut: bool = False


class Hostile:
    """Draws calls; every one of them has to be refused."""

    def __init__(self, phones: Phones, rng: np.random.Generator, stale: list[str]) -> None:
        self._phones, self._rng, self._stale = phones, rng, stale
        self._pools: dict[Callable[[], str], tuple[str, int]] = {}
        self.expected: Counter[tuple[str, str]] = Counter()
        self.expected_reports: Counter[str] = Counter()
        self._epoch = phones.read(self._fresh()).epoch
        self._key = phones.api.world.service.keys.ticket_key()

    def draw(self) -> Call:
        """Draw one call."""
        kinds = [
            self._length, self._giant, self._bad_length, self._type, self._nan, self._range, self._octets,
            self._replay, self._drawn_again, self._stale_epoch, self._forged, self._no_ticket, self._not_drawn,
            self._clock, self._method, self._draw_with_body, self._ends_early, self._no_request, self._no_path,
        ]  # fmt: skip
        call: Call = self._of(kinds)()
        return call

    def answered(self, call: Call, status: int) -> None:
        """Expect that the call is counted."""
        counted = call.counted[status]
        if counted is not None:
            self.expected[counted] += 1
            if call.is_report and counted[0] == PTK:
                self.expected_reports[counted[1]] += 1

    def honest(self) -> None:
        """A device among them is served as if they were not."""
        _, put = self._taken()
        assert put in self._phones.instances().values()

    # What is wrong with a report.

    def _length(self) -> Call:
        n = self._phones.n_bytes
        nan = np.full(33, np.nan)
        bodies = (
            b"", b"NaN", b"null", nan.astype("<f2").tobytes(), nan.tobytes(), bytes(n - 1), bytes(n + 1), bytes(n - 4),
            bytes(2 * n), self._rng.bytes(int(self._rng.integers(n + 1, 4096))),
        )  # fmt: skip
        return self._put(self._ticket(self._drawn), self._of(bodies), 422, "length")

    def _giant(self) -> Call:
        length = str(int(self._rng.integers(2**30, 2**62)))
        return self._put(self._ticket(self._drawn), b"", 422, "length", length=length)

    def _bad_length(self) -> Call:
        call = self._put(self._ticket(self._drawn), b"", 422, "length", length=self._of(NO_LENGTHS))
        return replace(call, counted={**call.counted, 400: None})

    def _type(self) -> Call:
        more = f"Content-Type: {self._of(OTHER_TYPES)}\n"
        if self._rng.random() < 0.3:
            more = (
                f"Content-Type: application/octet-stream\nContent-Encoding: {self._of(('gzip', 'br', 'x'))}\n"
            )
        call = self._put(self._ticket(self._drawn), self._report(), 415, "format", more=more)
        return replace(call, counted={415: (UNKNOWN, "format")})

    def _nan(self) -> Call:
        floats = np.frombuffer(self._report(), "<f4").copy()
        floats[self._rng.integers(33)] = self._of((np.nan, np.inf))
        return self._put(self._drawn(), floats.tobytes(), 422, "range")

    def _range(self) -> Call:
        values = np.frombuffer(self._report(), "<i4").copy()
        values[self._rng.integers(33, size=int(self._rng.integers(1, 33)))] = self._of((-1, 1)) * (
            self._of((2**31 - 1, 2**30, int(self._rng.integers(2**30, 2**31))))
        )
        return self._put(self._drawn(), values.astype("<i4").tobytes(), 422, "range")

    def _octets(self) -> Call:
        return self._put(self._drawn(), self._rng.bytes(self._phones.n_bytes), 422, "range")

    # What is wrong with a ticket.

    def _replay(self) -> Call:
        ticket = self._ticket(self._spent)
        if self._rng.random() < 0.5:
            return self._asked("draw", ticket, 409, "ticket-used")
        return self._put(ticket, self._report(), 409, "ticket-used")

    def _drawn_again(self) -> Call:
        return self._asked("draw", self._ticket(self._drawn), 409, "ticket-used")

    def _not_drawn(self) -> Call:
        return self._put(self._ticket(self._fresh), self._report(), 409, "not-drawn")

    def _stale_epoch(self) -> Call:
        ticket = self._ticket(self._stale.pop)
        route = self._of(tuple(ROUTES))
        if route == "put":
            return self._put(ticket, self._report(), 409, "epoch-over")
        return self._asked(route, ticket, 409, "epoch-over")

    def _forged(self) -> Call:
        ticket = self._ticket(self._fresh)
        octets = bytearray(urlsafe_b64decode(ticket + "=" * (-len(ticket) % 4)))
        octets[self._rng.integers(len(octets))] ^= 1 << int(self._rng.integers(8))
        made = self._of(
            (
                urlsafe_b64encode(octets).rstrip(b"=").decode(),
                ticket[: int(self._rng.integers(1, len(ticket)))],
                ticket + "A" * int(self._rng.integers(1, 400)),
                urlsafe_b64encode(self._rng.bytes(int(self._rng.integers(1, 300)))).decode().rstrip("="),
                self._ticket_by(secrets.token_bytes(32)),
            )
        )
        return self._anywhere(made, "ticket-forged")

    def _no_ticket(self) -> Call:
        said = self._of((*NO_TICKETS, self._rng.bytes(30).translate(None, b"\r\n\0").decode("latin-1")))
        ticket = self._ticket(self._fresh)
        call = self._anywhere("", "ticket-forged")
        head = call.head.replace("Authorization: Ticket \n", f"Authorization: {said.replace('{}', ticket)}\n")
        return replace(call, head=head, counted={**call.counted, 400: None})

    def _clock(self) -> Call:
        off = timedelta(days=int(self._of((-1, 1)) * self._rng.integers(1, 366)))
        return self._anywhere(self._ticket_by(self._key, off), "ticket-expired")

    # What is wrong with a request.

    def _method(self) -> Call:
        route, method = self._of(tuple(ROUTES)), self._of(OTHER_METHODS)
        if method == ROUTES[route]:
            method = "PUT"
        call = self._asked(route, self._ticket(self._fresh), 405, "method", method=method)
        return replace(call, counted={405: (UNKNOWN, "method")})

    def _draw_with_body(self) -> Call:
        return self._asked("draw", self._ticket(self._fresh), 413, "length", body=self._report())

    def _ends_early(self) -> Call:
        report = self._report()
        ends, length = int(self._rng.integers(1, len(report))), str(len(report))
        call = self._put(self._ticket(self._drawn), report[:ends], 0, "early", length=length)
        return replace(call, cut=True)

    def _no_request(self) -> Call:
        if self._rng.random() < 0.5:
            return Call(self._of(NO_REQUESTS), b"", {**NOT_COUNTED, 401: FORGED})
        head = self._of((*ENDED_EARLY, self._rng.bytes(200).decode("latin-1")))
        return Call(head, b"", NOT_COUNTED, cut=True)

    def _no_path(self) -> Call:
        call = self._put(self._ticket(self._drawn), self._report(), 404, "")
        head = call.head.replace("/device/put", "/device/" + self._of(NO_PATHS))
        return replace(call, head=head, counted=NOT_COUNTED)

    # How they are sent.

    def _anywhere(self, ticket: str, outcome: str) -> Call:
        route = self._of(tuple(ROUTES))
        body = self._report() if route == "put" else b""
        call = self._asked(route, ticket, 401, outcome, body=body)
        return replace(call, counted={401: (UNKNOWN, outcome)})

    def _put(self, ticket: str, body: bytes, status: int, outcome: str, **more: Any) -> Call:
        return replace(self._asked("put", ticket, status, outcome, body=body, **more), is_report=True)

    def _asked(
        self,
        route: str,
        ticket: str,
        status: int,
        outcome: str,
        *,
        body: bytes = b"",
        length: str = "",
        more: str = "Content-Type: application/octet-stream\n",
        method: str = "",
    ) -> Call:
        head = (
            f"{method or ROUTES[route]} /v1/device/{route} HTTP/1.1\nHost: x\nConnection: close\n"
            f"Authorization: Ticket {ticket}\n{more}Content-Length: {length or len(body)}\n\n"
        )
        return Call(head, body, {status: (PTK, outcome)})

    def _of(self, choices: Any) -> Any:
        return choices[self._rng.integers(len(choices))]

    # Tickets, and reports that would be taken.

    def _report(self) -> bytes:
        """One that differs from every report that is taken."""
        return step(self._of(tuple(self._phones.instances().values())), int(self._rng.integers(5, 100)))

    def _ticket(self, make: Callable[[], str]) -> str:
        """A ticket that is as good afterwards as it was."""
        ticket, left = self._pools.get(make, ("", 0))
        if not left:
            ticket, left = make(), USES
        self._pools[make] = ticket, left - 1
        return ticket

    def _fresh(self) -> str:
        return self._phones.tickets()[0]

    def _drawn(self) -> str:
        self.expected[PTK, "drawn"] += 1
        return self._phones.drawn()[0]

    def _spent(self) -> str:
        return self._taken()[0]

    def _taken(self) -> tuple[str, bytes]:
        ticket, drawn = self._phones.drawn()
        assert self._phones.put(ticket, step(drawn)).status_code == 204
        self.expected.update([(PTK, "drawn"), (PTK, "put")])
        self.expected_reports["put"] += 1
        return ticket, step(drawn)

    def _ticket_by(self, key: bytes, off: timedelta = timedelta()) -> str:
        now = self._phones.api.world.service.clock.now() + off
        return write_ticket(key, PTK, self._epoch, "taxi", expiry_of(now), secrets.token_bytes(16))


@contextmanager
def after_a_change(home: Path) -> Iterator[tuple[Phones, list[str]]]:
    """Phones of a model that was changed, and tickets of before."""
    with Api(home, device_reports_per_second=0.0) as api:
        api.world.stream()
        with phones_of(api) as phones:
            phones.drawn()
            stale = phones.tickets(1000)
            phones.ptk = replace(phones.ptk, specification=specification(epsilon=2.0))
            phones.drawn()
            yield phones, stale


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


@pytest.mark.parametrize("n_calls", [QUICK, pytest.param(LONG, marks=pytest.mark.long)])
def test_drawn_calls_are_refused_and_counted_and_change_no_instance(
    n_calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with after_a_change(tmp_path / "home") as (phones, stale):
        hostile = Hostile(phones, np.random.default_rng(n_calls), stale)
        hostile.expected[PTK, "drawn"] += 2
        answered: Counter[int] = Counter()
        for _ in range(n_calls // BATCH):
            calls = [hostile.draw() for _ in range(BATCH)]
            before = phones.instances()
            for call in calls:
                answer = phones.sent(call.head, call.body, cut=call.cut)
                status = status_of(answer)
                assert status in call.counted, (call, answer)
                hostile.answered(call, status)
                answered[status] += 1
            assert phones.instances() == before
            hostile.honest()
        assert answered.total() == n_calls
        until(lambda: phones.counts() == hostile.expected_reports, seconds=10)
        assert phones.shown(monkeypatch) == hostile.expected
