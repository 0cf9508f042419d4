"""Publish an older state of a PTK again, as its next version."""

from __future__ import annotations

from ptkstore.domain.draft_ids import draft_id
from ptkstore.domain.jobs import Job, JobKind, JobState, job_id
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.versions import (
    Version,
    election_time,
    repeated_version,
    repeating_manifest,
)
from ptkstore.errors import Conflict, InvalidRequest, UnknownName
from ptkstore.ports.catalog import Begin, UnitOfWork
from ptkstore.ports.runtime import Clock


def rollback_ptk(ptk_id: str, to: int, *, begin: Begin, clock: Clock) -> Version:
    """Elect a version that repeats version `to`; it goes to the lake, to Feast and to subscribers as any other.

    No row is read and no budget is spent: the state is public already. Repeating the request changes nothing. The next
    training continues from that state; devices begin anew around it, as `DevicePtk.begun_for` changes.

    Raises
    ------
    UnknownName
        No such PTK, or no such version in the lake.
    InvalidRequest
        `to` is the newest version.
    Conflict
        A training is under way, which may go on from the state that is to be replaced.
    """
    with begin() as uow:
        spec = uow.ptks.lock(ptk_id)
        if spec is None:
            raise UnknownName("PTK", ptk_id)
        newest = uow.versions.latest(ptk_id)
        placed = uow.jobs.get(job_id(JobKind.PLACE, ptk_id)).position
        if newest is not None and to == newest.number:
            raise InvalidRequest(
                f"version {to} of {ptk_id} is the newest already; if its rows online are lost,"
                f" `ptk materialize {ptk_id}` writes them again"
            )
        if newest is None or not 1 <= to <= placed:
            raise UnknownName("published version", f"{ptk_id} v{to}")
        if repeated_version(newest.content) == to:
            return newest
        now = clock.now()
        if _is_trained(ptk_id, uow):
            raise Conflict(f"a training of {ptk_id} is under way; roll back when it has ended")
        target = uow.versions.get(ptk_id, to)
        number, elected_at = newest.number + 1, election_time(now, newest)
        made_by = Job.rollback(spec.stream, ptk_id, number, now)
        uow.jobs.add(made_by)
        version = Version(
            ptk_id,
            number,
            made_by.id,
            draft_id(WindowId(spec.stream, target.window_index), f"rollback-{ptk_id}-{number}"),
            target.window_index,
            elected_at,
            repeating_manifest(target, newest, elected_at),
        )
        uow.versions.add(version)
        uow.jobs.wake(job_id(JobKind.PLACE, ptk_id), now)
        uow.commit()
    return version


def _is_trained(ptk_id: str, uow: UnitOfWork) -> bool:
    """Whether a training is under way; waiting ones are locked, so that none begins before the rollback ends.

    A state that waits for its verdict was trained already: it may go on from the one that is to be replaced.
    """
    kinds, live = (JobKind.TRAIN, JobKind.VALIDATE, JobKind.AVERAGE), (JobState.READY, JobState.OPENED)
    runs = [j for j in uow.jobs.find(ptk_id=ptk_id) if j.kind in kinds and j.state in live]
    held = map(uow.jobs.lock, [job.id for job in runs])
    return any(
        job.state is JobState.OPENED
        or (job.state is JobState.READY and (job.kind is JobKind.VALIDATE or job.lease_until is not None))
        for job in held
    )
