"""Tickets, draws and puts over HTTP, as devices and their gateway ask for them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from ptkstore.domain.identity import STREAM_ROLES, Role
from ptkstore.domain.tickets import LIFE
from tests.ptkstore.api.devices.conftest import PTK, STREAM, Phones, specification, step
from tests.support.api_server import problem
from tests.support.waiting import until


def test_a_device_draws_takes_a_step_and_puts_it_back(phones: Phones) -> None:
    (ticket,) = phones.tickets()
    told = phones.specified(ticket).json()
    assert told["digest"] == phones.ptk.specification.digest
    assert told["specification"] == phones.ptk.specification.text
    assert (told["stream"], told["ptk"]) == (STREAM, PTK)
    assert told["window"] == {"number": 4, "ends": "2030-01-01T00:00:00+00:00"}
    assert told["limits"] == {"report_epsilon": 3.47, "reports_per_window": 1, "reports_in_all": 8}
    before = phones.instances()
    drawn = phones.draw(ticket)
    assert drawn.status_code == 200
    assert drawn.headers["ptk-specification"] == phones.ptk.specification.digest
    assert drawn.headers["content-type"] == "application/octet-stream"
    assert drawn.headers["cache-control"] == "no-store"
    assert drawn.content in before.values()
    put = phones.put(ticket, step(drawn.content))
    assert (put.status_code, put.content) == (204, b"")
    after = phones.instances()
    (changed,) = [place for place in after if after[place] != before[place]]
    assert after[changed] == step(drawn.content)
    assert phones.specified(ticket).status_code == 200  # uses nothing up


def test_a_ticket_is_for_one_draw_and_one_put(phones: Phones) -> None:
    ticket, drawn = phones.drawn()
    assert problem(phones.draw(ticket)) == (409, "ticket-used")
    assert phones.put(ticket, step(drawn)).status_code == 204
    after = phones.instances()
    assert problem(phones.put(ticket, step(drawn, 5))) == (409, "ticket-used")
    assert problem(phones.draw(ticket)) == (409, "ticket-used")
    assert phones.instances() == after


def test_a_spent_ticket_is_remembered_until_no_clock_takes_it(phones: Phones) -> None:
    ticket, drawn = phones.drawn()
    least = phones.read(ticket).seconds_left + LIFE.total_seconds() - 60  # less what the test takes
    (key,) = phones.redis.keys("ptkd:ticket:*")
    assert phones.redis.ttl(key) >= least
    assert phones.put(ticket, step(drawn)).status_code == 204
    assert phones.redis.ttl(key) >= least


def test_replays_at_once_count_once(phones: Phones) -> None:
    ticket, drawn = phones.drawn()
    before = phones.instances()
    with ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(lambda by: phones.put(ticket, step(drawn, by)), range(1, 17)))
    codes = [reply.status_code for reply in replies]
    assert codes.count(204) == 1
    assert set(codes) <= {204, 409, 429}  # 429: two of one ticket are held at once
    after = phones.instances()
    assert sum(after[place] != before[place] for place in before) == 1


def test_nothing_is_put_without_a_draw(phones: Phones) -> None:
    (ticket,) = phones.tickets()
    phones.drawn()
    before = phones.instances()
    assert problem(phones.put(ticket, next(iter(before.values())))) == (409, "not-drawn")
    assert phones.instances() == before
    assert phones.draw(ticket).status_code == 200  # the ticket is as good as it was


@pytest.mark.parametrize("ticket", ["x", "A" * 100, "A" * 400, "A" * 5000, "!", "Bearer"])
def test_what_is_no_ticket_is_refused(phones: Phones, ticket: str) -> None:
    for reply in (phones.specified(ticket), phones.draw(ticket), phones.put(ticket, b"")):
        assert problem(reply) == (401, "ticket-forged")
        assert reply.headers["www-authenticate"].startswith("Ticket ")


def test_no_ticket_is_as_a_forged_one_and_a_token_is_none(phones: Phones) -> None:
    assert problem(phones.device.post("/v1/device/draw")) == (401, "ticket-forged")
    assert problem(phones.gateway.post("/v1/device/draw")) == (401, "ticket-forged")


def test_a_changed_specification_ends_the_epoch_and_its_tickets(phones: Phones) -> None:
    ticket, drawn = phones.drawn()
    (unused,) = phones.tickets()
    phones.ptk = replace(phones.ptk, specification=specification(epsilon=2.0))
    (fresh,) = phones.tickets()
    assert phones.draw(fresh).headers["ptk-specification"] == phones.ptk.specification.digest
    before = phones.instances()
    for reply in (phones.put(ticket, step(drawn)), phones.draw(unused), phones.specified(unused)):
        assert problem(reply) == (409, "epoch-over")
    assert phones.instances() == before


def test_a_change_is_noticed_without_a_new_ticket(phones: Phones) -> None:
    ticket, _ = phones.drawn()
    phones.ptk = replace(phones.ptk, specification=specification(epsilon=2.0))
    until(lambda: phones.specified(ticket).status_code == 409, seconds=30, pause=1.0)


def test_a_redis_that_lost_everything_begins_an_epoch_and_refuses_older_tickets(phones: Phones) -> None:
    ticket, drawn = phones.drawn()
    phones.redis.flushall()
    assert problem(phones.put(ticket, step(drawn))) == (409, "epoch-over")
    (fresh,) = phones.tickets()
    assert phones.draw(fresh).status_code == 200
    assert problem(phones.draw(ticket)) == (409, "epoch-over")
    assert len(phones.instances()) == 5


def test_a_ptk_that_is_withdrawn_serves_nobody(phones: Phones) -> None:
    ticket, drawn = phones.drawn()
    phones.ptk = replace(phones.ptk, ptk_id="taxi.other")
    until(lambda: phones.specified(ticket).status_code == 409, seconds=30, pause=1.0)
    assert problem(phones.put(ticket, step(drawn))) == (409, "epoch-over")


def test_tickets_are_for_gateways_of_the_stream_alone(phones: Phones) -> None:
    path, body = f"/v1/device-streams/{STREAM}/tickets", {"ptk": PTK, "count": 1}
    others = set(Role) - {Role.DEVICE_GATEWAY}
    assert problem(phones.api.acting(*others).post(path, json=body)) == (403, "not-allowed")
    stranger = phones.api.acting(*STREAM_ROLES, team="strangers")
    assert problem(stranger.post(path, json=body)) == (404, "unknown-name")
    phones.api.grant("mail", STREAM, Role.DEVICE_GATEWAY)
    granted = phones.api.acting(Role.DEVICE_GATEWAY, team="mail")
    assert granted.post(path, json=body).status_code == 201
    assert problem(phones.gateway.post(path, json={**body, "ptk": "taxi.none"})) == (404, "unknown-name")
    assert problem(phones.gateway.get("/v1/streams")) == (403, "not-allowed")
    assert problem(phones.gateway.get(f"/v1/streams/{STREAM}")) == (403, "not-allowed")
    assert problem(phones.gateway.get("/v1/ptks")) == (403, "not-allowed")


@pytest.mark.parametrize("count", [0, -1, 1001, 1.5, "1", None])
def test_so_many_tickets_are_refused(phones: Phones, count: object) -> None:
    body = {"ptk": PTK, "count": count}
    reply = phones.gateway.post(f"/v1/device-streams/{STREAM}/tickets", json=body)
    assert problem(reply) == (422, "invalid-request")


def test_a_batch_has_as_many_tickets_as_were_asked_for_and_no_two_are_alike(phones: Phones) -> None:
    tickets = phones.tickets(1000)
    assert len(set(tickets)) == 1000


def test_the_trail_has_the_batch_and_no_ticket(phones: Phones) -> None:
    tickets = phones.tickets(3)
    lines = [str(entry) for entry in phones.api.identity.audit_log(limit=1000)]
    assert sum("ticket.issue" in line for line in lines) == 1
    assert not any(ticket in line for ticket in tickets for line in lines)


def test_reports_of_many_devices_are_all_taken(phones: Phones) -> None:
    tickets = phones.tickets(200)

    def reported(ticket: str) -> int:
        drawn = phones.draw(ticket).content
        return phones.put(ticket, step(drawn)).status_code

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(reported, tickets)) == [204] * 200
    values = np.array([np.frombuffer(one, "<i4") for one in phones.instances().values()])
    assert values.shape == (5, 33)


def test_a_redis_that_is_away_is_told_and_comes_back(phones: Phones) -> None:
    (ticket,) = phones.tickets()
    assert phones.draw(ticket).status_code == 200
    phones.redis.config_set("maxmemory", 1)
    (other,) = phones.tickets()
    assert problem(phones.draw(other)) == (503, "unavailable")
    phones.redis.config_set("maxmemory", 0)
    assert phones.draw(other).status_code == 200


def test_a_redis_that_may_keep_what_devices_send_is_given_no_instances(phones: Phones) -> None:
    phones.redis.config_set("appendonly", "yes")
    asked = {"ptk": PTK, "count": 1}
    reply = phones.gateway.post(f"/v1/device-streams/{STREAM}/tickets", json=asked)
    assert problem(reply) == (503, "unavailable")
    assert "appendonly" not in reply.text
    assert phones.redis.keys("*") == []


def test_a_redis_that_came_to_keep_what_devices_send_is_served_no_more(phones: Phones) -> None:
    (ticket,) = phones.tickets()
    phones.redis.config_set("appendonly", "yes")
    try:
        assert problem(phones.draw(ticket)) == (503, "unavailable")
    finally:
        phones.redis.config_set("appendonly", "no")
    time.sleep(0.2)
    assert phones.draw(ticket).status_code == 200
