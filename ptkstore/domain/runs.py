"""Runs that open rows: when one may not begin, or not begin again."""

from __future__ import annotations

from collections.abc import Collection

from ptkstore.domain.jobs import MAX_ATTEMPTS, Job, JobKind, JobState, Outcome
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.streams import Assurance
from ptkstore.domain.streams.windows import WindowState


def hopeless(job: Job, spec: PtkSpec | None, windows: Collection[WindowState]) -> Outcome | None:
    """Say how the job ends without opening rows now; None if it may open them.

    A run that has paid goes on with those of its windows that are left; one that has not needs all that it reserved.

    A run that opened rows and did not end is repeated for our own estimators only, whose worker was lost or waited for
    what did not answer; what repeats by its own choice selects among its outputs (differences.md F3).
    """
    if spec is None:
        return Outcome.WITHDRAWN
    rerun = job.state is JobState.OPENED
    left = [window is WindowState.PREPARED for window in windows]
    if not (any(left) if has_paid(job) else all(left)):
        return Outcome.EXPIRED
    if rerun and (runs_once(spec) or job.attempt > MAX_ATTEMPTS):
        return Outcome.FAILED
    return None


def has_paid(job: Job) -> bool:
    """Tell whether the loss of a run is spent; a partial is queued by the spend of its training."""
    return job.state is JobState.OPENED or job.kind is JobKind.PARTIAL


def runs_once(spec: PtkSpec) -> bool:
    """Tell whether nobody else may go on with a run of this PTK once its loss is spent."""
    return spec.assurance is not Assurance.LIBRARY
