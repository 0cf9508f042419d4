"""Tickets of devices: the right to one draw and one put, which is in no table."""

from __future__ import annotations

import hmac
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import floor
from typing import NamedTuple

from ptkstore.errors import InvalidRequest

COUNT_MAX = 1_000
"""Tickets of one request."""

TICK = timedelta(minutes=10)
"""Expiries are multiples of it, so that a ticket does not tell when it was made."""

LIFE = timedelta(hours=1)
"""How long a ticket holds at least; a tick longer at most."""

_VERSION = 1
_HEAD = struct.Struct(
    ">B16sI8s4s"
)  # version, random id, expiry in ticks, epoch, gateway; then the id of the PTK
_MAC_BYTES = 16
_LONGEST = 400  # characters of a ticket: two names of 63 bytes, and a third more by base64
_TICK_SECONDS, _LIFE_SECONDS = int(TICK.total_seconds()), int(LIFE.total_seconds())
_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)


class Refusal(StrEnum):
    """Why a device is refused; the texts are the codes of its problems.

    `REPORT` is for every test that a report may fail: which one it was is counted, not told.
    """

    FORGED = "ticket-forged"
    EXPIRED = "ticket-expired"
    USED = "ticket-used"
    NOT_DRAWN = "not-drawn"
    EPOCH_OVER = "epoch-over"
    REPORT = "report-refused"


class Ticket(NamedTuple):
    """The content of a ticket.

    Parameters
    ----------
    ptk_id, epoch : str
        The PTK whose instances it is for.
    gateway : bytes
        Four bytes by which the tickets of one gateway are alike, for limits on their number.
    seconds_left : int
        Until it expires.
    mark : bytes
        The record of a spent ticket. It does not follow from the ticket without the key.
    """

    ptk_id: str
    epoch: str
    gateway: bytes
    seconds_left: int
    mark: bytes

    def __repr__(self) -> str:
        return f"Ticket of {self.ptk_id}"

    @property
    def seconds_remembered(self) -> int:
        """How long a spent ticket is remembered: a clock that is behind by up to `LIFE` takes it no second time."""
        return self.seconds_left + _LIFE_SECONDS


def expiry_of(now: datetime) -> datetime:
    """Return when tickets that are made now expire."""
    return _EPOCH_START + TICK * -((_EPOCH_START - now - LIFE) // TICK)


def write_ticket(
    key: bytes, ptk_id: str, epoch: str, gateway: str, expires: datetime, random_id: bytes
) -> str:
    """Make the text that says what a device may draw and put.

    Parameters
    ----------
    key : bytes
        Of the store, for tickets alone.
    gateway : str
        The caller who asked for it. Only four bytes of a keyed hash of it are in the ticket.
    random_id : bytes
        16 of them, which no other ticket has.
    """
    ticks = (expires - _EPOCH_START) // TICK
    tag = _mac(key, b"gateway", gateway.encode())[:4]
    said = _HEAD.pack(_VERSION, random_id, ticks, bytes.fromhex(epoch), tag) + ptk_id.encode()
    return urlsafe_b64encode(said + _mac(key, b"ticket", said)[:_MAC_BYTES]).rstrip(b"=").decode()


def read_ticket(key: bytes, text: str, now: datetime) -> Ticket | Refusal:
    """Return the content of a text if it is a ticket that was made here and is valid now.

    One that expires later than any that could be made now is refused too: a clock was wrong then, or is now.
    """
    try:
        octets = urlsafe_b64decode(text + "=" * (-len(text) % 4)) if len(text) <= _LONGEST else b""
    except ValueError:
        return Refusal.FORGED
    if len(octets) <= _HEAD.size + _MAC_BYTES:
        return Refusal.FORGED
    said, mac = octets[:-_MAC_BYTES], octets[-_MAC_BYTES:]
    digest = _mac(key, b"ticket", said)
    if not hmac.compare_digest(mac, digest[:_MAC_BYTES]):
        return Refusal.FORGED
    _, _, ticks, epoch, gateway = _HEAD.unpack_from(said)
    left = ticks * _TICK_SECONDS - floor(now.timestamp())
    if not 0 < left <= _LIFE_SECONDS + _TICK_SECONDS:
        return Refusal.EXPIRED
    return Ticket(said[_HEAD.size :].decode(), epoch.hex(), gateway, left, digest[_MAC_BYTES:])


def checked_count(count: int) -> int:
    """Return how many tickets are asked for, or `InvalidRequest`."""
    if type(count) is not int or not 1 <= count <= COUNT_MAX:
        raise InvalidRequest(f"count must be a whole number between 1 and {COUNT_MAX}")
    return count


def _mac(key: bytes, use: bytes, said: bytes) -> bytes:
    return hmac.digest(key, use + b"\x00" + said, "sha256")
