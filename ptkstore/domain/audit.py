"""The audit trail: who did what when, to what, with which outcome."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

STARTED = "started"
DONE = "done"
LOCAL = "local"
"""The team and token of whoever works in the store's home: the file system decides who that is."""
UNKNOWN = "-"
"""The team and token of whoever came without a token that opens anything."""
SERVICE = "service"
"""In the place of a token: what the service did by itself."""

_SUBJECT = re.compile(r"[a-z0-9_.*-]{1,200}(/[a-z0-9_.*-]{1,200}){0,3}")


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the trail: ids and fixed codes, never a row, a value or a count (differences.md F6).

    An action leaves two, `started` before and its end after, so that nothing is done without a trace; both carry the
    `request_id`. `number` is the place in the trail, 0 before it has one. `subject` is `<kind>/<id>`.
    """

    at: datetime
    request_id: str
    team: str
    token_id: str
    action: str
    subject: str
    outcome: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class TrailFilter:
    """The lines of the trail that are asked for: from `since` on and before `until`. None restricts nothing."""

    action: str | None = None
    team: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def subject_of(kind: str, name: str | None) -> str:
    """Return `kind/name`; what cannot be an id is a caller's own text, and is not kept."""
    subject = f"{kind}/{name}"
    return subject if name is not None and _SUBJECT.fullmatch(subject) else kind
