"""Give each PTK its privacy loss and rows of a window, and reserve the loss."""

from __future__ import annotations

from datetime import datetime

from ptkstore.application.charging import reserve
from ptkstore.application.planning import Planned, first_offers, plan_window
from ptkstore.domain.allocation import Infeasible
from ptkstore.domain.blocks import groups_where, train_blocks
from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome, job_id
from ptkstore.domain.journal import BudgetRequest
from ptkstore.domain.ledger import Denied
from ptkstore.domain.ptks import PtkSpec
from ptkstore.domain.streams import Policy
from ptkstore.domain.windows import WindowId, WindowState
from ptkstore.ports.catalog import Begin, Notice, UnitOfWork
from ptkstore.ports.world import Clock, Steps


def allocate_window(job: Job, *, begin: Begin, clock: Clock, steps: Steps) -> None:
    """Reserve each PTK's loss on the block it trains on, or on none, and queue the trainings.

    The key of a reservation is the training's id and is looked up before the decision, so that a repeated run finds
    its own answer. A PTK that does not fit is refused, its owner told; the others are not disturbed.
    """
    window = job.window
    with begin() as uow:
        stream = uow.streams.lock(job.stream)
        held = uow.jobs.held(job)
        now = clock.now()
        if uow.windows.get(window).state is WindowState.PREPARED:
            due = {s.ptk_id: s for s in uow.ptks.find(stream=job.stream) if window.index % s.every == 0}
            for plan in _plan(tuple(due.values()), stream.policy):
                _reserve(uow, due[plan.offer.ptk_id], window, stream.policy, plan, now)
        uow.jobs.save(held.ended(Outcome.DONE))
        uow.commit()
    steps.reached("reserved", job.id)


def _plan(specs: tuple[PtkSpec, ...], policy: Policy) -> tuple[Planned, ...]:
    plan = plan_window(specs, policy)
    if isinstance(
        plan, Infeasible
    ):  # registration prevents it; then the filter decides, in the order of the ids
        return first_offers(specs, policy)
    return plan


def _reserve(
    uow: UnitOfWork, spec: PtkSpec, window: WindowId, policy: Policy, plan: Planned, now: datetime
) -> None:
    training, offer = job_id(JobKind.TRAIN, spec.ptk_id, window.index), plan.offer
    groups = groups_where(policy, spec.config.get("where"))
    turn = window.index // spec.every
    blocks = train_blocks(window, policy, plan.partition, n_rows=offer.n_rows, groups=groups, turn=turn)
    request = BudgetRequest(window.stream, training, spec.ptk_id, blocks, offer.loss, offer.charge, plan.line)
    denied = isinstance(reserve(uow, request, offer.event), Denied)
    if denied:
        uow.notify_owner(Notice(now, spec.team, f"{spec.ptk_id} window {window.index}", "budget-denied"))
    uow.jobs.add(
        Job(
            training,
            JobKind.TRAIN,
            window.stream,
            JobState.ENDED if denied else JobState.READY,
            now,
            window_index=window.index,
            ptk_id=spec.ptk_id,
            reservation=request.key,
            n_rows=offer.n_rows,
            partition=plan.partition,
            outcome=Outcome.REFUSED if denied else None,
        )
    )
