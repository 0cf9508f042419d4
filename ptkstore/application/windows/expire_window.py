"""Let a window go: no run may open it, its key and its files are destroyed (differences.md F5, F14)."""

from __future__ import annotations

from ptkstore.application.ledger.charging import release_unopened
from ptkstore.application.versions.drafts import destroy_drafts
from ptkstore.application.windows.unprepared import notify_not_prepared, notify_trainers
from ptkstore.domain.jobs import WHILE_KEPT, Job, JobKind, JobState, Outcome, scheduler_of
from ptkstore.domain.notices import Notice
from ptkstore.domain.runs import has_paid
from ptkstore.domain.streams.blocks import erased_with
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.domain.versions.drafts import window_of
from ptkstore.ports.catalog import Begin, UnitOfWork
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import RawZone, Staging
from ptkstore.ports.runtime import Clock, Steps


def expire_window(
    job: Job, *, begin: Begin, clock: Clock, keys: KeyStore, raw: RawZone, staging: Staging, steps: Steps
) -> None:
    """Expire one window, or neighbours that no PTK wanted; repeatable at any point.

    Expiry wins over training: a reservation whose rows were never opened is released and its owner told; a spend stays
    spent. An elected state is DP output, has a key of its own and outlives the window.
    """
    window, windows = job.window, job.windows
    with begin() as uow:
        stream = uow.streams.lock(job.stream)
        uow.jobs.held(job)
        if uow.windows.get(window).state is not WindowState.EXPIRED:
            _end_runs(uow, window, stream.team, clock)
            uow.jobs.wake(scheduler_of(stream.name), clock.now())
        elected, refused = uow.versions.draft_ids(windows), uow.jobs.refused_drafts(job.stream)
        uow.commit()
    steps.reached("expiring", job.id)
    for one in windows:
        keys.destroy_window(one)
    steps.reached("key-destroyed", job.id)
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
        uow.jobs.save(held.ended(Outcome.DONE))
        uow.jobs.remove_ended(before=window)
        uow.commit()
    steps.reached("expired", job.id)


def _goes_on(uow: UnitOfWork, run: Job, window: WindowId) -> bool:
    """Whether a run that has paid for several windows goes on with another one of them."""
    if not has_paid(run) or run.oldest_window is None:
        return False
    others = (WindowId(run.stream, index) for index in range(run.oldest_window, run.window.index + 1))
    return any(uow.windows.get(one).state is WindowState.PREPARED for one in others if one != window)


def _end_runs(uow: UnitOfWork, window: WindowId, team: str, clock: Clock) -> None:
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
    for kind in WHILE_KEPT:
        for run in uow.jobs.of_window(window, kind):
            if run.state is JobState.ENDED:
                continue
            if _goes_on(uow, run, window):
                uow.jobs.save(run)  # without its lease: a claim that opened this window as well is over
                continue
            release_unopened(uow, run.reservation)
            uow.jobs.save(run.ended(Outcome.EXPIRED))
            if run.ptk_id is not None and kind is not JobKind.PARTIAL:
                uow.notify_owner(Notice.of_run(run, "expired", now))
