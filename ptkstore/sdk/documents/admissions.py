"""A stream's answer to a team's changes as the document of the HTTP API, and back again."""

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
    room = None
    if admission.room is not None:
        losses = {name: loss_json(getattr(admission.room, name)) for name in ("capacity", "left")}
        accountant, context = admission.room.accountant.value, admission.room.context
        room = {**losses, "accountant": accountant, "context": context}
    return {
        "refusals": [
            {"ptk_id": ptk_id, "code": error.code, "detail": str(error)}
            for ptk_id, error in admission.refusals.items()
        ],
        "at_once": admission.at_once,
        "room": room,
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


def _room_of(document: Mapping[str, Any]) -> Room:
    capacity, left = loss_of(document["capacity"]), loss_of(document["left"])
    return Room(capacity, left, Accountant(document["accountant"]), document["context"])
