"""Shares of gateways and tickets in what a process takes at once."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from ptkstore.api.devices.rates import (
    BYTES_AT_ONCE,
    BYTES_BESIDE,
    BYTES_OF_A_GATEWAY,
    TRIES_AT_ONCE,
    BodiesAtOnce,
    GatewayRates,
    TicketRates,
)
from ptkstore.domain.tickets import Ticket
from ptkstore.errors import TooManyRequests


def ticket(mark: int, gateway: bytes = b"gate") -> Ticket:
    return Ticket("team.model", "e", gateway, 60, mark.to_bytes(16, "big"))


def test_bodies_of_one_gateway_leave_room_for_others() -> None:
    bodies, large = BodiesAtOnce(), BYTES_OF_A_GATEWAY // 2 - BYTES_BESIDE
    with ExitStack() as held:
        for mark in range(2):
            held.enter_context(bodies.of(ticket(mark), large))
        with pytest.raises(TooManyRequests), bodies.of(ticket(2), large):
            pass
        with bodies.of(ticket(3, b"else"), large):
            pass
    with bodies.of(ticket(2), large):  # what has ended holds nothing
        pass


def test_bodies_of_all_have_a_limit() -> None:
    bodies, large = BodiesAtOnce(), BYTES_OF_A_GATEWAY // 2 - BYTES_BESIDE
    with ExitStack() as held:
        for mark in range(BYTES_AT_ONCE // large):
            held.enter_context(bodies.of(ticket(mark, b"%04d" % (mark // 2)), large))
        with pytest.raises(TooManyRequests), bodies.of(ticket(99, b"else"), large):
            pass


def test_small_bodies_count_for_more_than_their_bytes() -> None:
    bodies, taken = BodiesAtOnce(), 0
    with ExitStack() as held:
        with pytest.raises(TooManyRequests):
            while True:
                held.enter_context(bodies.of(ticket(taken), 16))
                taken += 1
        assert taken == BYTES_OF_A_GATEWAY // (16 + BYTES_BESIDE) == 255
        with bodies.of(ticket(taken, b"else"), 16):
            pass
    assert bodies._held == {}


def test_one_ticket_sends_two_bodies_at_once() -> None:
    bodies = BodiesAtOnce()
    with bodies.of(ticket(1), 100), bodies.of(ticket(1), 100):
        with pytest.raises(TooManyRequests), bodies.of(ticket(1), 100):
            pass
        with bodies.of(ticket(2), 100):
            pass


def test_a_ticket_comes_back_to_its_tries_and_is_no_other() -> None:
    now = [0.0]
    rates = TicketRates(lambda: now[0])
    for _ in range(int(TRIES_AT_ONCE)):
        rates.take(ticket(1))
    with pytest.raises(TooManyRequests) as caught:
        rates.take(ticket(1))
    assert caught.value.retry_after == 1
    rates.take(ticket(2))
    now[0] += 1.0
    rates.take(ticket(1))


def test_tickets_that_came_long_ago_are_forgotten() -> None:
    now = [0.0]
    rates = TicketRates(lambda: now[0])
    for mark in range(100_000):
        now[0] += 1e-3
        rates.take(ticket(mark))
    assert len(rates._buckets._left) < 40_000


def test_what_is_given_back_is_there_again_and_no_more() -> None:
    rates = GatewayRates(1.0, lambda: 0.0)
    for _ in range(3):
        rates.take(b"gate", "put")
        rates.give_back(b"gate", "put")
    rates.give_back(b"gate", "put")
    rates.take(b"gate", "put")
    rates.take(b"gate", "put")
    with pytest.raises(TooManyRequests):
        rates.take(b"gate", "put")
