"""Prepare a window again that was given up, once its cause is gone."""

from __future__ import annotations

from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.errors import Refused
from ptkstore.ports.catalog import Begin
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.runtime import Clock


def prepare_again(
    stream: str, window: int, *, without_lost: bool = False, begin: Begin, clock: Clock, keys: KeyStore
) -> None:
    """Let workers try a window again that ended as `not-prepared`.

    Nothing was trained on it, nothing was reserved for it, and its rows go to the same parts as they would have: so
    nothing is charged twice. A window that expires or has expired stays so.

    Parameters
    ----------
    without_lost : bool
        Go on without the rows of batches whose files are gone.

    Raises
    ------
    UnknownName
        No such stream, or no such window has closed.
    Refused
        The window was not given up, or it has left its retention.
    """
    id = WindowId(stream, window)
    with begin() as uow:
        uow.streams.lock(stream).check_rows_in_store("no window of it is prepared")
        state = uow.windows.get(id).state
        job = _given_up(id, state, uow.jobs.of_window(id, JobKind.PREPARE))
        if without_lost:
            keys.forget_batches(id)
        uow.jobs.begin_again(job, clock.now())
        uow.commit()


def _given_up(window: WindowId, state: WindowState, jobs: tuple[Job, ...]) -> Job:
    if state in (WindowState.EXPIRING, WindowState.EXPIRED):
        raise Refused(f"window {window} has left its retention; its rows are gone for ever")
    if state is WindowState.PREPARED:
        raise Refused(f"window {window} is prepared; there is nothing to do again")
    if not jobs:
        raise Refused(f"no PTK wanted window {window} when it closed, so it is not prepared")
    if jobs[0].state is not JobState.ENDED or jobs[0].outcome is not Outcome.FAILED:
        raise Refused(f"window {window} was not given up; workers still try to prepare it")
    return jobs[0]
