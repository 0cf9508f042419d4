"""Trainings that a strategy asks for: what is to be reserved, and the job that is queued then."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from ptkstore.application.ledger.charging import Event
from ptkstore.application.planning.estimators import event_of
from ptkstore.application.scheduling.waiting_ptks import WaitingPtk
from ptkstore.domain.jobs import Job, JobKind, paid_run
from ptkstore.domain.ledger.journal import BudgetRequest
from ptkstore.domain.scheduling.model import Proposal
from ptkstore.domain.streams.blocks import BlockSet, train_blocks
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.windows import WindowId
from ptkstore.ports.catalog import CatalogView


@dataclass(frozen=True, slots=True)
class AskedTraining:
    """A training that is to be reserved; the key of the request is the id of the job."""

    request: BudgetRequest
    event: Event
    job: Job


def asked_look(
    uow: CatalogView, one: WaitingPtk, proposal: Proposal, policy: Policy, now: datetime
) -> AskedTraining:
    """Return the training of a look that is proposed: on all rows of the train parts of its windows."""
    spec, facts = one.spec, one.facts
    windows = [WindowId(spec.stream, index) for index in proposal.windows]
    guided = facts.last is None and bool(facts.menu) and spec.facts is not None
    newest, oldest = windows[-1], proposal.windows[0]
    before = uow.jobs.trainings(spec.ptk_id, start=newest.index)
    look = 1 + max((job.look for job in before if job.window == newest), default=0)
    job = replace(
        paid_run(JobKind.TRAIN, spec.ptk_id, newest, now, oldest=oldest, look=look),
        n_rows=proposal.n_rows,
        facts_of=spec.facts.version if guided and spec.facts is not None else 0,
    )
    ranges = (train_blocks(window, policy, 0, groups=facts.groups) for window in windows)
    request = BudgetRequest.of_run(job, policy, BlockSet.of(*ranges), proposal.loss, proposal.charge)
    return AskedTraining(request, event_of(spec.estimator, proposal.loss), job)
