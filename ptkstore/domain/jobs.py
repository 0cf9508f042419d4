"""Jobs: SQL stores them; a lease and a fence decide who may work, never a message (differences.md F8)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from ptkstore.domain.draft_ids import window_of
from ptkstore.domain.names import team_of
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import InvariantBroken

MAX_ATTEMPTS = 10  # a run that takes its worker down this often is given up; its loss stays spent
_FIRST_WAIT, _LONGEST_WAIT = timedelta(milliseconds=500), timedelta(minutes=1)


class JobKind(StrEnum):
    """The kind of work of a job.

    Placing, flipping and notifying are cursors over versions and go idle; the others end.

    Scheduling goes idle as well: it is woken when something happens on an adaptive stream.

    A rollback has ended when it is written: it is the record of the version that an operator asked for. A redelivery
    goes idle when no dead letter of its subscription is to be sent again.
    """

    PREPARE = "prepare"
    ALLOCATE = "allocate"
    SCHEDULE = "schedule"
    TRAIN = "train"
    PARTIAL = "partial"
    PROFILE = "profile"
    DRIFT = "drift"
    EVALUATE = "evaluate"
    VALIDATE = "validate"
    COMPARE = "compare"
    AVERAGE = "average"
    EXPIRE = "expire"
    ROLLBACK = "rollback"
    PLACE = "place"
    FLIP = "flip"
    NOTIFY = "notify"
    REDELIVER = "redeliver"


RUNS = (
    JobKind.TRAIN,
    JobKind.PARTIAL,
    JobKind.PROFILE,
    JobKind.DRIFT,
    JobKind.EVALUATE,
    JobKind.VALIDATE,
    JobKind.COMPARE,
)
"""Jobs that open rows and run the code of a PTK's trainer."""

PAID_RUNS = tuple(kind for kind in RUNS if kind is not JobKind.PARTIAL)
"""Jobs that spend a loss of their own."""

WAITED_FOR = (JobKind.TRAIN, JobKind.VALIDATE, JobKind.COMPARE)
"""Runs that the scheduler of a stream waits for: their end wakes it."""

WHILE_KEPT = (JobKind.PREPARE, JobKind.ALLOCATE, *RUNS)
"""What is done with a window while its rows are kept: its expiry ends whatever of it is still to do."""

DELIVERIES = (JobKind.NOTIFY, JobKind.REDELIVER)
"""What the relay does by itself, many at once; all else is hinted to workers."""

WAIT_FOR_TICKS = (JobKind.PLACE, JobKind.FLIP, JobKind.EVALUATE)
"""Jobs that are due at a publish tick, which is at most 20 minutes away."""

_RETIRED = "retired"

SMALL_AT_ONCE = 8
"""Small trainings that one worker process runs beside each other: most of their time they wait for their tick."""

LONGEST_LEASE = timedelta(hours=1)
"""The settings allow no longer one: a lease that ends later was given by a clock that had jumped ahead."""


def latest_due(kind: JobKind) -> timedelta:
    """Return how far ahead a job can be due: later ones were put off by a clock that had jumped ahead.

    A job is put off for a minute at most, a delivery for four hours and some jitter.
    """
    if kind in DELIVERIES:
        return timedelta(hours=8)
    return timedelta(minutes=30 if kind in WAIT_FOR_TICKS else 2)


class JobState(StrEnum):
    """A ready job wants work; an opened one has opened rows; an idle cursor has caught up; an ended job is over."""

    READY = "ready"
    OPENED = "opened"
    IDLE = "idle"
    ENDED = "ended"


