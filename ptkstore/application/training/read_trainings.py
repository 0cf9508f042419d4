"""The outcomes of a PTK's trainings: fixed codes and public numbers (differences.md F6, F9)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome
from ptkstore.domain.names import team_of
from ptkstore.domain.notices import Notice
from ptkstore.ports.catalog import Read

WAITS_FOR_VERDICT: Final = "waits-for-verdict"
NO_NEW_TEST_ROWS: Final = "no-new-test-rows"
"""Of an average that was to be tested: the labelled stream had no new window, or another one waited for a verdict."""


@dataclass(frozen=True, slots=True)
class Training:
    """A training on a window, or on several of which `window` is the newest and `oldest_window` the oldest.

    `look` is the number of the try on this newest window, from 1 on. `version` is what it made; `code` says why it
    ended without one: also why its validation did, or that its state waits for its verdict. `ended_at` is the tick that
    it ended on, or when its owner was told, and None where neither is on record. When it began, how often it was tried
    and what it was planned with is not told.
    """

    ptk_id: str
    window: int
    state: JobState
    outcome: Outcome | None
    code: str | None
    version: int | None
    ended_at: datetime | None
    oldest_window: int
    look: int = 1


def trainings_of(
    ptk_id: str,
    *,
    start: int = 0,
    look: int = 1,
    limit: int | None = None,
    newest: bool = False,
    begin: Read,
) -> tuple[Training, ...]:
    """List a PTK's trainings by window and look, or from the newest down.

    Parameters
    ----------
    start, look : int
        The first window, and of that window the first look.

    Raises
    ------
    UnknownName
        There was never such a PTK; one that was deregistered keeps its history.
    """
    with begin() as uow:
        uow.ptks.stream_of(ptk_id)
        jobs = uow.jobs.trainings(ptk_id, start=start, look=look, limit=limit, newest=newest)
        made = uow.versions.of_jobs([job.id for job in jobs])
        failed = [job for job in jobs if job.state is JobState.ENDED and job.id not in made]
        team, windows = team_of(ptk_id), [job.window.index for job in failed]
        notices = uow.notices_about(team, ptk_id, windows=windows)
        averaged = uow.notices_about(team, ptk_id, windows=windows, run=JobKind.AVERAGE)
        judged = uow.notices_about(team, ptk_id, windows=windows, run=JobKind.VALIDATE)
        validations = uow.jobs.many(job.beside(JobKind.VALIDATE) for job in failed)
    # of a validation the first notice says how it ended, later ones what follows for the PTK; those of an average that
    # was tested are of what went before
    said = (*averaged, *reversed(judged), *notices)
    notice_of = {(notice.window_index, notice.look): notice for notice in said}
    return tuple(
        _training(
            job,
            made.get(job.id),
            notice_of.get((job.window_index, job.look)),
            validations.get(job.beside(JobKind.VALIDATE)),
        )
        for job in jobs
    )


def _training(
    job: Job, made: tuple[int, datetime] | None, word: Notice | None, validation: Job | None
) -> Training:
    version, ended_at = made or (None, None)
    code, outcome = None, job.outcome if validation is None else validation.outcome
    if validation is not None and outcome is None:
        code = WAITS_FOR_VERDICT
    elif word is not None:
        code, ended_at = word.code, word.at
    elif version is None and outcome is not None:
        untested = job.kind is JobKind.AVERAGE and outcome is Outcome.DONE
        code = NO_NEW_TEST_ROWS if untested else outcome.value
    newest, oldest = job.window.index, job.oldest.index
    return Training(
        str(job.ptk_id), newest, job.state, job.outcome, code, version, ended_at, oldest, job.look
    )
