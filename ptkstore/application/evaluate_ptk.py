"""Evaluate a version on its window's test set: spend, open it, estimate apart, keep the figure (differences.md P6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from ptkstore.application.charging import expect_spent, reserve, spend
from ptkstore.application.evaluation_plans import price_of
from ptkstore.application.patience import Patience
from ptkstore.application.ticks import Ticks
from ptkstore.application.versions import state_files_of
from ptkstore.domain.blocks import Rows, evaluation_blocks, groups_where, rows_behind
from ptkstore.domain.evaluations import Evaluation, LossMass, evaluation_epsilon
from ptkstore.domain.jobs import Job, JobState, Outcome
from ptkstore.domain.journal import BudgetRequest, Entry
from ptkstore.domain.ledger import Denied
from ptkstore.domain.names import team_of
from ptkstore.domain.ptks import PtkSpec
from ptkstore.domain.runs import hopeless, runs_once
from ptkstore.domain.snapshots import Version
from ptkstore.domain.streams import Stream
from ptkstore.errors import LeaseLost, WindowGone
from ptkstore.ports.catalog import Begin, Notice, UnitOfWork
from ptkstore.ports.evaluating import EvaluateRequest, Evaluator
from ptkstore.ports.keys import JournalView, KeyStore
from ptkstore.ports.objects import Lake, RawZone
from ptkstore.ports.training import TrainFailed
from ptkstore.ports.world import Clock, Steps

DENIED = "evaluation-denied"


@dataclass(frozen=True, slots=True)
class Opened:
    """An evaluation whose loss is spent: from here on the rows of the test set may be read."""

    spend: Entry
    rows: Rows
    once: bool
    """Whether nobody else may go on with it."""


def evaluate_ptk(
    job: Job,
    *,
    begin: Begin,
    clock: Clock,
    keys: KeyStore,
    journal: JournalView,
    raw: RawZone,
    lake: Lake,
    evaluator: Evaluator,
    keep_alive: Callable[[], None],
    ticks: Ticks,
    patience: Patience,
    steps: Steps,
) -> None:
    """Release one estimate of a version's loss, at most; nothing else of an evaluation ever leaves.

    The loss is reserved and spent on the test block of the version's window before the key is asked for. The estimate
    is kept in one fenced transaction, on a tick: a run that was interrupted has told nobody anything, so it may run
    again under the same spend. One that has ended waits for a catalog that is away, and whoever spent and got no answer
    looks, as in a training. Every other end of a run that opened rows keeps the loss and tells nothing.
    """
    with begin() as uow:
        version = uow.versions.get(str(job.ptk_id), job.position)
    state = state_files_of(version, lake)  # before the loss is spent: the lake may not answer
    opened = patience.settle(lambda: _spend(job, version, begin, clock))
    if opened is None:
        return
    steps.reached("spent", job.id)
    spent = opened.spend

    def ask_for_key() -> bytes:
        keep_alive()
        return keys.opening_key(job.window, journal, (spent.sequence, spent.digest))

    try:
        key = patience.outlast(lambda _: ask_for_key(), clock.now()) if opened.once else ask_for_key()
    except WindowGone:
        _end(job, Outcome.EXPIRED, begin, clock)
        return
    steps.reached("opened", job.id)
    request = EvaluateRequest(
        estimator=version.content["config"],
        epsilon=opened.spend.loss.spendable_epsilon,
        state=state,
        part_urls=tuple(raw.part_url(job.window, file) for file in opened.rows.files),
        hash_low=opened.rows.low,
        hash_high=opened.rows.high,
        window_key=key,
    )
    try:
        told = evaluator.evaluate(request, keep_alive)
        leaves_at = ticks.wait()
        steps.reached("evaluated", job.id)
        if isinstance(told, TrainFailed):
            code = told.code
            patience.outlast(lambda _: _end(job, Outcome.FAILED, begin, clock, code), leaves_at)
            return
        mass = told
        patience.outlast(lambda tick: _keep(job, opened.spend, mass, tick, begin), leaves_at)
        steps.reached("estimate-kept", job.id)
    except LeaseLost:
        pass  # somebody else runs it now; nothing of this run is kept


def _spend(job: Job, version: Version, begin: Begin, clock: Clock) -> Opened | None:
    with begin() as uow:
        stream = uow.streams.lock(job.stream)
        spec = uow.ptks.lock(str(job.ptk_id))
        held = uow.jobs.held(job)
        asked = None if spec is None or evaluation_epsilon(spec.config) is None else spec
        # What this very claim spent without an answer opened no row: it has yet to begin.
        begun = replace(held, state=job.state)
        outcome, code = hopeless(begun, asked, uow.windows.get(job.window).state), None
        spent: Entry | None = None
        if outcome is None and spec is not None:
            spent = uow.ledger.history(job.id)[-1] if held.state is JobState.OPENED else None
            spent = spent or _charged(uow, job, spec, version, stream)
            outcome, code = (Outcome.REFUSED, DENIED) if spent is None else (None, None)
        if outcome is not None or spent is None or spec is None:
            _finish(uow, held, outcome or Outcome.WITHDRAWN, clock.now(), code)
            uow.commit()
            return None
        if held.state is JobState.READY:
            uow.jobs.mark_opened(held)
        uow.commit()
    policy = stream.policy
    return Opened(spent, rows_behind(policy, spent.blocks, policy.rows_per_window), runs_once(spec))


def _charged(uow: UnitOfWork, job: Job, spec: PtkSpec, version: Version, stream: Stream) -> Entry | None:
    """Reserve and spend on all test blocks of the window; None if they have no room."""
    policy = stream.policy
    epsilon = evaluation_epsilon(spec.config)
    assert epsilon is not None
    price = price_of(version.content["config"], epsilon, policy)
    blocks = evaluation_blocks(job.window, policy, groups_where(policy, spec.config.get("where")))
    line = policy.sharing.line_of(spec.ptk_id)
    request = BudgetRequest(stream.name, job.id, spec.ptk_id, blocks, price.loss, price.charge, line)
    if isinstance(reserve(uow, request, price.event), Denied):
        return None
    return spend(uow, uow.ledger.history(job.id)[0], price.event, policy)


def _keep(job: Job, spent: Entry, mass: LossMass, leaves_at: datetime, begin: Begin) -> None:
    """Repeatable: `LeaseLost` means that this estimate is kept already, or never will be."""
    with begin() as uow:
        held = uow.jobs.held(job)
        expect_spent(uow, spent)
        ptk_id = str(job.ptk_id)
        uow.evaluations.add(
            Evaluation(ptk_id, job.position, job.id, job.window.index, spent.loss.epsilon, mass, leaves_at)
        )
        uow.jobs.save(held.ended(Outcome.DONE))
        uow.commit()


def _end(job: Job, outcome: Outcome, begin: Begin, clock: Clock, code: str | None = None) -> None:
    with begin() as uow:
        _finish(uow, uow.jobs.held(job), outcome, clock.now(), code)
        uow.commit()


def _finish(uow: UnitOfWork, held: Job, outcome: Outcome, now: datetime, code: str | None) -> None:
    uow.jobs.save(held.ended(outcome))
    subject = f"{held.ptk_id} evaluation of version {held.position}"
    uow.notify_owner(Notice(now, team_of(str(held.ptk_id)), subject, code or outcome.value))
