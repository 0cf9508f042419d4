"""Give each PTK its privacy loss and rows of a window, and reserve the loss."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ptkstore.application.ledger.group_commit import GroupCommit, Wishes
from ptkstore.application.planning.formula_plans import with_facts
from ptkstore.application.planning.window_plans import (
    PlannedTraining,
    as_promised,
    as_released,
    first_offers,
    on_all_rows,
    plan_window,
)
from ptkstore.application.profiling.profile_requests import request_profiles
from ptkstore.application.ptks.giving_up import give_up_timed_out
from ptkstore.domain.allocation.model import Infeasible
from ptkstore.domain.jobs import Job, JobKind, Outcome, job_id, paid_run
from ptkstore.domain.ledger.journal import BudgetRequest
from ptkstore.domain.ledger.rules import Denied, Granted
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.blocks import BlockSet, train_blocks
from ptkstore.domain.streams.streams import Policy
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.ports.catalog import UnitOfWork
from ptkstore.ports.runtime import Clock, Steps


def allocate_window(job: Job, *, charges: GroupCommit, clock: Clock, steps: Steps) -> None:
    """Reserve each PTK's loss on the block it trains on, or on none, and queue the trainings.

    The key of a reservation is the training's id and is looked up before the decision, so that a repeated run finds
    its own answer. A PTK that does not fit is refused, its owner told; the others are not disturbed.
    """
    charges.reserve(job.stream, lambda uow: _allocate(uow, job, clock.now()))
    steps.reached("reserved", job.id)


def _allocate(uow: UnitOfWork, job: Job, now: datetime) -> Wishes[None]:
    stream, window = uow.streams.lock(job.stream), job.window
    held = uow.jobs.held(job)
    prepared = uow.windows.get(window).state is WindowState.PREPARED
    plans: tuple[PlannedTraining, ...] = ()
    requests: list[BudgetRequest] = []
    if prepared:
        specs = uow.ptks.find(stream=job.stream)
        specs = give_up_timed_out(uow, specs, window.index, stream.policy, now)
        due = {s.ptk_id: s for s in specs if s.trains_on(window.index)}
        plans = _plan(with_facts(uow, due.values(), stream.policy), stream.policy)
        requests = [_request(due[plan.offer.ptk_id], window, stream.policy, plan) for plan in plans]

    def go_on(answers: list[Granted | Denied]) -> None:
        for request, plan, answer in zip(requests, plans, answers, strict=True):
            _queue(uow, request, window, plan, answer, now)
        if prepared:
            request_profiles(uow, stream, window, now)
        uow.jobs.save(held.ended(Outcome.DONE))

    return [(request, plan.offer.event) for request, plan in zip(requests, plans, strict=True)], go_on


def _plan(specs: tuple[PtkSpec, ...], policy: Policy) -> tuple[PlannedTraining, ...]:
    """With what versions told if that fits; else as the PTKs were let in, or on all rows, so that nobody is put out."""
    promised = tuple(as_promised(spec, policy) for spec in specs)
    plan = plan_window(tuple(as_released(spec, policy) for spec in specs), policy)
    if isinstance(plan, Infeasible):
        plan = plan_window(promised, policy)
    if isinstance(plan, Infeasible):
        plan = plan_window(tuple(map(on_all_rows, specs)), policy)
    # registration prevents it; then the filter decides, in the order of the ids
    if isinstance(plan, Infeasible):
        return first_offers(promised, policy)
    return plan


def _request(spec: PtkSpec, window: WindowId, policy: Policy, plan: PlannedTraining) -> BudgetRequest:
    training, offer = job_id(JobKind.TRAIN, spec.ptk_id, window.index), plan.offer
    turn = window.index // spec.every
    blocks = train_blocks(window, policy, plan.partition, n_rows=offer.n_rows, groups=offer.groups, turn=turn)
    line = policy.sharing.line_of(spec.ptk_id)
    return BudgetRequest(
        window.stream, training, spec.ptk_id, BlockSet.of(blocks), offer.loss, offer.charge, line
    )


def _queue(
    uow: UnitOfWork,
    request: BudgetRequest,
    window: WindowId,
    plan: PlannedTraining,
    answer: Granted | Denied,
    now: datetime,
) -> None:
    training = replace(
        paid_run(JobKind.TRAIN, request.ptk_id, window, now),
        n_rows=plan.offer.n_rows,
        partition=plan.partition,
        facts_of=plan.offer.facts_of,
    )
    if isinstance(answer, Denied):
        training = training.ended(Outcome.REFUSED)
        uow.notify_owner(Notice.of_run(training, "budget-denied", now))
    uow.jobs.add(training)
