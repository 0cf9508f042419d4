"""Profile one PTK on a window's profile set: spend, open it, profile apart, keep the answers (differences.md P2-P7)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ptkstore.application.ledger.charging import Price
from ptkstore.application.paid_runs.paid_run import Opening, Spending, Spent, pay_and_run
from ptkstore.application.paid_runs.team_code_source import TeamCodeSource
from ptkstore.application.planning.profile_plans import Attempt, attempt_of
from ptkstore.application.profiling.profile_runs import ProfileSetRun
from ptkstore.domain.jobs import Job, Outcome
from ptkstore.domain.ptks.profiles import Point, ProfileRecord, ProfileState, Verdict
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.policies import Policy
from ptkstore.ports.catalog import UnitOfWork
from ptkstore.ports.row_processes import OpenedRows, ProfileRequest, RunFailed, SampleProfiler


def profile_ptk(
    job: Job, spending: Spending, opening: Opening, *, code: TeamCodeSource, profiler: SampleProfiler
) -> None:
    """Ask one window's profile set for the epsilons that have no answer yet; the plan of later windows reads them.

    Team code is fetched, and its sandbox tried, before anything is spent.
    """
    pay_and_run(_Profiling(job, profiler, code.of_job(job, spending.begin)), spending, opening)


class _Profiling(ProfileSetRun[tuple[Point, ...]]):
    ran_step, kept_step = "profiled", "answers-kept"
    _attempt: Attempt

    def priced(self, spec: PtkSpec, policy: Policy) -> Price | None:
        attempt = attempt_of(spec.estimator, self.ask, self.record, policy)
        if attempt is None:
            return None
        self._attempt = attempt
        return attempt.price

    def run(
        self, spent: Spent, rows: tuple[OpenedRows, ...], keep_alive: Callable[[], None]
    ) -> tuple[Point, ...] | RunFailed:
        attempt = self._attempt
        request = ProfileRequest(
            spent.spec.estimator,
            self.ask,
            attempt.epsilons,
            attempt.n_min,
            attempt.confidence,
            rows,
            self.code.bundle,
        )
        return self.profiler.profile(request, keep_alive)

    def keep(
        self, uow: UnitOfWork, spent: Spent, spec: PtkSpec | None, result: tuple[Point, ...], at: datetime
    ) -> Outcome:
        self.save(uow, self.record.with_answers(result, self.ask), at)
        return Outcome.DONE

    def save(self, uow: UnitOfWork, record: ProfileRecord, at: datetime) -> None:
        super().save(uow, record, at)
        if record.settled:
            self.notify_of_profile(uow, _code(record), at)


def _code(record: ProfileRecord) -> str:
    if record.menu:
        return "profiled" if record.state is ProfileState.ANSWERED else "profiled-in-part"
    if any(point.verdict is Verdict.UNREACHABLE for point in record.points):
        return "profile-target-unreachable"
    return "profile-needs-more"
