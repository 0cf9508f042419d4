"""Issue tickets for devices to a gateway."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from ptkstore.domain.tickets import checked_count, expiry_of, write_ticket
from ptkstore.errors import Conflict, UnknownName
from ptkstore.ports.devices import DevicePtk, Epoch, ReadDevicePtk
from ptkstore.ports.runtime import Clock


@dataclass(frozen=True, slots=True)
class Issued:
    """Tickets, and when they expire."""

    tickets: tuple[str, ...] = field(repr=False)
    expires: datetime


def issue_tickets(
    stream: str,
    ptk_id: str,
    count: int,
    *,
    read_ptk: ReadDevicePtk,
    epoch_of: Callable[[str], tuple[DevicePtk, Epoch]],
    gateway: str,
    key: bytes,
    clock: Clock,
) -> Issued:
    """Make tickets for one draw and one put each; nobody remembers them before they are spent.

    Parameters
    ----------
    stream, ptk_id, count : str, str, int
        The stream that the gateway may act on, what it asks tickets for, and how many.
    read_ptk : callable
        Reads the PTK afresh.
    epoch_of : callable
        Returns the PTK with its epoch, begun if there is none.
    gateway : str
        The team that asks.
    key : bytes
        Of the store, for tickets alone.

    Raises
    ------
    UnknownName
        When devices of the stream do not train it. Of PTKs that there are elsewhere it reads the same, and nothing of
        them is begun.
    Conflict
        When it was given up.
    """
    checked_count(count)
    ptk = _ptk_of(stream, ptk_id, read_ptk)
    if ptk is None:
        raise UnknownName(f"PTK that devices of stream {stream} train", ptk_id)
    if ptk.has_given_up:
        raise Conflict(
            f"PTK {ptk_id} was given up, as no version of it was accepted in time: reports would be lost for nothing. "
            "Its team continues it by ptk resume"
        )
    _, epoch = epoch_of(ptk_id)
    expires = expiry_of(clock.now())
    tickets = (
        write_ticket(key, ptk_id, epoch.id, gateway, expires, secrets.token_bytes(16)) for _ in range(count)
    )
    return Issued(tuple(tickets), expires)


def _ptk_of(stream: str, ptk_id: str, read_ptk: ReadDevicePtk) -> DevicePtk | None:
    try:
        ptk = read_ptk(ptk_id)
    except UnknownName:
        return None
    return ptk if ptk.stream == stream else None
