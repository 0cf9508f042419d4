"""Claim a job, and put it off when its work could not be done."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from ptkstore.application.signs_of_life import EVERY, ProcessRole
from ptkstore.domain.jobs import Job, JobState, retry_wait
from ptkstore.errors import OutcomeUnknown, Unavailable
from ptkstore.ports.catalog import Begin, CatalogView
from ptkstore.ports.world import Clock, Steps


def claim_job(job_id: str, *, begin: Begin, clock: Clock, lease: timedelta, steps: Steps) -> Job | None:
    """Take the job if it may be worked on now; None if there is nothing to do. A hint may come late or twice."""
    with begin() as uow:
        job = uow.jobs.claim(job_id, clock.now(), lease)
        uow.commit()
    if job is not None:
        steps.reached("claimed", job.id)
    return job


def claim_fairest(*, begin: Begin, clock: Clock, lease: timedelta, steps: Steps) -> Job | None:
    """Take the due job whose turn it is; None if there is nothing to do.

    Each worker process runs one job at a time and shows that it lives, so that those that do are the slots to share.
    """
    now = clock.now()
    with begin() as uow:
        job = uow.jobs.claim_fairest(now, lease, slots_of(uow, now))
        uow.commit()
    if job is not None:
        steps.reached("claimed", job.id)
    return job


def slots_of(uow: CatalogView, now: datetime) -> int:
    """How many jobs the living workers run at once; one that was killed counts no longer once it missed a sign."""
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
