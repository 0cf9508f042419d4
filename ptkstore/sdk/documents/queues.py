"""Who waits on an adaptive stream, as a document of the HTTP API, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from ptkstore.domain.scheduling.queues import Awaited, BlockShare, QueuedPtk

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
