"""Say which windows of a stream are open, closing, closed and expired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ptkstore.domain.streams.policies import Closing, Policy
from ptkstore.domain.streams.windows import WindowState, index_of, kept_until, start_of
from ptkstore.ports.catalog import Read
from ptkstore.ports.runtime import Clock


class Stage(StrEnum):
    """The place of a window in its life, as people call it."""

    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"
    EXPIRING = "expiring"
    EXPIRED = "expired"


_STAGES = {
    WindowState.CLOSED: Stage.CLOSED,
    WindowState.PREPARED: Stage.CLOSED,
    WindowState.EXPIRING: Stage.EXPIRING,
    WindowState.EXPIRED: Stage.EXPIRED,
}


@dataclass(frozen=True, slots=True)
class TimedWindows:
    """A window, or windows from `first` to `last` of one stage; without a `last` all from there on.

    `until` is the event time up to which the policy keeps its rows. It is None for windows that expired or that an
    operator has yet to close, and where rows stay on devices. `versions` counts those in the lake that were trained on
    it; None for windows that have not closed, and if nobody asked.
    """

    first: int
    last: int | None
    start: datetime
    end: datetime | None
    stage: Stage
    until: datetime | None = None
    versions: int | None = None


@dataclass(frozen=True, slots=True)
class TimeLine:
    """Some windows of a stream by number. `first` and `below` are the closed ones of this page; `closed_before` all."""

    first: int
    below: int
    closed_before: int
    windows: tuple[TimedWindows, ...]


def read_time_line(
    stream: str,
    limit: int,
    before: int | None = None,
    *,
    with_versions: bool = False,
    begin: Read,
    clock: Clock,
) -> TimeLine:
    """Return up to `limit` windows that closed, and those that are not closed yet if they follow.

    Nothing here depends on rows: it follows from clock, policy and the steps of the service.

    Parameters
    ----------
    before : int, optional
        Only windows below this number; by default the newest, with those that are still open.

    Raises
    ------
    UnknownName
        No such stream.
    """
    with begin() as uow:
        policy = uow.streams.get(stream).policy
        closed_before = uow.streams.progress(stream).closed_before
        below = closed_before if before is None else max(0, min(before, closed_before))
        first = max(0, below - limit)
        closed = uow.windows.between(stream, first, below)
        counts = uow.versions.on_windows(stream, first, below) if with_versions else ()
    windows = [
        TimedWindows(
            one.id.index,
            one.id.index,
            one.start,
            one.end,
            _STAGES[one.state],
            None
            if policy.on_devices or one.state is WindowState.EXPIRED
            else kept_until(policy, one.id.index),
            _made_from(one.id.index, counts) if with_versions else None,
        )
        for one in closed
    ]
    if below == closed_before:
        windows += _not_closed(policy, closed_before, clock.now())
    return TimeLine(first, below, closed_before, tuple(windows))


def _not_closed(policy: Policy, first: int, now: datetime) -> list[TimedWindows]:
    """The windows that take rows: open ones, and those whose end has passed while late rows may come."""
    if policy.closing is Closing.OPERATOR:
        return [TimedWindows(first, None, start_of(policy, first), None, Stage.OPEN)]
    current = max(first, index_of(policy, now))
    ended = [_coming(policy, first, current - 1, Stage.CLOSING)] if current > first else []
    return [*ended, _coming(policy, current, current, Stage.OPEN)]


def _coming(policy: Policy, first: int, last: int, stage: Stage) -> TimedWindows:
    until = None if policy.on_devices else kept_until(policy, last)
    return TimedWindows(first, last, start_of(policy, first), start_of(policy, last + 1), stage, until)


def _made_from(index: int, counts: Sequence[tuple[int, int, int]]) -> int:
    return sum(count for oldest, newest, count in counts if oldest <= index <= newest)
