"""Waits: since when a PTK waits for a version, and where the journal and the windows stood then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Wait:
    """The last time that a PTK began to wait.

    What it was given since follows from the journal: its looks are the trainings that were reserved after entry
    `after`. They read windows from `oldest` on.
    """

    ptk_id: str
    stream: str
    since: datetime
    after: int
    oldest: int
