"""Let a window go: no run may open it, its key and its files are destroyed (differences.md F5, F14)."""

from __future__ import annotations

from datetime import datetime

from ptkstore.application.ledger.charging import release_unopened
from ptkstore.application.ledger.retired_windows import drop_windows, may_go
from ptkstore.application.training.partials import discard, locked_partials_of
from ptkstore.application.versions.drafts import destroy_drafts
from ptkstore.application.windows.unprepared import notify_not_prepared, notify_trainers
from ptkstore.domain.draft_ids import window_of
from ptkstore.domain.jobs import WHILE_KEPT, Job, JobKind, JobState, Outcome, scheduler_of
from ptkstore.domain.notices import Notice
from ptkstore.domain.runs import needs_all
from ptkstore.domain.streams.blocks import erased_with
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.ports.catalog import Begin, UnitOfWork
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import RawZone, Staging
from ptkstore.ports.runtime import Clock, Steps


def expire_window(
    job: Job, *, begin: Begin, clock: Clock, keys: KeyStore, raw: RawZone, staging: Staging, steps: Steps
) -> None:
    """Expire one window, or neighbours that no PTK wanted, or a window whose blocks are retired; repeatable.

    Expiry wins over training: a reservation whose rows were never opened is released and its owner told; a spend stays
    spent. An elected state is DP output, has a key of its own and outlives the window.
    """
    window, windows = job.window, job.expiring_windows
    with begin() as uow:
        stream = uow.streams.lock(job.stream)
        held, state = uow.jobs.held(job), uow.windows.get(window).state
        stale: list[Job] = []
        if job.is_drop and state is WindowState.PREPARED:
            if not may_go(uow, window, stream.policy):  # somebody has queued a run meanwhile
                uow.jobs.save(held.ended(Outcome.WITHDRAWN))
                uow.commit()
                return
            uow.windows.set_state(window, WindowState.EXPIRING)
        if state is not WindowState.EXPIRED:
            stale = _end_runs(uow, window, stream.team, clock)
            drop_windows(uow, stream.name, stream.policy, clock.now())  # runs over several windows have ended
            uow.jobs.wake(scheduler_of(stream.name), clock.now())
        elected, refused = uow.versions.draft_ids(windows), uow.jobs.refused_drafts(job.stream)
        uow.commit()
    steps.reached("expiring", job.id)
    for one in windows:
        keys.destroy_window(one)
    steps.reached("key-destroyed", job.id)
    discard(stale, keys, staging)
    try:
        for one in windows:
            raw.delete_window(one)
    finally:
        # By their keys first, for a run may have died before it wrote its draft, and staging may not be listed now.
        # Of other windows, those whose validation is over, in case nobody was left to destroy them.
        for drafts in (keys.draft_ids, staging.drafts):
            gone = [one for one in {*drafts()} - elected if window_of(one) in windows or one in refused]
            destroy_drafts(gone, keys, staging)
    steps.reached("files-deleted", job.id)
    with begin() as uow:
        uow.streams.lock(job.stream)
        held = uow.jobs.held(job)
        for one in windows:
            uow.windows.set_state(one, WindowState.EXPIRED)
            if (blocks := erased_with(one, stream.policy)) is not None:
                uow.ledger.erase(job.stream, blocks)
        uow.thresholds.expire(windows)
        uow.jobs.save(held.ended(Outcome.DONE))
        uow.jobs.remove_ended(before=window)
        uow.commit()
    steps.reached("expired", job.id)


def _goes_on(uow: UnitOfWork, run: Job, window: WindowId) -> bool:
    """Whether a run over several windows, which gets nothing back, continues with another one of them."""
    if needs_all(run) or run.oldest_window is None:
        return False
    others = {*range(run.oldest_window, run.window.index + 1)} - {window.index}
    return WindowState.PREPARED in uow.windows.states(run.stream, sorted(others)).values()


def _collect_anew(uow: UnitOfWork, training: Job, now: datetime) -> tuple[Job, ...]:
    """Have a training's partials collected once more: those that are there may hold exact sums of a window that goes.

    Returned as they were, for what they left in staging is to be destroyed.
    """
    partials = locked_partials_of(uow, training)
    for one in partials:
        if one.state is JobState.ENDED:
            uow.jobs.begin_again(one, now)
    return partials


def _end_runs(uow: UnitOfWork, window: WindowId, team: str, clock: Clock) -> list[Job]:
    """End what cannot go on without the window; return the partials whose drafts are to be destroyed."""
    now = clock.now()
    prepares = uow.jobs.of_window(window, JobKind.PREPARE)
    planned = any(job.outcome is Outcome.DONE for job in uow.jobs.of_window(window, JobKind.ALLOCATE))
    notified = planned or not prepares  # nobody wanted it when it closed
    for prepare in prepares:
        if prepare.state is not JobState.ENDED and prepare.failures:  # it failed, and was yet to be given up
            notify_not_prepared(uow, window, team, now)
        notified = notified or prepare.failures > 0
    if not notified:
        notify_trainers(uow, window, "expired", now)
    stale: list[Job] = []
    for kind in WHILE_KEPT:
        for run in uow.jobs.of_window(window, kind):
            if run.state is JobState.ENDED:
                continue
            if _goes_on(uow, run, window):
                uow.jobs.save(run)  # without its lease: a claim that opened this window as well is over
                if run.kind is JobKind.TRAIN:
                    stale += _collect_anew(uow, run, now)
                continue
            release_unopened(uow, run.reservation)
            uow.jobs.save(run.ended(Outcome.EXPIRED))
            if run.ptk_id is not None and kind is not JobKind.PARTIAL:
                uow.notify_owner(Notice.of_run(run, "expired", now))
    return stale
