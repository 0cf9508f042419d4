"""Room for more PTKs as a document of the HTTP API, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptkstore.domain.ledger.reports import loss_json
from ptkstore.domain.ptks.room_for_more import Basis, RoomForMore
from ptkstore.sdk.documents.resources import loss_of


def room_document(stream: str, room: RoomForMore | None) -> dict[str, Any]:
    """Write how many more PTKs fit, with its words."""
    if room is None:
        return {"stream": stream, "room": None}
    written = {
        "like": room.ptk_id,
        "loss": loss_json(room.loss),
        "more": room.more,
        "is_least": room.is_least,
        "basis": room.basis.value,
        "sentence": room.sentence,
        "assumes": room.assumes,
    }
    return {"stream": stream, "room": written}


def room_of(document: Mapping[str, Any]) -> RoomForMore | None:
    """Read the room that `room_document` wrote."""
    room = document["room"]
    if room is None:
        return None
    return RoomForMore(
        room["like"], loss_of(room["loss"]), room["more"], room["is_least"], Basis(room["basis"])
    )
