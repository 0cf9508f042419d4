"""Traces of ids, carried from a request to the jobs that follow from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from ptkstore.domain.jobs import Job

_CARRIED: ContextVar[str | None] = ContextVar("trace", default=None)


def carried() -> str | None:
    """Return the W3C `traceparent` under which this thread works just now; jobs that it asks for carry it."""
    return _CARRIED.get()


@contextmanager
def carrying(traceparent: str | None) -> Iterator[None]:
    """Work under a trace."""
    token = _CARRIED.set(traceparent)
    try:
        yield
    finally:
        _CARRIED.reset(token)


@dataclass(slots=True)
class RequestSeen:
    """The public facts of a request: ids, its route's template, never its path, and how it was answered.

    `timed` is False where the time that it takes tells of rows.
    """

    request_id: str
    method: str
    route: str = ""
    status: int = 0
    code: str | None = None
    team: str | None = None
    token_id: str | None = None
    timed: bool = True
    traced: bool = True


@dataclass(slots=True)
class JobSeen:
    """A job that is being worked on, and how that ended; a code, never a text."""

    job: Job
    code: str | None = None
    steps: list[str] = field(default_factory=list)


class Traces(Protocol):
    """Makes spans; an attribute that is not on the list is omitted."""

    def request(self, request_id: str, method: str) -> AbstractContextManager[RequestSeen]:
        """Record a request to the HTTP API, from here to the end of the block."""

    def job(self, job: Job) -> AbstractContextManager[JobSeen]:
        """Work on a job, under the trace that it carries."""

    def reached(self, step: str, job_id: str) -> None:
        """Record a durable step of a job whose block is open in this process."""

    def close(self) -> None:
        """Send the remaining spans."""


class SilentTraces:
    """No traces are kept."""

    @contextmanager
    def request(self, request_id: str, method: str) -> Iterator[RequestSeen]:
        """Tell nothing."""
        yield RequestSeen(request_id, method)

    @contextmanager
    def job(self, job: Job) -> Iterator[JobSeen]:
        """Carry the trace that the job came with on to what it asks for."""
        with carrying(job.trace):
            yield JobSeen(job)

    def reached(self, step: str, job_id: str) -> None:
        """Tell nothing."""

    def close(self) -> None:
        """Leave nothing behind."""