class Outcome(StrEnum):
    """How a job ended; fixed codes that depend on no row."""

    DONE = "done"
    PUBLISHED = "published"
    REFUSED = "refused"
    FAILED = "failed"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Job:
    """A unit of work, or a cursor over the versions of one PTK.

    Attributes
    ----------
    window_index, oldest_window : int or None
        The window that it is about; of a run over several windows the newest and the oldest one.
    fence : int
        Grows with every claim; a write that carries an older fence is refused.
    reservation : str or None
        The ledger key of a run, which is its id. The partials of a training have the training's.
    position : int
        Of a cursor: the last version that it is done with.
    version : int
        Of an evaluation, a drift test or a comparison: the version whose state it reads.
    facts_of : int
        Of a training: the version whose facts it was planned with, 0 for none.
    partial : int
        Of a partial: its number, from 0 on.
    failures : int
        Of a preparation: how often it failed.
    until : int
        Of an expiry of neighbours: the window after the last of them, 0 where it is one window alone.
    draft_id : str or None
        Of a validation: the draft in staging that it is about.
    look : int
        Of a training, its partials and its validation: which try of the PTK on this newest window it is, from 1 on.
    trace : str or None
        The W3C `traceparent` of the request or job that asked for this one, where traces are kept.
    """

    id: str
    kind: JobKind
    stream: str
    state: JobState
    due_at: datetime
    window_index: int | None = None
    oldest_window: int | None = None
    ptk_id: str | None = None
    subscription_id: str | None = None
    reservation: str | None = None
    n_rows: int = 0
    partition: int = 0
    position: int = 0
    version: int = 0
    facts_of: int = 0
    partial: int = 0
    failures: int = 0
    until: int = 0
    fence: int = 0
    attempt: int = 0
    lease_until: datetime | None = None
    outcome: Outcome | None = None
    draft_id: str | None = None
    look: int = 1
    trace: str | None = None

    @property
    def expiring_windows(self) -> tuple[WindowId, ...]:
        """The windows that an expiry is about: one, or those before `until` where nobody wanted any of them."""
        end = max(self.until, self.window.index + 1)
        return tuple(WindowId(self.stream, index) for index in range(self.window.index, end))

    @property
    def window(self) -> WindowId:
        """The window that a job of a window is about."""
        if self.window_index is None:
            raise InvariantBroken(f"job {self.id} belongs to no window")
        return WindowId(self.stream, self.window_index)

    @property
    def made_in(self) -> WindowId:
        """The window that its owner knows it by: of a validation the one whose state is tested, whatever tests it."""
        drafted = None if self.draft_id is None else window_of(self.draft_id)
        return self.window if drafted is None else drafted

    @property
    def oldest(self) -> WindowId:
        """The oldest window that a run may read; the same as `window` where it reads one."""
        return self.window if self.oldest_window is None else WindowId(self.stream, self.oldest_window)

    @property
    def is_drop(self) -> bool:
        """Whether it is the expiry of a window whose blocks are all retired, and which its retention still keeps."""
        return self.kind is JobKind.EXPIRE and self.id.endswith(f"/{_RETIRED}")

    @property
    def share(self) -> str:
        """The share of the workers that the job takes: that of its PTK's team, or that of its stream."""
        return f"stream {self.stream}" if self.ptk_id is None else team_of(self.ptk_id)

    @property
    def made_by(self) -> str:
        """The id of the job that made the state that it elects: its own, or that of what it validates."""
        if self.kind is not JobKind.VALIDATE:
            return self.id
        return self.beside(JobKind.TRAIN if self.made_in.stream == self.stream else JobKind.AVERAGE)

    def beside(self, kind: JobKind) -> str:
        """Return the id of the job of another kind for the same try on the same window."""
        return job_id(kind, self.ptk_id, self.made_in.index, look=self.look)

    @classmethod
    def rollback(cls, stream: str, ptk_id: str, number: int, now: datetime) -> Job:
        """Return the job that records a version which repeats an older one."""
        name = job_id(JobKind.ROLLBACK, ptk_id, number)
        return cls(
            name, JobKind.ROLLBACK, stream, JobState.ENDED, now, ptk_id=ptk_id, outcome=Outcome.PUBLISHED
        )

    def ended(self, outcome: Outcome) -> Job:
        """Return the job, over."""
        return replace(self, state=JobState.ENDED, outcome=outcome)


def job_id(kind: JobKind, *names: object, look: int = 1) -> str:
    """Return the one id of this work: asking for it twice gives the same job.

    Parameters
    ----------
    look : int
        The number of the PTK's try on this newest window. The first one is not named.
    """
    return "/".join((kind.value, *map(str, names), *((str(look),) if look > 1 else ())))


