"""Elect a trained state: from the commit on it is the PTK's next version, and is on its way to the lake."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ptkstore.domain.jobs import Job, JobKind, job_id
from ptkstore.domain.versions.versions import Version
from ptkstore.ports.catalog import UnitOfWork


def elect(
    uow: UnitOfWork,
    job: Job,
    draft_id: str,
    manifest: Callable[[int], str],
    at: datetime,
) -> Version:
    """Make the draft of a training, or an average, the PTK's next version, once.

    Parameters
    ----------
    job : Job
        The training, the validation of what it made, or the average.
    manifest : callable
        Writes the manifest of a version of this number.
    at : datetime
        The tick.
    """
    ptk_id = str(job.ptk_id)
    latest = uow.versions.latest(ptk_id)
    number = latest.number + 1 if latest else 1
    version = Version(ptk_id, number, job.made_by, draft_id, job.made_in.index, at, manifest(number))
    uow.versions.add(version)
    uow.jobs.wake(job_id(JobKind.PLACE, ptk_id), at)
    return version
