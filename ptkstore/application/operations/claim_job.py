"""Claim a job, and put it off when its work could not be done."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from ptkstore.application.operations.liveness import EVERY, ProcessRole
from ptkstore.application.planning.estimators import is_light
from ptkstore.domain.jobs import SMALL_AT_ONCE, Job, JobKind, JobState, retry_wait
from ptkstore.domain.runs import runs_once
from ptkstore.errors import OutcomeUnknown, Unavailable, UnknownName
from ptkstore.ports.catalog import Begin, CatalogView
from ptkstore.ports.runtime import Clock, Steps


def claim_job(job_id: str, *, begin: Begin, clock: Clock, lease: timedelta, steps: Steps) -> Job | None:
    """Take the job if it may be worked on now; None if there is nothing to do. A hint may come late or twice.

    Parameters
    ----------
    lease : timedelta
        Lifetime of the claim.
    """
    with begin() as uow:
        job = uow.jobs.claim(job_id, clock.now(), lease)
        uow.commit()
    if job is not None:
        steps.reached("claimed", job.id)
    return job


def claim_fairest(
    *, begin: Begin, clock: Clock, lease: timedelta, small_rows: int, steps: Steps
) -> tuple[Job, ...]:
    """Take the due job whose turn it is, with others that one process can do beside it; none if nothing is to do.

    Each worker process has one slot and shows that it lives, so that those that do are the slots to share. A small
    training mostly waits for its tick. So up to `SMALL_AT_ONCE` small trainings of the library take one slot together,
    as long as they leave as many to each other slot. Planned rows and parameters, which are public, decide what is
    small. The duration of a training is private and decides nothing (differences.md F6).

    Parameters
    ----------
    small_rows : int
        The most planned rows of a small training.
    """
    now = clock.now()
    with begin() as uow:
        slots = slots_of(uow, now)
        first = uow.jobs.claim_fairest(now, lease, slots)
        ready: tuple[str, ...] = ()
        if first is not None and _is_small(uow, first, small_rows):
            ready = small_trainings(uow, now, slots * SMALL_AT_ONCE - 1, small_rows)
        uow.commit()
    if first is None:
        return ()
    steps.reached("claimed", first.id)
    jobs = [first]
    for job_id in ready[: -(-(1 + len(ready)) // slots) - 1]:
        try:  # each by itself: whoever holds the turns of several teams could wait for who waits for it
            job = claim_job(job_id, begin=begin, clock=clock, lease=lease, steps=steps)
        except (Unavailable, OutcomeUnknown):
            break  # those that are claimed are done; this one is claimed again, at the latest after its lease
        if job is not None:
            jobs.append(job)
    return tuple(jobs)


def small_trainings(uow: CatalogView, now: datetime, limit: int, small_rows: int) -> tuple[str, ...]:
    """Return ids of small trainings of the library that could be claimed now, fairest first."""
    ready = map(uow.jobs.get, uow.jobs.due(now, limit, small=small_rows))
    return tuple(job.id for job in ready if _is_small(uow, job, small_rows))


def _is_small(uow: CatalogView, job: Job, small_rows: int) -> bool:
    if job.kind is not JobKind.TRAIN or job.n_rows > small_rows:
        return False
    try:
        spec = uow.ptks.get(str(job.ptk_id))
    except UnknownName:  # deregistered meanwhile
        return False
    return not runs_once(spec) and is_light(spec.estimator)


def slots_of(uow: CatalogView, now: datetime) -> int:
    """Return how many processes the living workers have; one that was killed counts no longer once it missed a sign."""
    alive, _ = uow.operations.last_seen(now - 2 * EVERY).get(ProcessRole.WORKER, (0, now))
    return max(1, alive)


def put_off(job: Job, why: Exception, *, begin: Begin, clock: Clock) -> None:
    """Give a claimed job back, to be tried again after a wait that grows with its attempts.

    A run whose loss is spent and that only has to wait uses up no attempt: its wait grows with its claims.
    """
    with begin() as uow:
        held = uow.jobs.held(job)
        attempt = tries = held.attempt
        if held.state is JobState.OPENED and isinstance(why, Unavailable | OutcomeUnknown):
            attempt, tries = attempt - 1, held.fence
        uow.jobs.save(replace(held, due_at=clock.now() + retry_wait(tries), attempt=attempt))
        uow.commit()
