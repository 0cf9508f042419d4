"""Ids of drafts. Files and keys have nothing but the id, so it names the window that they go with."""

from __future__ import annotations

import hashlib

from ptkstore.domain.streams.windows import WindowId


def draft_id(window: WindowId, name: str) -> str:
    """Return the id of a draft of a window."""
    return f"{window.stream}.{window.index}.{name}"


def draft_prefix(window: WindowId, job: str) -> str:
    """Return what the ids of all drafts of one job begin with, whoever claimed it."""
    return draft_id(window, hashlib.sha256(job.encode()).hexdigest()[:16]) + "-"


def window_of(draft: str) -> WindowId | None:
    """Return the window of a draft; None if no program gave this id."""
    stream, _, rest = draft.partition(".")
    index = rest.partition(".")[0]
    return WindowId(stream, int(index)) if index.isdecimal() else None
