"""Rows over HTTP."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import replace
from typing import Annotated, Any

import pyarrow as pa
from anyio import to_thread
from fastapi import Header, Request

from ptkstore.api.load.body_slots import BodySlots, body_of
from ptkstore.api.load.decoded_bytes import DecodedShares
from ptkstore.api.requests.access import Caller, WhoAsks
from ptkstore.api.requests.routers import Resource, StreamName
from ptkstore.api.rows.bodies import ARROW_STREAM, NDJSON, PARQUET, table_in
from ptkstore.application.ingest.ingest_records import IngestReply, may_be_stored
from ptkstore.domain.identity import Action
from ptkstore.errors import OutcomeUnknown
from ptkstore.wire.streams import IngestOut

resource = Resource("streams")

_BODY = {
    "description": "The rows, uncompressed Arrow, Parquet or NDJSON, with exactly the declared columns.",
    "required": True,
    "content": {
        ARROW_STREAM: {"schema": {"type": "string", "format": "binary"}},
        PARQUET: {"schema": {"type": "string", "format": "binary"}},
        NDJSON: {
            "schema": {"type": "string", "format": "binary"},
            "example": '{"at": "2026-01-05T08:10:00Z", "hour": 8, "speed": 23.5}\n',
        },
    },
}


@resource.route(
    "POST",
    "/streams/{stream}/ingest",
    Action.STREAM_INGEST,
    response_model=IngestOut,
    openapi_extra={"requestBody": _BODY},
)
async def ingest(
    stream: StreamName,
    request: Request,
    caller: WhoAsks,
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            min_length=1,
            max_length=214,
            pattern=r"^[\x21-\x7e]{1,200}( [1-9][0-9]{0,5}/[1-9][0-9]{0,5})?$",
            description="The batch id: a batch that this team stored before is not stored again. For a batch in "
            "parts, add a space, the number of the part, a slash and the number of parts, and send them in order. A "
            "part that was stored before, or whose batch was, is not stored again.",
        ),
    ] = None,
) -> dict[str, Any]:
    """Store rows of events.

    Rows that may not enter are refused one by one, with reasons and counts; the rest is stored as a whole or not at
    all. The counts are for the producer alone and are kept nowhere. A batch that is too long for one request comes in
    parts, one after the other, each of which is stored as a whole or not at all.
    """
    slots: BodySlots = request.app.state.slots
    batch, _, number = (key or secrets.token_hex(16)).partition(" ")
    part = (int(number.partition("/")[0]), int(number.partition("/")[2])) if number else None
    request.state.late = str(may_be_stored(batch, part))
    async with slots.reading(caller.principal) as place:
        body = await body_of(request)
        await place.work()
        media_type = request.headers.get("content-type", "")
        decoded: DecodedShares = request.app.state.decoded
        reply = await to_thread.run_sync(_ingest, caller, stream, body, media_type, batch, part, decoded)
    return {
        "batch_id": reply.batch_id,
        "accepted": reply.accepted,
        "refused": reply.refused,
        "repeated": reply.repeated,
    }


def _ingest(
    caller: Caller,
    stream: str,
    body: bytes,
    media_type: str,
    batch: str,
    part: tuple[int, int] | None,
    decoded: DecodedShares,
) -> IngestReply:
    declared = caller.service.stream(stream)
    declared.check_takes_rows()  # before its columns are compared: no row would be right
    team = caller.principal.team
    batch_id = batch if team == declared.team else _batch_of(team, batch)
    with decoded.of(team) as held:
        table: pa.Table = table_in(body, media_type, declared.schema, caller.limits, held.grow_to)
        try:
            reply = caller.service.ingest(stream, table.replace_schema_metadata(None), batch_id, part)
        except OutcomeUnknown:
            raise may_be_stored(batch, part) from None
    return replace(reply, batch_id=batch)


def _batch_of(team: str, key: str) -> str:
    """The batch id of another team's key: nobody's batch passes for a repetition of somebody else's."""
    return f"{team}/{hashlib.sha256(key.encode()).hexdigest()}"
