"""Hostile devices and gateways: refused, counted, no effect on instances, and never a 5xx."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from ptkstore.adapters.devices import RedisReports
from ptkstore.api import connections
from ptkstore.api.devices import rates
from ptkstore.application.devices.served_models import ServedModel
from ptkstore.domain.identity import Role
from ptkstore.domain.tickets import Refusal
from tests.ptkstore.api.devices.conftest import OCTETS, Phones, carrying, phones_of, specification, step
from tests.support.api_server import Api, problem
from tests.support.waiting import until


def report(values: object) -> bytes:
    return np.broadcast_to(np.asarray(values), 33).astype("<i4").tobytes()


@pytest.mark.parametrize("by", [1, 3, 4 * 33])
def test_a_report_of_another_length_is_refused_and_the_ticket_stays_good(phones: Phones, by: int) -> None:
    ticket, drawn = phones.drawn()
    before = phones.instances()
    for wrong in (drawn[:-by], drawn + bytes(by)):
        assert problem(phones.put(ticket, wrong)) == (422, "report-refused")
    assert phones.instances() == before
    assert phones.put(ticket, step(drawn)).status_code == 204


@pytest.mark.parametrize("value", [-(2**31), 2**31 - 1, 2**30, -(2**30)])
@pytest.mark.parametrize("place", [0, 32])
def test_a_weight_out_of_range_is_refused_and_spends_the_ticket(
    phones: Phones, value: int, place: int
) -> None:
    """Spent: else one ticket could try where the range ends."""
    ticket, drawn = phones.drawn()
    before, values = phones.instances(), np.frombuffer(drawn, "<i4").copy()
    values[place] = value
    assert problem(phones.put(ticket, values.tobytes())) == (422, "report-refused")
    assert problem(phones.put(ticket, step(drawn))) == (409, "ticket-used")
    assert phones.instances() == before


def test_reports_are_counted_by_what_came_of_them(phones: Phones) -> None:
    ticket, drawn = phones.drawn()
    (undrawn,) = phones.tickets()
    assert phones.put(ticket, step(drawn)).status_code == 204
    assert phones.put(ticket, step(drawn)).status_code == 409
    assert phones.put(undrawn, drawn).status_code == 409
    assert phones.draw(ticket).status_code == 409  # no report
    assert phones.put("forged", drawn).status_code == 401  # of no PTK
    for wrong in (report(2**31 - 1), report(-(2**31)), b"short"):
        spent, _ = phones.drawn()
        assert phones.put(spent, wrong).status_code == 422
    expected = {"put": 1, "ticket-used": 1, "not-drawn": 1, "range": 2, "length": 1}
    until(lambda: phones.counts() == expected, seconds=10)


def test_a_report_of_an_epoch_that_is_over_counts_in_the_one_that_goes_on(phones: Phones) -> None:
    ticket, drawn = phones.drawn()
    phones.ptk = replace(phones.ptk, specification=specification(epsilon=2.0))
    (fresh,) = phones.tickets()
    phones.draw(fresh)
    assert problem(phones.put(ticket, step(drawn))) == (409, "epoch-over")
    until(lambda: phones.redis.keys("*:counts") and phones.counts() == {"epoch-over": 1}, seconds=10)


def test_refusals_of_every_test_read_alike(phones: Phones) -> None:
    told = set()
    for wrong in (report(2**31 - 1), b"short", b"x" * (4 * 34)):
        ticket, _ = phones.drawn()
        document = phones.put(ticket, wrong).json()
        del document["request_id"]
        told.add(str(document))
    assert len(told) == 1


def test_other_types_and_encodings_are_refused(phones: Phones) -> None:
    ticket, drawn = phones.drawn()
    for headers in (
        {"Content-Type": "application/json"},
        {"Content-Type": "text/plain"},
        {"Content-Encoding": "gzip"},
    ):
        assert problem(phones.put(ticket, drawn, **headers)) == (415, "unknown-format")
    assert phones.put(ticket, step(drawn)).status_code == 204


def test_a_draw_has_no_body(phones: Phones) -> None:
    (ticket,) = phones.tickets()
    reply = phones.device.post("/v1/device/draw", content=b"x", headers={**carrying(ticket), **OCTETS})
    assert problem(reply) == (413, "too-large")
    assert phones.draw(ticket).status_code == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_other_methods_are_refused(phones: Phones, method: str) -> None:
    reply = phones.device.request(method, "/v1/device/put")
    assert reply.status_code == 405
    assert reply.headers["allow"] == "POST"


def test_a_body_of_a_gigabyte_is_refused_before_a_byte_of_it_is_read(phones: Phones) -> None:
    ticket, _ = phones.drawn()
    before = phones.instances()
    for length in ("1073741824", "99999999999999999999", "1e9", "-1"):
        head = (
            f"POST /v1/device/put HTTP/1.1\nHost: x\nAuthorization: Ticket {ticket}\n"
            f"Content-Type: application/octet-stream\nContent-Length: {length}\n\n"
        )
        assert phones.sent(head).split(b" ", 2)[1] in (b"422", b"400"), length
    assert phones.instances() == before


def test_a_body_that_does_not_say_its_length_is_refused_unread(phones: Phones) -> None:
    ticket, _ = phones.drawn()
    head = (
        f"POST /v1/device/put HTTP/1.1\nHost: x\nAuthorization: Ticket {ticket}\n"
        "Content-Type: application/octet-stream\nTransfer-Encoding: chunked\n\n"
    )
    assert phones.sent(head).startswith(b"HTTP/1.1 422 ")


def test_a_body_that_ends_early_changes_nothing_and_spends_nothing(phones: Phones) -> None:
    ticket, drawn = phones.drawn()
    before = phones.instances()
    head = (
        f"POST /v1/device/put HTTP/1.1\r\nHost: x\r\nAuthorization: Ticket {ticket}\r\n"
        f"Content-Type: application/octet-stream\r\nContent-Length: {len(drawn)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", phones.api.port), timeout=30) as wire:
        wire.sendall(head.encode() + drawn[:50])
    assert phones.put(ticket, step(drawn)).status_code == 204
    after = phones.instances()
    assert sum(after[place] != before[place] for place in before) == 1


def test_a_head_that_never_ends_is_cut(phones: Phones, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_WITHIN_SECONDS", 0.3)
    half = b"POST /v1/device/draw HTTP/1.1\r\nHost: x\r\n"
    with socket.create_connection(("127.0.0.1", phones.api.port), timeout=60) as wire:
        wire.sendall(half)
        with suppress(ConnectionResetError):
            assert wire.recv(1) == b""
    with socket.create_connection(("127.0.0.1", phones.api.port), timeout=60) as wire:
        wire.sendall(half + b"Content-Length: 0\r\nAuthorization: Ticket x\r\n\r\n")
        assert wire.recv(65536).startswith(b"HTTP/1.1 401 ")


def test_a_head_that_is_too_long_is_cut(phones: Phones) -> None:
    with socket.create_connection(("127.0.0.1", phones.api.port), timeout=60) as wire:
        wire.sendall(b"POST /v1/device/draw HTTP/1.1\r\nHost: x\r\n")
        with suppress(OSError):
            for _ in range(10_000):
                wire.sendall(b"X-Padding: " + b"x" * 4000 + b"\r\n")
            raise AssertionError("40 MB of a head were taken")
    assert phones.drawn()


def test_two_lengths_or_a_length_beside_chunks_are_no_request(phones: Phones) -> None:
    ticket, drawn = phones.drawn()
    before = phones.instances()
    length = f"Content-Length: {len(drawn)}\n"
    for said in (length + "Content-Length: 0\n", length + "Transfer-Encoding: chunked\n"):
        head = (
            f"POST /v1/device/put HTTP/1.1\nHost: x\nAuthorization: Ticket {ticket}\n"
            f"Content-Type: application/octet-stream\n{said}\n"
        )
        assert phones.sent(head, drawn).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 422 "))
    assert phones.instances() == before


def test_other_requests_on_the_connection_of_a_device_are_served_as_elsewhere(phones: Phones) -> None:
    (ticket,) = phones.tickets()
    head = (
        f"POST /v1/device/draw HTTP/1.1\nHost: x\nAuthorization: Ticket {ticket}\nContent-Length: 0\n\n"
        "GET /v1/streams HTTP/1.1\nHost: x\nConnection: close\n\n"
    )
    answers = phones.sent(head)
    assert answers.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 401 Unauthorized" in answers


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Phones]:
    """Five of each kind a second for the tickets of one gateway."""
    with Api(tmp_path / "home", device_reports_per_second=5.0) as api:
        api.world.stream()
        with phones_of(api) as made:
            yield made


def test_a_flood_of_one_gateway_is_refused_counted_and_holds_up_no_other(
    slow: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets = slow.tickets(10)
    over = slow.gateway.post("/v1/device-streams/taxi/tickets", json={"ptk": "taxi.phishy", "count": 10})
    assert problem(over) == (429, "too-many-requests")
    assert int(over.headers["retry-after"]) >= 1
    slow.api.grant("mail", "taxi", Role.DEVICE_GATEWAY)
    devices = slow.api.world.service.devices
    tickets += devices.issue_tickets("taxi", "taxi.phishy", 40, gateway="taxi").tickets
    drawn = [slow.draw(ticket) for ticket in tickets]
    refused = [reply for reply in drawn if reply.status_code == 429]
    assert len(refused) >= 10
    assert {problem(reply) for reply in refused} == {(429, "too-many-requests")}
    slow.gateway = slow.api.acting(Role.DEVICE_GATEWAY, team="mail")
    assert slow.drawn()
    assert slow.shown(monkeypatch)["taxi.phishy", "too-many-requests"] == len(refused)


@pytest.mark.long
def test_of_ten_thousand_puts_of_one_gateway_its_limit_is_taken_nothing_is_lost_and_others_are_served(
    slow: Phones,
) -> None:
    service, rate, n_tickets = slow.api.world.service, 5.0, 10_000
    slow.tickets()
    tickets = [
        ticket
        for _ in range(n_tickets // 1_000)
        for ticket in service.devices.issue_tickets("taxi", "taxi.phishy", 1_000, gateway="taxi").tickets
    ]
    (epoch,) = {slow.read(ticket).epoch for ticket in tickets}

    async def draw_all() -> list[bytes]:
        """In another process, so to say: each has limits of its own."""
        reports = RedisReports(service.devices_redis_url)
        marks = [slow.read(ticket).mark for ticket in tickets]
        drawn = await asyncio.gather(*(reports.draw("taxi.phishy", epoch, 5, mark, 3_600) for mark in marks))
        reports.close()
        return [bytes(one) for one in drawn if not isinstance(one, Refusal)]

    drawn = asyncio.run(draw_all())

    def put(ticket: str, report: bytes) -> tuple[int, bool]:
        head = (
            f"POST /v1/device/put HTTP/1.1\nHost: x\nConnection: close\nAuthorization: Ticket {ticket}\n"
            f"Content-Type: application/octet-stream\nContent-Length: {len(report)}\n\n"
        )
        answer = slow.sent(head, report)
        return int(answer.split(b" ", 2)[1]), b"retry-after: " in answer.lower()

    slow.api.grant("mail", "taxi", Role.DEVICE_GATEWAY)
    of_mail = replace(slow, gateway=slow.api.acting(Role.DEVICE_GATEWAY, team="mail"))
    begun = time.monotonic()
    with ThreadPoolExecutor(8) as threads:
        replies = [threads.submit(put, ticket, step(one)) for ticket, one in zip(tickets, drawn, strict=True)]
        for _ in range(8):
            other, one = of_mail.drawn()
            assert of_mail.put(other, step(one)).status_code == 204
        assert not all(reply.done() for reply in replies)
        answers = Counter(reply.result() for reply in replies)
    seconds = time.monotonic() - begun
    assert set(answers) == {(204, False), (429, True)}
    assert 2 * rate <= answers[204, False] <= rate * (2 + seconds)
    until(lambda: slow.counts() == {"put": answers[204, False] + 8}, seconds=10)
    states = Counter(slow.redis.get(key) for key in slow.redis.keys("ptkd:ticket:*"))
    assert states == {b"put": answers[204, False] + 8, b"drawn": answers[429, True]}
    refused = next(one for one, reply in enumerate(replies) if reply.result()[0] == 429)
    until(lambda: put(tickets[refused], step(drawn[refused]))[0] == 204, seconds=60, pause=1.0)


def test_a_ticket_that_is_sent_again_and_again_is_refused_and_takes_nothing_of_others(slow: Phones) -> None:
    ticket, drawn = slow.drawn()
    assert slow.put(ticket, step(drawn)).status_code == 204
    codes = Counter(problem(slow.put(ticket, step(drawn))) for _ in range(40))
    codes.update(problem(slow.draw(ticket)) for _ in range(10))
    assert set(codes) == {(409, "ticket-used"), (429, "too-many-requests")}
    assert codes[409, "ticket-used"] >= 15
    other, drawn = slow.drawn()
    assert slow.put(other, step(drawn)).status_code == 204


def test_a_specification_is_read_so_often_with_one_ticket(phones: Phones) -> None:
    (ticket,) = phones.tickets()
    replies = [phones.specified(ticket) for _ in range(40)]
    assert [reply.status_code for reply in replies[:20]] == [200] * 20
    refused = [reply for reply in replies if reply.status_code != 200]
    assert len(refused) >= 10
    assert {problem(reply) for reply in refused} == {(429, "too-many-requests")}
    assert {reply.headers["retry-after"] for reply in refused} == {"1"}


def test_specifications_of_one_gateway_have_a_rate(slow: Phones) -> None:
    replies = [slow.specified(ticket) for ticket in slow.tickets(10) for _ in range(4)]
    assert (429, "too-many-requests") in {problem(reply) for reply in replies if reply.status_code != 200}


@pytest.mark.parametrize("spent", [True, False])
def test_a_body_with_a_ticket_that_may_not_put_is_not_waited_for(phones: Phones, spent: bool) -> None:
    (ticket,), drawn = phones.tickets(), bytes(phones.n_bytes)
    if spent:
        ticket, drawn = phones.drawn()
        assert phones.put(ticket, step(drawn)).status_code == 204
    head = (
        f"POST /v1/device/put HTTP/1.1\nHost: x\nAuthorization: Ticket {ticket}\n"
        f"Content-Type: application/octet-stream\nContent-Length: {len(drawn)}\n\n"
    )
    assert phones.sent(head, drawn[:50]).startswith(b"HTTP/1.1 409 ")


def test_a_report_with_a_spent_ticket_is_not_examined(
    phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticket, drawn = phones.drawn()
    assert phones.put(ticket, step(drawn)).status_code == 204
    examined: list[bytes] = []
    monkeypatch.setattr(ServedModel, "failed_test", lambda _, one, **more: examined.append(one))
    assert problem(phones.put(ticket, report(2**31 - 1))) == (409, "ticket-used")
    assert not examined


def test_older_ranges_are_looked_at_beside_what_others_ask(
    phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes 90 ms at 50,000 weights: on the event loop it would hold up everybody."""
    looked: list[bool] = []
    test = ServedModel.failed_test

    def noted(model: ServedModel, one: bytes, *, older: bool = True) -> object:
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            looked.append(older)
        return test(model, one, older=older)

    monkeypatch.setattr(ServedModel, "failed_test", noted)
    for by in (3, 2**30):
        ticket, drawn = phones.drawn()
        assert phones.put(ticket, step(drawn, by)).status_code in (204, 422)
    assert looked == [False, False]


