"""Give up PTKs whose states are not accepted: nothing more is reserved for them, and their owners get a notice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from ptkstore.application.ledger.charging import release_unopened
from ptkstore.application.ledger.retired_windows import drop_windows_of
from ptkstore.application.scheduling.waiting_ptks import give_up_waiting
from ptkstore.domain.jobs import PAID_RUNS, Job, JobKind, JobState, Outcome
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.accept_deadlines import AcceptDeadline, GivenUp
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.policies import Policy
from ptkstore.ports.catalog import CatalogView, UnitOfWork

_UNDER_WAY = (JobState.READY, JobState.OPENED)


def give_up(uow: UnitOfWork, spec: PtkSpec, why: GivenUp, window: int, at: datetime, look: int = 1) -> None:
    """Train a PTK no longer; the caller has its stream's lock.

    Its trainings that have opened no row are withdrawn and their reservations released. Its versions stay.

    Parameters
    ----------
    window, look : int
        The ones that decided it.
    """
    uow.ptks.wait(spec.ptk_id, replace(spec.waiting or AcceptDeadline(window), given_up=why))
    give_up_waiting(uow, spec.ptk_id, why, at)
    for job in uow.jobs.find(ptk_id=spec.ptk_id):
        if job.kind is JobKind.TRAIN:
            withdraw(uow, uow.jobs.lock(job.id), at)
    uow.notify_owner(
        Notice(
            at,
            spec.team,
            f"validation-{why}",
            ptk_id=spec.ptk_id,
            window_index=window,
            run=JobKind.VALIDATE,
            look=look,
        )
    )


def give_up_timed_out(
    uow: UnitOfWork, specs: Iterable[PtkSpec], window: int, policy: Policy, now: datetime
) -> tuple[PtkSpec, ...]:
    """Give up those of the PTKs that waited for their timeout before a window; return them all as they are then.

    The caller has the stream's lock. A PTK with a training or a validation under way waits for its verdict.
    """
    return tuple(
        _given_up(uow, spec, window, now) if spec.has_timed_out(window, policy) else spec for spec in specs
    )


def _given_up(uow: UnitOfWork, spec: PtkSpec, window: int, now: datetime) -> PtkSpec:
    if _is_under_way(uow, spec.ptk_id):
        return spec
    give_up(uow, spec, GivenUp.TIMEOUT, window, now)
    return uow.ptks.get(spec.ptk_id)


def _is_under_way(uow: CatalogView, ptk_id: str) -> bool:
    kinds = (JobKind.TRAIN, JobKind.VALIDATE)
    return any(one.kind in kinds and one.state in _UNDER_WAY for one in uow.jobs.find(ptk_id=ptk_id))


def withdraw(uow: UnitOfWork, job: Job, now: datetime) -> None:
    """End a paid run that has opened no row, and release its reservation; leave any other job alone.

    The caller has the stream's lock.
    """
    if job.kind in PAID_RUNS and job.state is JobState.READY:
        release_unopened(uow, job.reservation)
        uow.jobs.save(job.ended(Outcome.WITHDRAWN))
        drop_windows_of(uow, job, now)
