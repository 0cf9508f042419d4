"""Tickets of devices."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ptkstore.domain.tickets import COUNT_MAX
from ptkstore.wire.base import Instant, PtkId, Wire


class TicketsIn(Wire, json_schema_extra={"examples": [{"ptk": "mail.phishy", "count": 100}]}):
    """Tickets that a gateway asks for."""

    ptk: PtkId
    count: Annotated[int, Field(ge=1, le=COUNT_MAX, description="how many")]


class TicketsOut(Wire):
    """Tickets, each for one draw and one put of one device, and when they expire."""

    tickets: list[str]
    expires: Instant
