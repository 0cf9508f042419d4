"""Release what a version loses on a window, with noise: one number, from which all else follows (differences.md B3)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ptkstore.application.paid_runs.paid_run import ClaimedRun, Spent
from ptkstore.application.profiling.significance_runs import SignificanceRun
from ptkstore.application.scheduling.comparisons import compared_version
from ptkstore.application.scheduling.lines_asked import is_release_asked
from ptkstore.domain.budgeting.thresholds import ReleasedLoss
from ptkstore.domain.jobs import Outcome
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.ports.catalog import CatalogView, UnitOfWork
from ptkstore.ports.row_processes import NoisyLosses, OpenedRows, ReleaseRequest, RunFailed


class LossRelease(SignificanceRun[NoisyLosses]):
    """Spends epsilon_0 on the profile part, and keeps the number in the transaction that ends the run."""

    ran_step, kept_step = "compared", "answer-kept"

    def is_asked(self, uow: UnitOfWork, claimed: ClaimedRun) -> bool:
        """Tell whether the version is still the one that is compared, and the train part can pay for the least loss."""
        if self.job.reservation != self.job.id or compared_version(uow, claimed.spec) != self.job.version:
            return False
        return is_release_asked(uow, claimed.stream, claimed.spec, self.job.window)

    def run(
        self, spent: Spent, rows: tuple[OpenedRows, ...], keep_alive: Callable[[], None]
    ) -> NoisyLosses | RunFailed:
        """Have the losses added and the noise drawn."""
        version = self.compared
        request = ReleaseRequest(version.estimator, version.state, rows, spent.spend.loss.spendable_epsilon)
        return self._comparer.release(request, keep_alive)

    def was_kept(self, uow: CatalogView, result: NoisyLosses) -> bool:
        """Tell whether the number of this job is kept, and is this one."""
        kept = uow.thresholds.released(self.job.stream)
        return any((one.job_id, one.noisy) == (self.job.id, result.noisy) for one in kept)

    def keep(
        self, uow: UnitOfWork, spent: Spent, spec: PtkSpec | None, result: NoisyLosses, at: datetime
    ) -> Outcome:
        """Keep the number. It was paid for, and counts for later waits with the same version as well."""
        if self._since is not None and spec is not None:
            self._add(uow, self._since, result.noisy)
        return Outcome.DONE

    def keep_none(self, uow: UnitOfWork) -> None:
        """Keep that the window grants nothing to the wait that the run was asked for."""
        if (since := self.wait_of(uow)) is not None:
            self._add(uow, since, None)

    def _add(self, uow: UnitOfWork, since: datetime, noisy: float | None) -> None:
        job = self.job
        uow.thresholds.add_released(
            ReleasedLoss(job.id, str(job.ptk_id), job.window, job.version, since, noisy)
        )
