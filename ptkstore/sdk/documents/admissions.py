"""What a stream says of a team's changes, as the document of the HTTP API and back again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ptkstore.application.planning.room_left import Room
from ptkstore.application.ptks.exchange_ptks import Admission
from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.ledger.reports import loss_json
from ptkstore.errors import PtkStoreError
from ptkstore.sdk.documents.resources import Document, loss_of


def admission_document(admission: Admission) -> Document:
    """Write an admission, its refusals as the problems that would come."""
    return {
        "refusals": [
            {"ptk_id": ptk_id, "code": error.code, "detail": str(error)}
            for ptk_id, error in admission.refusals.items()
        ],
        "at_once": admission.at_once,
        "room": None if admission.room is None else _room_document(admission.room),
        "returning": [{"ptk_id": key, "version": number} for key, number in admission.returning.items()],
    }


def admission_of(
    document: Mapping[str, Any], error_of: Callable[[int, dict[str, Any]], PtkStoreError]
) -> Admission:
    """Read the admission that `admission_document` wrote; older servers tell of no room and of no return."""
    refusals = {str(one["ptk_id"]): error_of(400, dict(one)) for one in document["refusals"]}
    room = document.get("room")
    returning = {str(one["ptk_id"]): int(one["version"]) for one in document.get("returning", ())}
    return Admission(refusals, bool(document["at_once"]), None if room is None else _room_of(room), returning)


def _room_document(room: Room) -> Document:
    return {
        "capacity": loss_json(room.capacity),
        "left": loss_json(room.left),
        "accountant": room.accountant.value,
        "context": room.context,
    }


def _room_of(document: Mapping[str, Any]) -> Room:
    return Room(
        loss_of(document["capacity"]),
        loss_of(document["left"]),
        Accountant(document["accountant"]),
        document["context"],
    )
