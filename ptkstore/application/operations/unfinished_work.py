"""The work that is unfinished: what runs, what waits, and what lost its worker.

No start time and no count of tries is in it. Whoever looks again and again sees when a worker takes work, and when it
stops reporting. Neither depends on rows, but for a worker that is killed for its memory, and such a run ends with a
code that says so. Runs end on ticks, and so do their places among the workers (differences.md F6).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ptkstore.application.identity.sight import Sight
from ptkstore.domain.jobs import DELIVERIES, LONGEST_LEASE, JobKind
from ptkstore.domain.names import team_of
from ptkstore.ports.catalog import CatalogView
from ptkstore.ports.jobs import UnfinishedJob

JOBS_MOST = 1_000
"""Unfinished jobs that are looked through: those of a worker first, then by stream and window."""
SHOWN = tuple(
    kind
    for kind in JobKind
    # others tell of deliveries, a partial belongs to its training, and a scheduler's work is what it queues
    if kind not in (*DELIVERIES, JobKind.PARTIAL, JobKind.SCHEDULE, JobKind.ROLLBACK)
)


class WorkState(StrEnum):
    """Whether somebody does the work."""

    RUNNING = "running"
    """A worker has it."""
    INTERRUPTED = "interrupted"
    """A worker had it and said nothing for the time of a lease, as one that was killed; the next worker takes it."""
    WAITING = "waiting"
    """It waits for a worker, for its turn or for its tick."""


@dataclass(frozen=True, slots=True)
class WorkFacts:
    """A job that has not ended: its window, the PTK it is for, and since when the window is closed.

    `window` is the newest one of a run, None of what places a version or writes it to Feast. `ptk_id` is None of what
    concerns a window alone.
    """

    kind: JobKind
    state: WorkState
    stream: str
    window: int | None
    ptk_id: str | None
    since: datetime | None


def unfinished_work(
    uow: CatalogView, sight: Sight, streams: Iterable[str], now: datetime
) -> Sequence[WorkFacts]:
    """Return the work on these streams that a reader may see: of its own PTKs, and on windows whose course it reads."""
    names = None if sight.streams is None else tuple(streams)
    return [
        WorkFacts(one.kind, _state(one, now), one.stream, one.window, one.ptk_id, one.closed_at)
        for one in uow.jobs.unfinished_jobs(SHOWN, names, JOBS_MOST)
        if _seen(one, sight)
    ]


def _seen(job: UnfinishedJob, sight: Sight) -> bool:
    if job.ptk_id is not None:
        return sight.team is None or team_of(job.ptk_id) == sight.team
    return any(allowed is None or job.stream in allowed for allowed in (sight.budgets, sight.exposures))


def _state(job: UnfinishedJob, now: datetime) -> WorkState:
    if job.lease_until is None:
        return WorkState.WAITING
    held = (
        now < job.lease_until <= now + LONGEST_LEASE
    )  # a longer one was given by a clock that had jumped ahead
    return WorkState.RUNNING if held else WorkState.INTERRUPTED
