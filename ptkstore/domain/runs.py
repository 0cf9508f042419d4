"""Runs that open rows: when one may not begin, or not begin again."""

from __future__ import annotations

from collections.abc import Collection

from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.jobs import MAX_ATTEMPTS, Job, JobKind, JobState, Outcome
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.windows import WindowState


def hopeless(job: Job, spec: PtkSpec | None, windows: Collection[WindowState]) -> Outcome | None:
    """Say how the job ends without opening rows now; None if it may open them.

    A run continues with the windows that remain; a training that has yet to pay needs all that it reserved.

    A run that opened rows and did not end is repeated for our own estimators only. Its worker must have been lost, or
    have waited for something that did not answer. A run that repeats by its own choice selects among its outputs
    (differences.md F3).
    """
    if spec is None:
        return Outcome.WITHDRAWN
    rerun = job.state is JobState.OPENED
    left = [window is WindowState.PREPARED for window in windows]
    if not (all(left) if needs_all(job) else any(left)):
        return Outcome.EXPIRED
    if rerun and (runs_once(spec) or job.attempt > MAX_ATTEMPTS):
        return Outcome.FAILED
    return None


def needs_all(job: Job) -> bool:
    """Tell whether a run needs all windows that it names: it has reserved on each, and may still get that back."""
    return job.kind is JobKind.TRAIN and job.state is JobState.READY


def runs_once(spec: PtkSpec) -> bool:
    """Tell whether nobody else may go on with a run of this PTK once its loss is spent."""
    return spec.assurance is not Assurance.LIBRARY
