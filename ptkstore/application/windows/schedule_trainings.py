"""Reserve what a stream's scheduler proposes, and queue the trainings."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ptkstore.application.ledger.group_commit import GroupCommit, Wishes
from ptkstore.application.ledger.retired_windows import drop_windows_of
from ptkstore.application.profiling.profile_requests import request_profiles
from ptkstore.application.ptks.giving_up import give_up_timed_out
from ptkstore.application.scheduling.adaptive_trainings import adaptive_trainings
from ptkstore.application.scheduling.allocation import allocated
from ptkstore.application.scheduling.asked_trainings import AskedTraining
from ptkstore.application.scheduling.budgeting_trainings import budgeting_trainings
from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome
from ptkstore.domain.ledger.rules import Denied, Granted
from ptkstore.domain.notices import Notice
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowState
from ptkstore.ports.catalog import UnitOfWork
from ptkstore.ports.runtime import Clock, Steps


def schedule_trainings(job: Job, *, charges: GroupCommit, clock: Clock, steps: Steps) -> None:
    """Reserve each proposed loss on all blocks of its training, or on none, and queue the trainings.

    An allocation is about a window that was prepared. A wake of the scheduler is about a whole stream whose PTKs wait:
    a PTK came or went, a training ended, or a window expired.

    The key of a reservation is the training's id and is looked up before the decision, so that a repeated run finds
    its own answer. Under `allocate` a PTK that does not fit is refused, its owner told; the others are not disturbed.
    Under `adaptive` and `budgeting` it waits.
    """
    charges.reserve(job.stream, lambda uow: _schedule(uow, job, clock.now()))
    steps.reached("reserved", job.id)


def _schedule(uow: UnitOfWork, job: Job, now: datetime) -> Wishes[None]:
    stream = uow.streams.lock(job.stream)
    held = uow.jobs.held(job)
    is_prepared = job.kind is JobKind.ALLOCATE and uow.windows.get(job.window).state is WindowState.PREPARED
    specs = uow.ptks.find(stream=stream.name)
    if is_prepared:
        specs = give_up_timed_out(uow, specs, job.window.index, stream.policy, now)
    asked: tuple[AskedTraining, ...] = ()
    match stream.policy.scheduler:
        case Scheduler.ADAPTIVE:
            asked = adaptive_trainings(uow, stream, specs, now)
        case Scheduler.BUDGETING:
            asked = budgeting_trainings(uow, stream, specs, now)
        case Scheduler.ALLOCATE:
            asked = allocated(uow, specs, job.window, stream.policy, now) if is_prepared else ()

    def go_on(answers: list[Granted | Denied]) -> None:
        for training, answer in zip(asked, answers, strict=True):
            _queue(uow, stream, training, answer, now)
        if is_prepared:
            request_profiles(uow, stream, job.window, now)
        ended = job.kind is JobKind.ALLOCATE
        uow.jobs.save(held.ended(Outcome.DONE) if ended else replace(held, state=JobState.IDLE, attempt=0))
        if ended:
            drop_windows_of(uow, held, now)

    return [(one.request, one.event) for one in asked], go_on


def _queue(
    uow: UnitOfWork, stream: Stream, asked: AskedTraining, answer: Granted | Denied, now: datetime
) -> None:
    training = asked.job
    if isinstance(answer, Denied):
        if stream.policy.scheduler.lets_wait:
            return
        training = training.ended(Outcome.REFUSED)
        uow.notify_owner(Notice.of_run(training, "budget-denied", now))
    uow.jobs.add(training)
