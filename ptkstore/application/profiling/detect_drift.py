"""Test on a later window whether a published state still has the risk that its profile promised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from ptkstore.application.ledger.charging import Price
from ptkstore.application.paid_runs.paid_run import Opening, Spending, Spent, pay_and_run
from ptkstore.application.paid_runs.team_code_source import FetchedTeamCode, TeamCodeSource
from ptkstore.application.planning.profile_plans import drift_price
from ptkstore.application.profiling.profile_runs import ProfileSetRun
from ptkstore.application.versions.elected_files import state_files_of
from ptkstore.domain.jobs import Job, Outcome
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.policies import Policy
from ptkstore.ports.catalog import UnitOfWork
from ptkstore.ports.objects import Lake
from ptkstore.ports.row_processes import DriftRequest, OpenedRows, RunFailed, SampleProfiler


def detect_drift(
    job: Job,
    spending: Spending,
    opening: Opening,
    *,
    code: TeamCodeSource,
    lake: Lake,
    profiler: SampleProfiler,
) -> None:
    """Spend, open the profile set, test; a profile that drifted is not planned with any more, and is renewed.

    The state was trained on other windows and on other parts, so no row of the test set was ever trained on.
    """
    with spending.begin() as uow:
        version = uow.versions.get(str(job.ptk_id), job.version)
    state = state_files_of(version, lake)  # before the loss is spent: the lake may not answer
    pay_and_run(_Testing(job, profiler, code.of_job(job, spending.begin), state), spending, opening)


class _Testing(ProfileSetRun[bool]):
    ran_step, kept_step = "tested", "verdict-kept"

    def __init__(
        self, job: Job, profiler: SampleProfiler, code: FetchedTeamCode, state: Mapping[str, bytes]
    ) -> None:
        super().__init__(job, profiler, code)
        self._state = state

    def priced(self, spec: PtkSpec, policy: Policy) -> Price | None:
        return drift_price(spec.estimator, self.ask, policy)

    def run(
        self, spent: Spent, rows: tuple[OpenedRows, ...], keep_alive: Callable[[], None]
    ) -> bool | RunFailed:
        assert self.ask.drift is not None
        request = DriftRequest(
            spent.spec.estimator, self.ask, self.ask.drift, self._state, rows, self.code.bundle
        )
        return self.profiler.has_drifted(request, keep_alive)

    def keep(
        self, uow: UnitOfWork, spent: Spent, spec: PtkSpec | None, result: bool, at: datetime
    ) -> Outcome:
        self.save(uow, replace(self.record, drifted_at=self.job.window.index if result else None), at)
        if result:
            self.notify_of_profile(uow, "profile-drifted", at)
        return Outcome.DONE
