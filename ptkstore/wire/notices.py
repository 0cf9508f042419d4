"""Messages to owners: notices, and the outcomes of trainings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ptkstore.wire.base import Instant, Wire

TrainingState = Literal["ready", "opened", "ended"]

CodePage = Annotated[
    str, Field(description="the section about this code: an address, or a path in the repository")
]


class NoticeOut(Wire):
    """Something that a team should know."""

    at: Instant
    team: Annotated[str, Field(description="the team that it is for")]
    subject: Annotated[
        str, Field(description="the PTK or stream first, then which window, version or subscription")
    ]
    code: Annotated[str, Field(description="a fixed code")]
    stream: Annotated[str | None, Field(description="the stream, if the subject begins with one")]
    ptk: Annotated[str | None, Field(description="the PTK that the subject names")]
    page: CodePage


class TrainingOut(Wire):
    """A training of a PTK on a window, or on several."""

    ptk_id: str
    window: Annotated[int, Field(description="its newest window")]
    oldest_window: Annotated[int, Field(description="its oldest window; the same where it is on one")]
    look: Annotated[int, Field(description="the number of the try on this newest window, from 1 on")]
    state: TrainingState
    outcome: Annotated[str | None, Field(description="how it ended")]
    code: Annotated[
        str | None,
        Field(description="why there is no version, or that its state waits for its verdict: a fixed code"),
    ]
    version: Annotated[int | None, Field(description="what it made")]
    ended_at: Instant | None
    page: CodePage | None