def test_reports_that_wait_for_older_ranges_are_counted_and_one_more_costs_no_ticket(
    phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, test = Event(), ServedModel.failed_test

    def waits(model: ServedModel, one: bytes, *, older: bool = True) -> object:
        assert not older or goes_on.wait(60)
        return test(model, one, older=older)

    def spent() -> int:
        return [phones.redis.get(key) for key in phones.redis.keys("ptkd:ticket:*")].count(b"put")

    monkeypatch.setattr(ServedModel, "failed_test", waits)
    monkeypatch.setattr(rates, "BYTES_OF_A_GATEWAY", 2 * (phones.n_bytes + rates.BYTES_BESIDE))
    honest, *waiting = (phones.drawn() for _ in range(3))
    before = phones.instances()
    with ThreadPoolExecutor(2) as threads:
        try:
            replies = [threads.submit(phones.put, ticket, step(drawn, 2**30)) for ticket, drawn in waiting]
            until(lambda: spent() == 2, seconds=30)
            full = phones.put(honest[0], step(honest[1]))
            assert problem(full) == (429, "too-many-requests")
            assert int(full.headers["retry-after"]) >= 1
            assert spent() == 2
        finally:
            goes_on.set()
        assert [problem(one.result()) for one in replies] == [(422, "report-refused")] * 2
    assert phones.instances() == before
    assert phones.put(honest[0], step(honest[1])).status_code == 204


def test_late_reports_of_gateways_are_examined_in_turns(
    phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One gateway sends much that only older ranges may admit; the one report of another waits for one of it."""
    goes_on, test, looked = Event(), ServedModel.failed_test, list[bytes]()

    def noted(model: ServedModel, one: bytes, *, older: bool = True) -> object:
        if older:
            looked.append(one)
            assert goes_on.wait(60)
        return test(model, one, older=older)

    def spent() -> int:
        return [phones.redis.get(key) for key in phones.redis.keys("ptkd:ticket:*")].count(b"put")

    phones.api.grant("fleet", phones.ptk.stream, Role.DEVICE_GATEWAY)
    drawn = [phones.drawn() for _ in range(4)]
    phones.gateway = phones.api.client(phones.api.token(Role.DEVICE_GATEWAY, team="fleet"))
    drawn.append(phones.drawn())
    monkeypatch.setattr(ServedModel, "failed_test", noted)
    sent = [step(one, 2**30 + place) for place, (_, one) in enumerate(drawn)]
    with ThreadPoolExecutor(5) as threads:
        try:
            replies = []
            for place, (ticket, _) in enumerate(drawn):
                replies.append(threads.submit(phones.put, ticket, sent[place]))
                until(lambda place=place: spent() == place + 1, seconds=30)  # type: ignore[misc]
        finally:
            goes_on.set()
        assert [problem(one.result()) for one in replies] == [(422, "report-refused")] * 5
    assert [sent.index(one) for one in looked] == [0, 1, 4, 2, 3]


@pytest.mark.parametrize("days", [365, -365])
def test_a_clock_a_year_off_takes_no_ticket_and_changes_nothing(
    phones: Phones, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticket, drawn = phones.drawn()
    before, clock = phones.instances(), phones.api.world.service.clock
    off = clock.now() + timedelta(days=days)
    monkeypatch.setattr(type(clock), "now", lambda _: off)
    for reply in (phones.specified(ticket), phones.draw(ticket), phones.put(ticket, step(drawn))):
        assert problem(reply) == (401, "ticket-expired")
    monkeypatch.undo()
    assert phones.instances() == before
    assert phones.put(ticket, step(drawn)).status_code == 204


def test_what_is_refused_is_counted_by_reason_in_steps_of_a_minute(
    phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticket, drawn = phones.drawn()
    phones.put(ticket, b"short")
    phones.put(ticket, report(2**31 - 1))
    phones.put(ticket, step(drawn))
    phones.draw("forged")
    assert Counter(phones.api.app.state.device_counts.shown()) == Counter()
    assert phones.shown(monkeypatch) == {
        ("taxi.phishy", "drawn"): 1,
        ("taxi.phishy", "length"): 1,
        ("taxi.phishy", "range"): 1,
        ("taxi.phishy", "ticket-used"): 1,
        ("unknown", "ticket-forged"): 1,
    }
    text = phones.api.app.state.metrics.text().decode()
    assert 'ptk_device_requests_total{outcome="range",ptk="taxi.phishy"} 1.0' in text


def test_an_error_that_nobody_foresaw_says_nothing(phones: Phones, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket, _ = phones.drawn()

    def broken(*_: object) -> None:
        raise ZeroDivisionError(f"with {ticket}")

    monkeypatch.setattr(phones.api.world.service.devices, "read_ticket", broken)
    reply = phones.draw(ticket)
    assert problem(reply) == (500, "internal-error")
    assert ticket not in reply.text