def cursor(
    kind: JobKind, stream: str, ptk_id: str, now: datetime, *, subscription_id: str | None = None
) -> Job:
    """Return a cursor that has nothing to do yet.

    Parameters
    ----------
    subscription_id : str, optional
        Of a cursor that delivers.
    """
    return Job(
        job_id(kind, subscription_id or ptk_id),
        kind,
        stream,
        JobState.IDLE,
        now,
        ptk_id=ptk_id,
        subscription_id=subscription_id,
    )


def scheduler_of(stream: str) -> str:
    """Return the id of the job that schedules an adaptive stream; there is none on others."""
    return job_id(JobKind.SCHEDULE, stream)


def scheduler(stream: str, now: datetime) -> Job:
    """Return the job that schedules an adaptive stream, with nothing to do yet."""
    return Job(scheduler_of(stream), JobKind.SCHEDULE, stream, JobState.IDLE, now)


def paid_run(
    kind: JobKind,
    ptk_id: str,
    window: WindowId,
    now: datetime,
    *,
    oldest: int | None = None,
    version: int = 0,
    look: int = 1,
) -> Job:
    """Return a PTK's run on a window, due now; an evaluation is named by the version that it reads.

    Parameters
    ----------
    window : WindowId
        The newest window that it reads.
    oldest : int, optional
        The oldest one, where it may read several.
    version : int
        The version whose state an evaluation or a drift test reads.
    look : int
        The number of the PTK's try on this newest window, of a training or a validation.
    """
    name = job_id(kind, ptk_id, version if kind is JobKind.EVALUATE else window.index, look=look)
    return Job(
        name,
        kind,
        window.stream,
        JobState.READY,
        now,
        window_index=window.index,
        oldest_window=None if oldest == window.index else oldest,
        ptk_id=ptk_id,
        reservation=name,
        version=version,
        look=look,
    )


def validation_of(made_by: Job, draft_id: str, now: datetime, *, window: WindowId | None = None) -> Job:
    """Return the job that validates the state that a training or an average made, due now.

    Parameters
    ----------
    window : WindowId, optional
        Of a labelled stream, where the rows behind the state are on devices.
    """
    oldest, look = made_by.oldest_window, made_by.look
    made_in, ptk_id = made_by.window, str(made_by.ptk_id)
    validation = paid_run(JobKind.VALIDATE, ptk_id, made_in, now, oldest=oldest, look=look)
    tested = made_in if window is None else window
    return replace(validation, draft_id=draft_id, stream=tested.stream, window_index=tested.index)


def job_of_window(kind: JobKind, window: WindowId, now: datetime) -> Job:
    """Return the one job of this kind for a window, due now."""
    return Job(job_id(kind, window), kind, window.stream, JobState.READY, now, window_index=window.index)


def average_of(ptk_id: str, window: WindowId, now: datetime) -> Job:
    """Return the job that publishes the average of a PTK's instances as a window on devices closes, due now."""
    name = job_id(JobKind.AVERAGE, ptk_id, window.index)
    return Job(
        name,
        JobKind.AVERAGE,
        window.stream,
        JobState.READY,
        now,
        window_index=window.index,
        ptk_id=ptk_id,
    )


def drop_of(window: WindowId, now: datetime) -> Job:
    """Return the job that lets a window expire before its retention ends, as all its blocks are retired."""
    made = job_of_window(JobKind.EXPIRE, window, now)
    return replace(made, id=f"{made.id}/{_RETIRED}")


def slots_for_team_code(slots: int) -> int:
    """Return how many slots may run team code at once: with two or more, one is for the library alone."""
    return max(1, slots - 1)


def backoff(attempt: int, *, first: timedelta, most: timedelta) -> timedelta:
    """Return the wait before the next try: doubling from `first`, at most `most`."""
    doublings: int = min(max(attempt - 1, 0), 30)
    return min(first * (1 << doublings), most)


def retry_wait(attempts: int) -> timedelta:
    """Return how long work that could not be done waits after so many attempts."""
    return backoff(attempts, first=_FIRST_WAIT, most=_LONGEST_WAIT)


def next_tick(now: datetime, tick: timedelta) -> datetime:
    """Return the next multiple of `tick` on the clock: results leave on ticks (differences.md F6)."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + -(-(now - epoch) // tick) * tick
