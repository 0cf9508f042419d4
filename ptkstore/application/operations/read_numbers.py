"""Numbers for operators: waiting work, late work, unspent budget; all of it ids and public numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ptkstore.application.ledger.budgets import budget_of
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.blocks import BlockState
from ptkstore.domain.streams.policies import Closing
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import start_of
from ptkstore.ports.catalog import Read
from ptkstore.ports.operations import Numbers
from ptkstore.ports.runtime import Clock
from ptkstore.ports.streams import Progress


@dataclass(frozen=True, slots=True)
class StreamNumbers:
    """A stream's blocks that may still be charged, and how late its next window is closed."""

    active_blocks: int
    least_left_epsilon: float | None
    close_late: timedelta


@dataclass(frozen=True, slots=True)
class StoreNumbers:
    """All of it, as of `now`."""

    now: datetime
    streams: tuple[Stream, ...]
    ptks: tuple[PtkSpec, ...]
    by_stream: Mapping[str, StreamNumbers]
    work: Numbers


def read_numbers(*, begin: Read, clock: Clock) -> StoreNumbers:
    """Read them; the ledger of each stream in a transaction of its own."""
    now = clock.now()
    with begin() as uow:
        streams, ptks, work = uow.streams.all(), uow.ptks.find(), uow.operations.numbers(now)
        progress = {stream.name: uow.streams.progress(stream.name) for stream in streams}
    by_stream = {stream.name: _numbers_of(stream, progress[stream.name], now, begin) for stream in streams}
    return StoreNumbers(now, streams, ptks, by_stream, work)


def _numbers_of(stream: Stream, progress: Progress, now: datetime, begin: Read) -> StreamNumbers:
    lines = [one for one in budget_of(stream.name, begin=begin) if one.state is BlockState.ACTIVE]
    late = timedelta(0)
    if stream.policy.closing is Closing.CLOCK:
        due = start_of(stream.policy, progress.closed_before + 1) + stream.policy.lateness
        late = max(late, now - due)
    least = min((one.left.epsilon for one in lines), default=None)
    return StreamNumbers(len({one.number for one in lines}), least, late)
