"""Tickets: made here, for a while, for one epoch of one PTK, and alike but for their number."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.tickets import (
    COUNT_MAX,
    LIFE,
    TICK,
    Refusal,
    Ticket,
    checked_count,
    expiry_of,
    read_ticket,
    write_ticket,
)
from ptkstore.errors import InvalidRequest

KEY, OTHER = bytes(range(32)), bytes(32)
NOW = datetime(2026, 3, 1, 12, 3, 7, tzinfo=UTC)
EPOCH, PTK = "0123456789abcdef", "team.model"
ONE = bytes(range(16))


def ticket(**changes: object) -> str:
    said = {"ptk_id": PTK, "epoch": EPOCH, "gateway": "app", "expires": expiry_of(NOW), "random_id": ONE}
    return write_ticket(KEY, **{**said, **changes})  # type: ignore[arg-type]


def read(text: str, now: datetime = NOW, key: bytes = KEY) -> Ticket:
    found = read_ticket(key, text, now)
    assert isinstance(found, Ticket), found
    return found


def octets_of(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def text_of(octets: bytes) -> str:
    return urlsafe_b64encode(octets).rstrip(b"=").decode()


def test_a_ticket_says_what_it_is_for() -> None:
    found = read(ticket())
    assert (found.ptk_id, found.epoch) == (PTK, EPOCH)
    assert len(found.mark) == 16
    assert found.seconds_left == (expiry_of(NOW) - NOW).total_seconds()


def test_the_longest_names_fit() -> None:
    longest = f"{'t' * 63}.{'p' * 63}"
    assert read(ticket(ptk_id=longest)).ptk_id == longest


@given(st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1)))
def test_an_expiry_is_a_tick_and_a_life_or_a_tick_more_ahead(when: datetime) -> None:
    now = when.replace(tzinfo=UTC)
    expires = expiry_of(now)
    assert expires.timestamp() % TICK.total_seconds() == 0
    assert LIFE <= expires - now < LIFE + TICK


def test_tickets_of_a_tick_differ_by_their_random_ids_alone() -> None:
    later = NOW + timedelta(seconds=200)
    first, second = octets_of(ticket()), octets_of(ticket(expires=expiry_of(later)))
    assert first == second


def test_a_ticket_expires() -> None:
    last = expiry_of(NOW)
    read(ticket(), last - timedelta(seconds=1))
    assert read_ticket(KEY, ticket(), last) is Refusal.EXPIRED


@pytest.mark.parametrize("years", [1, -1])
def test_a_clock_a_year_off_takes_no_ticket(years: int) -> None:
    off = NOW + timedelta(days=365 * years)
    assert read_ticket(KEY, ticket(), off) is Refusal.EXPIRED
    assert read_ticket(KEY, ticket(expires=expiry_of(off)), NOW) is Refusal.EXPIRED


def test_a_clock_that_is_behind_takes_no_spent_ticket_again() -> None:
    """It takes one for as long as it is remembered where the clock was right, and no longer."""
    spent = NOW + timedelta(seconds=10)
    remembered_until = spent + timedelta(seconds=read(ticket(), spent).seconds_remembered)
    for behind in (timedelta(minutes=1), timedelta(minutes=59), LIFE):
        last_taken = max(
            (
                NOW + timedelta(minutes=m)
                for m in range(300)
                if isinstance(read_ticket(KEY, ticket(), NOW + timedelta(minutes=m) - behind), Ticket)
            ),
            default=NOW,
        )
        assert last_taken <= remembered_until


def test_no_changed_bit_is_taken() -> None:
    octets = octets_of(ticket())
    for place in range(len(octets)):
        for bit in range(8):
            changed = bytearray(octets)
            changed[place] ^= 1 << bit
            assert read_ticket(KEY, text_of(bytes(changed)), NOW) is Refusal.FORGED


def test_a_ticket_of_another_key_is_forged() -> None:
    assert read_ticket(OTHER, ticket(), NOW) is Refusal.FORGED


@given(st.text(max_size=500) | st.binary(max_size=300).map(text_of))
def test_what_is_no_ticket_is_forged(text: str) -> None:
    assert read_ticket(KEY, text, NOW) is Refusal.FORGED


def test_another_spelling_of_a_ticket_is_the_same_ticket() -> None:
    text = ticket()
    assert read(text + "=" * (-len(text) % 4)).mark == read(text).mark


def test_the_mark_does_not_follow_from_the_ticket_without_the_key() -> None:
    mark = read(ticket()).mark
    assert mark not in octets_of(ticket())
    assert read(ticket(random_id=bytes(16))).mark != mark
    assert mark.hex() not in repr(read(ticket()))


def test_tickets_of_one_gateway_are_alike_in_four_bytes_that_say_no_name() -> None:
    one, same = read(ticket()), read(ticket(random_id=bytes(16)))
    assert one.gateway == same.gateway != read(ticket(gateway="other")).gateway
    assert b"app" not in octets_of(ticket())


@pytest.mark.parametrize("count", [0, -1, COUNT_MAX + 1, 1.0, True, "3", None])
def test_so_many_tickets_are_not_made(count: object) -> None:
    with pytest.raises(InvalidRequest, match="between 1 and"):
        checked_count(count)  # type: ignore[arg-type]
