"""Evaluate a version on its windows' test sets: spend, open it, estimate apart, keep the figure (differences.md P6)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ptkstore.application.paid_runs.paid_run import Opening, Spending, Spent, pay_and_run
from ptkstore.application.paid_runs.team_code_source import TeamCodeSource
from ptkstore.application.training.on_test_set import OnTestSet, Tested
from ptkstore.application.versions.elected_files import state_files_of
from ptkstore.domain.evaluations import AskedSums, Evaluation, RiskMass, evaluation_sums
from ptkstore.domain.jobs import Job, Outcome
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.versions.state_windows import opened_windows
from ptkstore.ports.catalog import UnitOfWork
from ptkstore.ports.objects import Lake
from ptkstore.ports.row_processes import Evaluator


def evaluate_ptk(
    job: Job, spending: Spending, opening: Opening, *, code: TeamCodeSource, lake: Lake, evaluator: Evaluator
) -> None:
    """Release one estimate of a version's loss, at most, from the test blocks of the version's windows.

    Parameters
    ----------
    code : TeamCodeSource
        The source of the code of a version of team code: it says the loss of each row.
    """
    with spending.begin() as uow:
        version = uow.versions.get(str(job.ptk_id), job.version)
    # before the loss is spent: the lake may not answer
    tested = Tested(
        estimator=version.content["config"],
        state=state_files_of(version, lake),
        code=code.of_estimator(job, version.content["config"]),
        windows=opened_windows(version.content),
    )
    pay_and_run(_Evaluating(job, tested, evaluator), spending, opening)


class _Evaluating(OnTestSet):
    ran_step, kept_step = "evaluated", "estimate-kept"
    denied = "evaluation-denied"

    def tell(self, uow: UnitOfWork, code: str, now: datetime) -> None:
        about = Notice.of_run(self.job, code, now)
        uow.notify_owner(replace(about, window_index=None, version=self.job.version))

    def asked(self, spec: PtkSpec) -> AskedSums | None:
        return evaluation_sums(spec.config)

    def keep(
        self, uow: UnitOfWork, spent: Spent, spec: PtkSpec | None, result: RiskMass, at: datetime
    ) -> Outcome:
        job, epsilon = self.job, spent.spend.loss.epsilon
        uow.evaluations.add(
            Evaluation(str(job.ptk_id), job.version, job.id, spent.windows, epsilon, result, at)
        )
        return Outcome.DONE
