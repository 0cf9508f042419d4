"""Values of pages as people read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ptkstore.domain.ledger.block_ledgers import BlockLedger
from ptkstore.domain.names import checked_name, split_ptk_id
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.windows import start_of
from ptkstore.errors import InvalidRequest, NotAllowed, PtkStoreError, UnknownName
from ptkstore.sdk.documents.ledgers import block_rows

COMPACT_MOST = 300


def shown_time(text: str | None) -> str:
    """Write a time as people read it, in UTC."""
    if not text:
        return ""
    try:
        at = datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return text
    midnight = (at.hour, at.minute, at.second) == (0, 0, 0)
    return at.strftime("%Y-%m-%d" if midnight else "%Y-%m-%d %H:%M")


def shown_second(text: str | None) -> str:
    """Write a time to the second, in UTC, where several things fall into a minute."""
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if text else ""


def compact(value: object) -> str:
    """Write a plain value as JSON, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= COMPACT_MOST else f"{text[:COMPACT_MOST]}…"


def shown_span(span: timedelta) -> str:
    """Write a span of time in its largest whole unit."""
    for word, seconds in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        number, rest = divmod(int(span.total_seconds()), seconds)
        if number and not rest:
            return f"{number} {word}{'' if number == 1 else 's'}"
    return f"{int(span.total_seconds())} s"


def labelled(blocks: Sequence[BlockLedger], policy: Policy) -> list[dict[str, Any]]:
    """Return the rows of the ledger with the words of the page."""
    rows = block_rows(blocks, policy)
    for row in rows:
        window = row.get("window")
        start = None if window is None else start_of(policy, window)
        value = "" if policy.attribute is None else str(row[policy.attribute])
        row["kind"] = ", ".join(word for word in (str(row["part"]), value, str(row.get("line", ""))) if word)
        row["place"] = f"shard {row['shard']}" if start is None else shown_time(start.isoformat())
        row["label"] = f"{row['place']}, {row['kind']}"
    return rows


def problem_of(error: PtkStoreError) -> tuple[int, str]:
    """Return status and words of a page that cannot be shown; repeat nothing that was sent."""
    match error:
        case UnknownName():
            return 404, "There is no such page, or it is not for you to see."
        case NotAllowed():
            return 403, "The roles of your token do not allow this."
        case _:
            return 503, "A part of the service does not answer. Try again in a while."


def formed(kind: str, name: str) -> str:
    """Return the name in a path; what cannot be one names nothing, and is neither looked for nor repeated."""
    try:
        if kind == "PTK":
            split_ptk_id(name)
        else:
            checked_name(kind, name)
    except InvalidRequest:
        raise UnknownName(kind, "?") from None
    return name
