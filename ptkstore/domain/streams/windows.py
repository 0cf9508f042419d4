"""Tumbling windows of event time: half-open, closed in order, expired by retention (differences.md F5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from ptkstore.domain.streams.policies import Policy

INDEX_MAX = 10**18 - 1
"""No window has a later index: 64 bits hold this one."""

NOT_PREPARED = "not-prepared"
"""The code of a window whose rows could not be put into parts, so that nothing is trained on it."""


class WindowState(StrEnum):
    """A closed window is prepared once its rows are in partitions; expiring once no run may open it any more."""

    CLOSED = "closed"
    PREPARED = "prepared"
    EXPIRING = "expiring"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, order=True)
class WindowId:
    """The `index`-th window of a stream, counted from the stream's origin."""

    stream: str
    index: int

    def __str__(self) -> str:
        return f"{self.stream}/{self.index}"


@dataclass(frozen=True, slots=True)
class Window:
    """A window that has closed."""

    id: WindowId
    start: datetime
    end: datetime
    state: WindowState


def n_spent_on(windows: Iterable[Window], retired_before: int, first: int = 0, end: int | None = None) -> int:
    """Count windows from `first` to before `end` on which losses may have been spent.

    A restored catalog has forgotten windows. So all below `retired_before` count after a recovery, known or not.

    Parameters
    ----------
    windows : iterable of Window
        Those of the range that the catalog knows.
    """
    doubted = retired_before if end is None else min(end, retired_before)
    return max(0, doubted - max(first, 0)) + sum(one.id.index >= retired_before for one in windows)


def index_of(policy: Policy, time: datetime) -> int:
    """Return the window of `time`; negative before the origin."""
    return (time - policy.origin) // policy.window


def start_of(policy: Policy, index: int) -> datetime:
    """Return the first instant of a window; the window ends where the next one starts."""
    return policy.origin + index * policy.window


def kept_until(policy: Policy, index: int) -> datetime:
    """Return the event time up to which the rows of a window are kept; the last of all times if that is later."""
    try:
        return start_of(policy, index + policy.retention_windows + 1)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def closable_before(policy: Policy, reached: datetime) -> int:
    """Return the index below which windows have ended, lateness included, at event time `reached`."""
    return max(0, index_of(policy, reached - policy.lateness))


def expired_before(policy: Policy, reached: datetime) -> int:
    """Return the index below which windows have left their retention at event time `reached`."""
    return max(0, index_of(policy, reached) - policy.retention_windows)
