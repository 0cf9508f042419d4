"""The queue of a stream and its ended waits as documents of the HTTP API, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from ptkstore.domain.scheduling.queues import Awaited, BlockShare, QueuedPtk, WaitSpan
from ptkstore.sdk.documents.times import to_the_second

Document = dict[str, Any]


def queued_document(one: QueuedPtk) -> Document:
    """Write a PTK that waits."""
    return {
        "ptk_id": one.ptk_id,
        "since": one.since.isoformat(),
        "looks": one.looks,
        "verdict": one.verdict,
        "waits_for": one.waits_for.value,
        "allowances": [asdict(share) for share in one.allowances],
    }


def queue_of(document: Mapping[str, Any]) -> tuple[QueuedPtk, ...]:
    """Read the queue of a stream whose items `queued_document` wrote."""
    return tuple(
        QueuedPtk(
            one["ptk_id"],
            datetime.fromisoformat(one["since"]),
            one["looks"],
            one["verdict"],
            Awaited(one["waits_for"]),
            tuple(BlockShare(**share) for share in one["allowances"]),
        )
        for one in document["items"]
    )


def ended_wait_document(one: WaitSpan) -> Document:
    """Write a wait that ended, with its times to the second."""
    return {
        "ptk_id": one.ptk_id,
        "since": to_the_second(one.since),
        "until": None if one.until is None else to_the_second(one.until),
        "end": one.end,
        "verdicts": [{"at": to_the_second(at), "decision": decision} for at, decision in one.verdicts],
        "registered": one.registered,
    }


def ended_waits_of(document: Mapping[str, Any]) -> tuple[WaitSpan, ...]:
    """Read the waits of a stream whose items `ended_wait_document` wrote."""
    return tuple(
        WaitSpan(
            one["ptk_id"],
            datetime.fromisoformat(one["since"]),
            None if one["until"] is None else datetime.fromisoformat(one["until"]),
            one["end"],
            tuple((datetime.fromisoformat(each["at"]), each["decision"]) for each in one["verdicts"]),
            one["registered"],
        )
        for one in document["items"]
    )
