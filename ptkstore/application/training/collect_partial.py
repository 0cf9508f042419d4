"""Collect one partial of a training whose loss is spent: no noise is drawn and nothing leaves the raw zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ptkstore.application.ledger.retired_windows import drop_windows_of, lock_if_it_drops
from ptkstore.application.paid_runs.paid_run import Opening, Spending, left_of, states_behind, still_held
from ptkstore.application.planning.estimators import is_paid_for
from ptkstore.application.training.partials import discard, draft_id_of, locked_partials_of
from ptkstore.domain.jobs import Job, JobState, Outcome, scheduler_of
from ptkstore.domain.ledger.journal import Entry
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.runs import hopeless
from ptkstore.domain.streams.blocks import rows_by_window
from ptkstore.domain.streams.streams import Stream
from ptkstore.errors import LeaseLost, Unavailable, WindowGone
from ptkstore.ports.catalog import UnitOfWork
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import Staging
from ptkstore.ports.row_processes import STAGING_FAILED, CollectRequest, RunFailed, Trainer


@dataclass(frozen=True, slots=True)
class _Opened:
    """A partial whose rows may be read."""

    spec: PtkSpec
    stream: Stream
    spend: Entry
    n_partials: int
    windows: tuple[int, ...]


def collect_partial(
    job: Job, spending: Spending, opening: Opening, *, staging: Staging, trainer: Trainer
) -> None:
    """Write the exact statistics of one range of hashes to staging, encrypted; the training merges them.

    A partial lets nothing out, so it is collected again after a lost lease. Its failure is that of the training, which
    keeps the loss: other partials end without opening rows when they are claimed.
    """
    steps, keys = spending.steps, opening.keys
    opening.raw.check_writable()
    opened = _open(job, spending, keys, staging)
    if opened is None:
        return
    steps.reached("partial-opened", job.id)
    draft_id = draft_id_of(job)
    try:
        rows = rows_by_window(opened.stream.policy, opened.spend.blocks, job.window.index, job.n_rows)
        mine = {index: rows[index].split(opened.n_partials)[job.partial] for index in opened.windows}
        request = CollectRequest(
            estimator=opened.spec.estimator,
            epsilon=opened.spend.loss.spendable_epsilon,
            delta=opened.spend.loss.spendable_delta,
            rows=tuple(opening.open(mine, opened.spend).values()),
            draft_id=draft_id,
            draft_key=keys.draft_key(draft_id),
        )
        failed = trainer.collect(request, opening.keep_alive)
        spending.commit_retry.ticks.wait()
        steps.reached("collected", job.id)
        if failed == RunFailed(STAGING_FAILED):
            discard((job,), keys, staging)  # part of it may be there
            raise Unavailable("staging takes no file")  # nothing has left, so it is collected again
        if failed is None:
            if _end(job, spending):
                steps.reached("partial-ended", job.id)
                return
        else:
            _end_training(job, Outcome.FAILED, spending, keys, staging, failed.code)
    except WindowGone:
        _end_training(job, Outcome.EXPIRED, spending, keys, staging)
    except LeaseLost:
        pass  # somebody else collects it now, or nobody needs it any more
    discard((job,), keys, staging)


def _open(job: Job, spending: Spending, keys: KeyStore, staging: Staging) -> _Opened | None:
    with spending.begin() as uow:
        stream = lock_if_it_drops(uow, job.stream)
        spec = uow.ptks.lock(str(job.ptk_id))
        training = uow.jobs.lock(str(job.reservation))
        partials = locked_partials_of(uow, training)  # locked in the order in which everybody locks them
        held = uow.jobs.held(job)
        history = uow.ledger.history(str(job.reservation))
        spend = history[-1]
        if training.state is JobState.ENDED:
            outcome = None
        else:
            states = states_behind(uow, stream.policy, held, history)
            outcome = hopeless(held, spec, states.values())
            if outcome is None and spec is not None and not is_paid_for(spec.estimator, spend):
                outcome = Outcome.FAILED
            if outcome is None and spec is not None:
                if held.state is JobState.READY:
                    uow.jobs.mark_opened(held)
                uow.commit()
                return _Opened(spec, stream, spend, len(partials), left_of(states))
        _close(uow, training, held, outcome, spending.now())
        uow.commit()
    discard(_over(partials, job), keys, staging)
    return None


def _end(job: Job, spending: Spending) -> bool:
    """End a partial that was collected; False if its training is over and nobody will merge it."""
    with spending.begin() as uow:
        lock_if_it_drops(uow, job.stream)
        uow.ptks.lock(str(job.ptk_id))
        training = uow.jobs.lock(str(job.reservation))
        held = still_held(uow, job)
        needed = training.state is not JobState.ENDED
        uow.jobs.save(held.ended(Outcome.DONE if needed else Outcome.WITHDRAWN))
        drop_windows_of(uow, held, spending.now())
        uow.commit()
    return needed


def _end_training(
    job: Job, outcome: Outcome, spending: Spending, keys: KeyStore, staging: Staging, code: str | None = None
) -> None:
    with spending.begin() as uow:
        lock_if_it_drops(uow, job.stream)
        uow.ptks.lock(str(job.ptk_id))
        training = uow.jobs.lock(str(job.reservation))
        partials = locked_partials_of(uow, training)
        held = still_held(uow, job)
        _close(uow, training, held, outcome, spending.now(), code)
        uow.commit()
    discard(_over(partials, job), keys, staging)


def _close(
    uow: UnitOfWork, training: Job, held: Job, outcome: Outcome | None, now: datetime, code: str | None = None
) -> None:
    """End a partial, and its training with `outcome`; which of the partials was the first is not told."""
    if outcome is not None and training.state is not JobState.ENDED:
        uow.jobs.save(training.ended(outcome))
        uow.notify_owner(Notice.of_run(training, code or outcome.value, now))
    uow.jobs.save(held.ended(Outcome.WITHDRAWN))
    uow.jobs.wake(scheduler_of(held.stream), now)
    drop_windows_of(uow, held, now)


def _over(partials: tuple[Job, ...], job: Job) -> tuple[Job, ...]:
    """The partials at which nobody works: those that do clear away what they wrote."""
    return tuple(one for one in partials if one.state is JobState.ENDED or one.id == job.id)
