"""Close the windows that are due, and let those expire that have left their retention."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ptkstore.domain.blocks import BlockState, created_with
from ptkstore.domain.jobs import Job, JobKind, JobState, job_id
from ptkstore.domain.streams import Closing, Stream
from ptkstore.domain.windows import Window, WindowId, WindowState, closable_before, expired_before, start_of
from ptkstore.errors import InvalidRequest, Refused
from ptkstore.ports.catalog import Begin, UnitOfWork
from ptkstore.ports.world import Clock

_RUNS = (JobKind.PREPARE, JobKind.ALLOCATE, JobKind.TRAIN, JobKind.PROFILE, JobKind.DRIFT, JobKind.EVALUATE)
MAX_WINDOWS = 10_000  # at once; more is a mistake in `until` or in the origin


def close_windows(
    stream_name: str,
    until: datetime | None = None,
    *,
    expire_unfinished: bool = False,
    begin: Begin,
    clock: Clock,
) -> tuple[WindowId, ...]:
    """Close every window that has ended, lateness included, when event time stands at `until`, by default now.

    Windows, their blocks and their jobs come into being by the clock and the policy alone, whatever rows there are
    (PAPERS P7, F5). Windows past their retention get an expiry job.

    Raises
    ------
    InvalidRequest
        `until` lies in the future, or is missing for a stream that its operator closes.
    Refused
        An operator's `until` would expire a window before its trainings ended; `expire_unfinished` insists.
    """
    now = clock.now()
    if until is not None and until > now:
        raise InvalidRequest("until lies in the future; a window cannot close before its end")
    with begin() as uow:
        stream = uow.streams.lock(stream_name)
        if until is None and stream.policy.closing is Closing.OPERATOR:
            raise InvalidRequest(
                f"stream {stream_name!r} is closed by its operator: say until which event time"
            )
        progress = uow.streams.progress(stream_name)
        reached = max(progress.reached, now if until is None else until)
        end = max(progress.closed_before, closable_before(stream.policy, reached))
        if end - progress.closed_before > MAX_WINDOWS:
            if stream.policy.closing is Closing.OPERATOR:
                raise InvalidRequest(
                    f"this would close more than {MAX_WINDOWS} windows; check until and the stream's origin"
                )
            end = progress.closed_before + MAX_WINDOWS  # after a long pause; the next call goes on
        if stream.policy.closing is Closing.OPERATOR and not expire_unfinished:
            _refuse_to_lose(uow, stream, reached)
        closed = tuple(WindowId(stream_name, index) for index in range(progress.closed_before, end))
        for window in closed:
            _close(uow, stream, window, progress.retired_before, now)
        for known in uow.windows.of(stream_name):
            if known.id.index < expired_before(stream.policy, reached) and known.state in (
                WindowState.CLOSED,
                WindowState.PREPARED,
            ):
                # from here on no run opens it (PAPERS F5)
                uow.windows.set_state(known.id, WindowState.EXPIRING)
                uow.jobs.add(_job(JobKind.EXPIRE, known.id, now))
        uow.streams.advance(stream_name, replace(progress, closed_before=end, reached=reached))
        uow.commit()
    return closed


def _close(uow: UnitOfWork, stream: Stream, window: WindowId, retired_before: int, now: datetime) -> None:
    policy = stream.policy
    start, end = start_of(policy, window.index), start_of(policy, window.index + 1)
    uow.windows.add(Window(window, start, end, WindowState.CLOSED))
    if (blocks := created_with(window, policy)) is not None:
        uow.ledger.add_blocks(
            stream.name,
            blocks,
            policy.capacity,
            policy.accountant,
            policy.sharing.lines(policy.capacity),
            BlockState.RETIRED if window.index < retired_before else BlockState.ACTIVE,
        )
    uow.jobs.add(_job(JobKind.PREPARE, window, now))


def _job(kind: JobKind, window: WindowId, now: datetime) -> Job:
    return Job(job_id(kind, window), kind, window.stream, JobState.READY, now, window_index=window.index)


def _refuse_to_lose(uow: UnitOfWork, stream: Stream, reached: datetime) -> None:
    states = {window.id.index: window.state for window in uow.windows.of(stream.name)}
    running = {
        job.window_index
        for job in uow.jobs.find(stream=stream.name)
        if job.kind in _RUNS and job.state is not JobState.ENDED
    }
    first = min(
        (i for i, s in states.items() if s in (WindowState.CLOSED, WindowState.PREPARED)), default=len(states)
    )
    for index in range(first, expired_before(stream.policy, reached)):
        if index not in states or index in running:
            safe = start_of(stream.policy, index + stream.policy.retention_windows + 1)
            raise Refused(
                f"window {index} of {stream.name!r} would expire before its trainings ended; "
                "let its work be done first (ptk work), or close step by step, for now until a time before "
                f"{safe.isoformat()}"
            )
