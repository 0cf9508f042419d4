"""Close the windows that are due, and let those expire that have left their retention."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from datetime import datetime
from functools import partial

from ptkstore.application.ledger.retired_windows import drop_windows
from ptkstore.domain.jobs import PAID_RUNS, Job, JobKind, average_of, job_of_window
from ptkstore.domain.streams.blocks import BlockState, created_with
from ptkstore.domain.streams.policies import Closing, Policy
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import (
    Window,
    WindowId,
    WindowState,
    closable_before,
    expired_before,
    index_of,
    start_of,
)
from ptkstore.errors import InvalidRequest, Refused
from ptkstore.ports.catalog import Begin, CatalogView, UnitOfWork
from ptkstore.ports.runtime import Clock, TellSteps, tell_nobody
from ptkstore.ports.streams import Progress

_UNFINISHED = (JobKind.PREPARE, JobKind.ALLOCATE, *PAID_RUNS)
MAX_WINDOWS = 10_000  # at once; more is a mistake in `until` or in the origin
STEP = 200  # windows in one transaction: whoever waits for the stream's lock comes in between


def close_windows(
    stream_name: str,
    until: datetime | None = None,
    *,
    expire_unfinished: bool = False,
    at_most: int | None = None,
    tell: TellSteps = tell_nobody,
    begin: Begin,
    clock: Clock,
) -> tuple[WindowId, ...]:
    """Close every window that has ended, lateness included, at event time `until`, by default now.

    Windows and their blocks come into being by the clock and the policy alone, whatever rows there are (differences.md
    P7, F5). A window that a registered PTK wants gets a job that prepares it, and one that lets it expire. Windows
    that none wants, whatever rows they contain, share one job if they expire together.

    A window of rows that stay on devices has no rows, key or block, so it has expired as it closes. Each PTK gets a job
    that publishes the average of its instances, whether a device reported or not.

    Many windows are closed in several transactions. Each leaves a whole state, and after a crash, or if `at_most`
    ended a call, the next call continues. The first transaction decides what expires. A refusal has changed nothing,
    and from then on no run begins that the next ones would end.

    Parameters
    ----------
    until : datetime, optional
        An event time.
    at_most : int, optional
        Windows that one call closes.
    tell : callable
        Hears after each transaction how many windows are closed, and how many will be.

    Raises
    ------
    InvalidRequest
        `until` is in the future, or is missing for a stream that its operator closes.
    Refused
        An operator's `until` would expire a window before its trainings ended; `expire_unfinished` insists.
    """
    now = clock.now()
    if until is not None and until > now:
        raise InvalidRequest("until is in the future; a window cannot close before its end")
    most_in_all = MAX_WINDOWS if at_most is None else at_most
    closed: list[WindowId] = []
    allowed = done = False
    while not done and len(closed) < most_in_all:
        with begin() as uow:
            stream = uow.streams.lock(stream_name)
            progress = uow.streams.progress(stream_name)
            reached = max(progress.reached, now if until is None else until)
            if stream.policy.closing is Closing.OPERATOR and not allowed:
                _check(uow, stream, progress, until, reached, expire_unfinished=expire_unfinished)
            allowed = True
            if stream.policy.closing is Closing.CLOCK and not _is_due(stream.policy, progress, reached):
                break
            most = min(STEP, most_in_all - len(closed))
            after = _after(stream.policy, progress, reached, most)
            closed += _step(uow, stream, progress, after, reached, now)
            done = after == _after(stream.policy, after, reached, most)
            left = max(0, closable_before(stream.policy, reached) - after.closed_before)
            uow.commit()
        tell(len(closed), len(closed) + left)
    return tuple(closed)


def _after(policy: Policy, progress: Progress, reached: datetime, most: int) -> Progress:
    """The progress of a stream after a step of so many windows, if event time is at `reached` in the end."""
    passed = index_of(policy, progress.reached)
    here = reached if index_of(policy, reached) - passed <= most else start_of(policy, passed + most)
    end = min(closable_before(policy, here), progress.closed_before + most)
    return replace(progress, closed_before=max(progress.closed_before, end), reached=here)


def _is_due(policy: Policy, progress: Progress, reached: datetime) -> bool:
    """Whether a window is to be closed or to expire; if none is, the clock need not be written down."""
    ends = closable_before(policy, reached) > progress.closed_before
    return ends or expired_before(policy, reached) > expired_before(policy, progress.reached)


def _step(
    uow: UnitOfWork, stream: Stream, before: Progress, after: Progress, reached: datetime, now: datetime
) -> list[WindowId]:
    """Go on from `before`, below whose retention all windows that have closed are expiring already."""
    policy = stream.policy
    if policy.on_devices:
        return _step_on_devices(uow, stream, before, after, now)
    leaves, late = (expired_before(policy, time) for time in (before.reached, reached))
    # from here on no run opens them (differences.md F5), nor would one that the next steps would end
    expiring = list(uow.windows.let_expire(stream.name, leaves, late))
    closed = [WindowId(stream.name, index) for index in range(before.closed_before, after.closed_before)]
    expiring += [window for window in closed if window.index < late]
    states = (WindowState.EXPIRING if window.index < late else WindowState.CLOSED for window in closed)
    uow.windows.add(*map(partial(_window, policy), closed, states), at=now)
    retired = min(max(before.retired_before, before.closed_before), after.closed_before)
    _add_blocks(uow, stream, range(before.closed_before, retired), BlockState.RETIRED)
    _add_blocks(uow, stream, range(retired, after.closed_before), BlockState.ACTIVE)
    specs = uow.ptks.find(stream=stream.name)
    wanted = {window.index for window in closed if any(spec.wants(window.index) for spec in specs)}
    # an operator may register PTKs between closing and working, later PTKs read what adaptive streams keep, and models
    # that devices train may be tested on any window
    if policy.closing is Closing.OPERATOR or policy.scheduler.lets_wait or uow.ptks.tested_on(stream.name):
        wanted = {window.index for window in closed}
    first, end = (expiring[0].index, expiring[-1].index + 1) if expiring else (0, 0)
    busy = wanted | uow.jobs.prepared(stream.name, first, end)
    uow.jobs.add(
        *(job_of_window(JobKind.PREPARE, window, now) for window in closed if window.index in wanted),
        *(_expiry(stream.name, some, now) for some in _together(expiring, busy)),
    )
    uow.streams.advance(stream.name, after)
    drop_windows(uow, stream.name, policy, now)
    return closed


def _step_on_devices(
    uow: UnitOfWork, stream: Stream, before: Progress, after: Progress, now: datetime
) -> list[WindowId]:
    policy, name = stream.policy, stream.name
    closed = [WindowId(name, index) for index in range(before.closed_before, after.closed_before)]
    uow.windows.add(*(_window(policy, window, WindowState.EXPIRED) for window in closed), at=now)
    specs = uow.ptks.find(stream=name)
    uow.jobs.add(
        *(
            average_of(spec.ptk_id, window, now)
            for window in closed
            for spec in specs
            if spec.trains_on(window.index)
        )
    )
    uow.streams.advance(name, after)
    return closed


def _window(policy: Policy, window: WindowId, state: WindowState) -> Window:
    return Window(window, start_of(policy, window.index), start_of(policy, window.index + 1), state)


def _add_blocks(uow: UnitOfWork, stream: Stream, windows: range, state: BlockState) -> None:
    policy = stream.policy
    made = (created_with(WindowId(stream.name, index), policy) for index in windows)
    numbers = [number for blocks in made if blocks is not None for number in blocks]
    if numbers:
        lines = policy.lines
        uow.ledger.add_blocks(stream.name, numbers, policy.capacity, policy.accountant, lines, state)


def _together(windows: list[WindowId], alone: Set[int]) -> list[range]:
    """Neighbours that expire by one job, in order, so many at most as a step closes; those `alone` by their own."""
    ranges: list[range] = []
    for index in (window.index for window in windows):
        last = ranges[-1] if ranges else range(0)
        joins = last.stop == index and 0 < len(last) < STEP and not {last.start, index} & alone
        if joins:
            ranges[-1] = range(last.start, index + 1)
        else:
            ranges.append(range(index, index + 1))
    return ranges


def _expiry(stream: str, windows: range, now: datetime) -> Job:
    return replace(
        job_of_window(JobKind.EXPIRE, WindowId(stream, windows.start), now),
        until=windows.stop if len(windows) > 1 else 0,
    )


def _check(
    uow: CatalogView,
    stream: Stream,
    progress: Progress,
    until: datetime | None,
    reached: datetime,
    *,
    expire_unfinished: bool,
) -> None:
    """Refuse what an operator cannot have meant."""
    if until is None:
        raise InvalidRequest(f"stream {stream.name!r} is closed by its operator: say until which event time")
    if closable_before(stream.policy, reached) - progress.closed_before > MAX_WINDOWS:
        raise InvalidRequest(
            f"this would close more than {MAX_WINDOWS} windows; check until and the stream's origin"
        )
    if not expire_unfinished and not stream.policy.on_devices:
        _refuse_to_lose(uow, stream, progress, reached)


def _refuse_to_lose(uow: CatalogView, stream: Stream, progress: Progress, reached: datetime) -> None:
    left = expired_before(stream.policy, reached)
    first = min(expired_before(stream.policy, progress.reached), progress.closed_before)
    lost = set(uow.jobs.unfinished(stream.name, _UNFINISHED, first, left)) if first < left else set()
    if progress.closed_before < left:
        lost.add(progress.closed_before)
    if lost:
        safe = start_of(stream.policy, min(lost) + stream.policy.retention_windows + 1)
        raise Refused(
            f"window {min(lost)} of {stream.name!r} would expire before its trainings ended; "
            "let its work be done first (ptk work), or close step by step, for now until a time before "
            f"{safe.isoformat()}"
        )
