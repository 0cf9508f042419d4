"""Notices: messages to an owner, as fields, and the public text that names what a notice is about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from ptkstore.domain.jobs import Job, JobKind
from ptkstore.domain.names import team_of

CODES_PAGE = "docs/reference/codes.md"


def code_page(code: str) -> str:
    """Return the address of the section about the code of a run, a notice or a dead letter."""
    return f"{CODES_PAGE}#{code}"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something an owner should know; fixed codes, public subjects.

    A notice is about a PTK, or about a `stream`, where it may name a PTK that was refused. `run` is a kind of run that
    is no training, and `look` says which try on the window it was, from 1 on. `text` is the subject of a notice whose
    other fields are not all known: an older program wrote it, or it came over HTTP.
    """

    at: datetime
    team: str
    code: str
    stream: str | None = None
    ptk_id: str | None = None
    window_index: int | None = None
    version: int | None = None
    run: JobKind | None = None
    subscription_id: str | None = None
    text: str | None = None
    look: int = 1

    @classmethod
    def of_run(cls, job: Job, code: str, at: datetime) -> Self:
        """About a run on a window, to the team of its PTK."""
        run = None if job.kind is JobKind.TRAIN else job.kind
        ptk_id = str(job.ptk_id)
        window = job.made_in.index
        return cls(at, team_of(ptk_id), code, ptk_id=ptk_id, window_index=window, run=run, look=job.look)

    @property
    def subject(self) -> str:
        """The subject of the notice, as every interface shows it."""
        if self.text is not None:
            return self.text
        words = [self.stream, self.ptk_id]
        if self.run is not None:
            words.append("evaluation" if self.run is JobKind.EVALUATE and self.version else self.run.value)
            words.append(None if self.window_index is self.version is None else "of")
        if self.window_index is not None:
            words.append(f"window {self.window_index}" + (f", look {self.look}" if self.look > 1 else ""))
        if self.version is not None:
            words.append(f"version {self.version}" if self.subscription_id is None else f"v{self.version}")
        if self.subscription_id is not None:
            words.append(f"to {self.subscription_id}")
        return " ".join(word for word in words if word is not None)
