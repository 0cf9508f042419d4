"""The strategy `allocate`: each window is planned alone, for the PTKs whose turn it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from ptkstore.application.planning.formula_plans import with_facts
from ptkstore.application.planning.window_plans import (
    PlannedTraining,
    as_promised,
    as_released,
    first_offers,
    on_all_rows,
    plan_window,
)
from ptkstore.application.scheduling.asked_trainings import AskedTraining
from ptkstore.domain.allocation.model import Infeasible
from ptkstore.domain.jobs import JobKind, paid_run
from ptkstore.domain.ledger.journal import BudgetRequest
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.blocks import BlockSet, train_blocks
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.windows import WindowId
from ptkstore.ports.catalog import CatalogView


def allocated(
    uow: CatalogView, specs: Iterable[PtkSpec], window: WindowId, policy: Policy, now: datetime
) -> tuple[AskedTraining, ...]:
    """Return a training on a prepared window for each of the PTKs that is trained on it."""
    due = {spec.ptk_id: spec for spec in specs if spec.trains_on(window.index)}
    plans = _plan(with_facts(uow, due.values(), policy), policy)
    return tuple(_asked(due[plan.offer.ptk_id], window, policy, plan, now) for plan in plans)


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


def _asked(
    spec: PtkSpec, window: WindowId, policy: Policy, plan: PlannedTraining, now: datetime
) -> AskedTraining:
    job, offer = paid_run(JobKind.TRAIN, spec.ptk_id, window, now), plan.offer
    job = replace(job, n_rows=offer.n_rows, partition=plan.partition, facts_of=offer.facts_of)
    turn = window.index // spec.every
    blocks = train_blocks(window, policy, plan.partition, n_rows=offer.n_rows, groups=offer.groups, turn=turn)
    request = BudgetRequest.of_run(job, policy, BlockSet.of(blocks), offer.loss, offer.charge)
    return AskedTraining(request, offer.event, job)
