"""Evaluate a version on its window's test set: spend, open it, estimate apart, keep the figure (differences.md P6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from ptkstore.application.ledger.charging import Price, reserve
from ptkstore.application.paid_runs.paid_run import (
    ClaimedRun,
    Ended,
    Opening,
    PaidRun,
    Spending,
    Spent,
    pay_and_run,
)
from ptkstore.application.planning.evaluation_plans import price_of_estimate
from ptkstore.application.versions.elected_files import state_files_of
from ptkstore.domain.evaluations import Evaluation, RiskMass, evaluation_epsilon
from ptkstore.domain.jobs import Job, Outcome
from ptkstore.domain.ledger.journal import BudgetRequest
from ptkstore.domain.ledger.rules import Denied
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.blocks import TEST, BlockSet, groups_where, part_blocks
from ptkstore.domain.versions.versions import Version
from ptkstore.ports.catalog import UnitOfWork
from ptkstore.ports.objects import Lake
from ptkstore.ports.row_processes import EvaluateRequest, Evaluator, OpenedRows, RunFailed

DENIED: Final = "evaluation-denied"


def evaluate_ptk(job: Job, spending: Spending, opening: Opening, *, lake: Lake, evaluator: Evaluator) -> None:
    """Release one estimate of a version's loss, at most, from the test block of the version's window."""
    with spending.begin() as uow:
        version = uow.versions.get(str(job.ptk_id), job.version)
    state = state_files_of(version, lake)  # before the loss is spent: the lake may not answer
    pay_and_run(_Evaluating(job, version, state, evaluator), spending, opening)


class _Evaluating(PaidRun[RiskMass]):
    ran_step, kept_step = "evaluated", "estimate-kept"

    def __init__(self, job: Job, version: Version, state: Mapping[str, bytes], evaluator: Evaluator) -> None:
        super().__init__(job)
        self._estimator = version.content["config"]
        self._state, self._evaluator = state, evaluator

    def tell(self, uow: UnitOfWork, code: str, now: datetime) -> None:
        about = Notice.of_run(self.job, code, now)
        uow.notify_owner(replace(about, window_index=None, version=self.job.version))

    def price(self, uow: UnitOfWork, claimed: ClaimedRun) -> Price | Ended:
        """Reserved here, on all test blocks of the window."""
        spec, policy = claimed.spec, claimed.stream.policy
        epsilon = evaluation_epsilon(spec.config)
        if epsilon is None:
            return Ended(Outcome.WITHDRAWN)
        price = price_of_estimate(self._estimator, epsilon, policy)
        if not claimed.history:
            groups = groups_where(policy, spec.config.get("where"))
            blocks = BlockSet.of(part_blocks(TEST, self.job.window, policy, groups))
            line = policy.sharing.line_of(spec.ptk_id)
            request = BudgetRequest(
                claimed.stream.name, self.job.id, spec.ptk_id, blocks, price.loss, price.charge, line
            )
            if isinstance(reserve(uow, request, price.event), Denied):
                return Ended(Outcome.REFUSED, DENIED)
        return price

    def run(
        self, spent: Spent, rows: tuple[OpenedRows, ...], keep_alive: Callable[[], None]
    ) -> RiskMass | RunFailed:
        request = EvaluateRequest(
            estimator=self._estimator,
            epsilon=spent.spend.loss.spendable_epsilon,
            state=self._state,
            rows=rows,
        )
        return self._evaluator.evaluate(request, keep_alive)

    def keep(
        self, uow: UnitOfWork, spent: Spent, spec: PtkSpec | None, result: RiskMass, at: datetime
    ) -> Outcome:
        job, epsilon = self.job, spent.spend.loss.epsilon
        uow.evaluations.add(
            Evaluation(str(job.ptk_id), job.version, job.id, job.window.index, epsilon, result, at)
        )
        return Outcome.DONE
