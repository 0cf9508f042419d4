"""Waits: since when a PTK waits for a version, where the journal and the windows stood then, and how waits ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Wait:
    """The last time that a PTK began to wait.

    The PTK's looks since then follow from the journal: they are the trainings that were reserved after entry `after`.
    They read windows from `oldest` on.
    """

    ptk_id: str
    stream: str
    since: datetime
    after: int
    oldest: int


MOST_ENDED = 20
"""How many waits of a PTK are kept after they ended. It is for each PTK apart, so that nobody's waits push out another
team's."""

VERSION, CHANGED, DEREGISTERED = "version", "changed", "deregistered"
"""How a wait ends, beside the reasons for which a PTK is given up. `changed`: its definition did, or it was registered
again, and it waits anew."""


@dataclass(frozen=True, slots=True)
class EndedWait:
    """A wait that is over.

    Attributes
    ----------
    until : datetime or None
        When it ended. None for a PTK that was given up before times of that were kept.
    end : str
        `VERSION`, `CHANGED`, `DEREGISTERED`, or why the PTK was given up.
    """

    ptk_id: str
    stream: str
    since: datetime
    until: datetime | None
    end: str
