"""Tickets for devices; what they ask for themselves is in `ptkstore.api.devices`."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from ptkstore.api.devices.rates import GatewayRates
from ptkstore.api.requests.access import WhoAsks
from ptkstore.api.requests.routers import Resource, StreamName
from ptkstore.domain.identity import Action
from ptkstore.wire.devices import TicketsIn, TicketsOut

resource = Resource("devices")


@resource.route(
    "POST", "/device-streams/{stream}/tickets", Action.TICKET_ISSUE, status=201, response_model=TicketsOut
)
def issue_tickets(stream: StreamName, body: TicketsIn, caller: WhoAsks, request: Request) -> dict[str, Any]:
    """Make tickets for devices, each for one draw and one put.

    The caller gives one to each of its users. The store never learns who has which.
    """
    rates: GatewayRates = request.app.state.ticket_rates
    team = caller.principal.team
    rates.take(team.encode(), "ticket", body.count)
    issued = caller.service.devices.issue_tickets(stream, body.ptk, body.count, gateway=team)
    return {"tickets": list(issued.tickets), "expires": issued.expires.isoformat()}
