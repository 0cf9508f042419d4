"""Issue tickets for devices to a gateway."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime

from ptkstore.domain.tickets import checked_count, expiry_of, write_ticket
from ptkstore.errors import UnknownName
from ptkstore.ports.devices import DevicePtk, Epoch
from ptkstore.ports.runtime import Clock


@dataclass(frozen=True, slots=True)
class Issued:
    """Tickets, and when they expire."""

    tickets: tuple[str, ...] = field(repr=False)
    expires: datetime


def issue_tickets(
    stream: str,
    count: int,
    *,
    ptk: DevicePtk,
    epoch: Epoch,
    gateway: str,
    key: bytes,
    clock: Clock,
) -> Issued:
    """Make tickets for one draw and one put each; nobody remembers them before they are spent.

    Parameters
    ----------
    stream, count : str, int
        The stream that the gateway may act on, and how many tickets it asks for.
    ptk, epoch : DevicePtk, Epoch
        What they are for; `UnknownName` if it is another stream's.
    gateway : str
        The team that asks.
    key : bytes
        Of the store, for tickets alone.
    """
    checked_count(count)
    if ptk.stream != stream:
        raise UnknownName("PTK", ptk.ptk_id)
    expires = expiry_of(clock.now())
    tickets = (
        write_ticket(key, ptk.ptk_id, epoch.id, gateway, expires, secrets.token_bytes(16))
        for _ in range(count)
    )
    return Issued(tuple(tickets), expires)
