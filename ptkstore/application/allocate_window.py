"""Give each PTK its privacy loss and rows of a window, and reserve the loss."""

from __future__ import annotations

from datetime import datetime

from ptkstore.application.charging import reserve
from ptkstore.domain.allocation import Choice, Demand, Grant, Infeasible, allocate
from ptkstore.domain.blocks import FIRST_TRAIN, share_of, train_block
from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome, job_id
from ptkstore.domain.ledger import BudgetRequest, Denied
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
            for grant in _grants(tuple(due.values()), stream.policy):
                _reserve(uow, due[grant.ptk_id], window, grant, now)
        uow.jobs.save(held.ended(Outcome.DONE))
        uow.commit()
    steps.reached("reserved", job.id)


def demand_of(spec: PtkSpec, policy: Policy) -> Demand:
    """What a PTK asks for: the loss it declares, on every row of the train partition in expectation."""
    rows = int(share_of(policy, FIRST_TRAIN) * policy.rows_per_window)
    return Demand(spec.ptk_id, (Choice(spec.loss, max(1, rows)),))


def _grants(specs: tuple[PtkSpec, ...], policy: Policy) -> tuple[Grant, ...]:
    demands = [demand_of(spec, policy) for spec in specs]
    plan = allocate(demands, policy.capacity, policy.n_max)
    if isinstance(
        plan, Infeasible
    ):  # registration prevents it; then the filter decides, in the order of the ids
        return tuple(Grant(d.ptk_id, d.menu[0].loss, d.menu[0].n_rows) for d in demands)
    return plan


def _reserve(uow: UnitOfWork, spec: PtkSpec, window: WindowId, grant: Grant, now: datetime) -> None:
    training = job_id(JobKind.TRAIN, spec.ptk_id, window.index)
    blocks = train_block(window, grant.partition)
    request = BudgetRequest(window.stream, training, spec.ptk_id, blocks, grant.loss)
    denied = isinstance(reserve(uow, request, dict(spec.event)), Denied)
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
            n_rows=grant.n_rows,
            partition=grant.partition,
            outcome=Outcome.REFUSED if denied else None,
        )
    )
