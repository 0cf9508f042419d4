"""The ledger: budgets, odometers, verification, signed reports."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import Response

from ptkstore.api.requests.access import WhoAsks
from ptkstore.api.requests.pages import Cursor, Limit, cursor_at, number_in
from ptkstore.api.requests.routers import Resource, StreamName
from ptkstore.application.identity.authorize import Named
from ptkstore.application.ledger.person_losses import MOST_STREAMS
from ptkstore.domain.fields import time_of
from ptkstore.domain.identity import Action
from ptkstore.domain.ledger.reports import ALGORITHM
from ptkstore.sdk.documents.persons import person_loss_document
from ptkstore.sdk.documents.resources import block_document, odometers_document
from ptkstore.sdk.documents.rooms import room_document
from ptkstore.wire.base import Name, Time
from ptkstore.wire.persons import PersonLossOut
from ptkstore.wire.streams import Budget, LedgerCheckOut, LedgerKey, OdometersOut, RoomForMoreOut

resource = Resource("ledger")


@resource.route("GET", "/streams/{stream}/budget", Action.BUDGET_READ, response_model=Budget)
def show_budget(
    stream: StreamName, caller: WhoAsks, cursor: Cursor = None, limit: Limit = 100
) -> dict[str, Any]:
    """Show what each block of a stream may lose, has promised and has lost.

    Pages are counted in blocks; a block of several lines is there with all of them.
    """
    after = None if cursor is None else number_in(cursor)
    budgets = caller.service.budget(stream, after=after, limit=limit + 1)
    numbers = sorted({block.number for block in budgets})
    more = len(numbers) > limit
    shown = budgets if not more else [block for block in budgets if block.number < numbers[-1]]
    minimum, asserted = caller.service.assurance_on(stream)
    return {
        "stream": stream,
        "minimum_assurance": minimum.value,
        "asserted_ptks": list(asserted),
        "blocks": [block_document(block) for block in shown],
        "next_cursor": cursor_at(str(numbers[-2])) if more else None,
    }


@resource.route("GET", "/streams/{stream}/room", Action.BUDGET_READ, response_model=RoomForMoreOut)
def show_room(stream: StreamName, caller: WhoAsks) -> dict[str, Any]:
    """Say how many more PTKs fit like the one that was registered last.

    Counted by the check of a registration; nothing is reserved. Of a stream with contexts, for the caller's context.
    """
    contexts = caller.service.stream(stream).policy.sharing.contexts
    team = caller.principal.team if contexts else None
    return room_document(stream, caller.service.room_for_more(stream, team=team))


@resource.route("GET", "/streams/{stream}/odometers", Action.BUDGET_READ, response_model=OdometersOut)
def show_odometers(stream: StreamName, caller: WhoAsks) -> dict[str, Any]:
    """Show what was spent so far per block, line, stream, PTK and team."""
    return odometers_document(caller.service.odometers(stream))


@resource.route(
    "GET", "/streams/{stream}/ledger/verification", Action.LEDGER_VERIFY, response_model=LedgerCheckOut
)
def verify_ledger(stream: StreamName, caller: WhoAsks) -> dict[str, Any]:
    """Recompute every sum, sequence and digest of a stream's journal."""
    check = caller.service.verify_ledger(stream)
    return {
        "stream": stream,
        "entries": check.entries,
        "blocks": check.blocks,
        "faults": list(check.faults),
    }


@resource.route(
    "GET",
    "/streams/{stream}/ledger/report",
    Action.LEDGER_EXPORT,
    response_class=Response,
    responses={
        200: {
            "description": "The report, of which every byte counts: `ptk ledger check` verifies it.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        }
    },
)
def export_ledger(
    stream: StreamName,
    caller: WhoAsks,
    since: Annotated[Time | None, Query(description="windows from this time on")] = None,
    until: Annotated[Time | None, Query(description="windows before this time")] = None,
) -> Response:
    """Export a signed report for the privacy officer."""
    made = caller.service.export_ledger(
        stream, None if since is None else time_of(since), None if until is None else time_of(until)
    )
    return Response(made.content, media_type="application/json")


@resource.route(
    "GET", "/ledger/person", Action.PERSON_LOSS_READ, problems=(404,), response_model=PersonLossOut
)
def show_person_loss(
    request: Request,
    caller: WhoAsks,
    stream: Annotated[
        list[Name], Query(min_length=1, max_length=MOST_STREAMS, description="repeated, one for each stream")
    ],
) -> dict[str, Any]:
    """Add up what one person who is in all of these streams loses to them together, until now and at most.

    The caller is an officer on each. Streams whose privacy unit is the record, and those of devices, are refused: no
    sum is a bound for one person.
    """
    caller.permit(*(Named(stream=name) for name in stream))
    with request.app.state.heavy.place(caller.principal.team):
        return person_loss_document(caller.service.person_loss(stream))


@resource.route("GET", "/ledger/key", Action.LEDGER_KEY, response_model=LedgerKey)
def show_ledger_key(caller: WhoAsks) -> dict[str, Any]:
    """Show the public key that reports are signed with."""
    return {
        "algorithm": ALGORITHM,
        "public_key": caller.service.report_key(),
        "ledger_id": caller.service.ledger_id(),
    }
