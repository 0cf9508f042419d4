"""Windows on which nothing can be spent any more: they may lose their rows before their retention ends."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ptkstore.domain.jobs import WHILE_KEPT, Job, JobState, drop_of
from ptkstore.domain.streams.blocks import BlockState, blocks_of, place_of, share_of
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.ports.catalog import CatalogView, UnitOfWork


def may_go(uow: CatalogView, window: WindowId, policy: Policy) -> bool:
    """Tell whether the rows of a window are of no use: all blocks that can have some are retired, and no job remains.

    Spends retire blocks, and nothing else is asked. Blocks that a recovery retired do not count, for the catalog that
    knows what was spent on them may come back. A part without a share of the privacy units has no rows.
    """
    if not policy.drop_retired or window.index < uow.streams.progress(window.stream).retired_before:
        return False
    if uow.windows.get(window).state is not WindowState.PREPARED:
        return False
    if uow.jobs.unfinished(window.stream, WHILE_KEPT, window.index, window.index + 1):
        return False
    lines = uow.ledger.blocks(window.stream, blocks_of(window, policy))
    with_rows = [one for one in lines if share_of(policy, place_of(one.number, policy).part)]
    return all(one.state is not BlockState.ACTIVE for one in with_rows)


def lock_if_it_drops(uow: UnitOfWork, name: str) -> Stream:
    """Return a stream, locked if it drops windows: of runs that end at once, the last one sees that the others ended.

    A caller that ends a run calls it before other locks are taken.
    """
    stream = uow.streams.get(name)
    return uow.streams.lock(name) if stream.policy.drop_retired else stream


def drop_windows_of(uow: UnitOfWork, run: Job, now: datetime) -> None:
    """Queue the expiry of those windows of a run that may go now that it has ended; see `lock_if_it_drops`."""
    policy = uow.streams.get(run.stream).policy
    drop_windows(uow, run.stream, policy, now, range(run.oldest.index, run.window.index + 1))


def drop_windows(
    uow: UnitOfWork, stream: str, policy: Policy, now: datetime, windows: Iterable[int] | None = None
) -> None:
    """Queue the expiry of those of these windows that may go, where the policy lets any; by default of all prepared."""
    if not policy.drop_retired:
        return
    indexes = uow.windows.prepared(stream) if windows is None else windows
    for window in (WindowId(stream, index) for index in indexes):
        if not may_go(uow, window, policy):
            continue
        uow.jobs.add(drop_of(window, now))
        drop = uow.jobs.lock(drop_of(window, now).id)
        if drop.state is JobState.ENDED:  # it came before another run of the window had ended
            uow.jobs.begin_again(drop, now)
