"""Measure what a window teaches a PTK, as its stream asks: compare it with a noisy threshold, or release it noisily."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ptkstore.application.paid_runs.paid_run import ClaimedRun, Ended, Opening, Spending, Spent, pay_and_run
from ptkstore.application.profiling.loss_releases import LossRelease
from ptkstore.application.profiling.significance_runs import UNREADABLE, ComparedVersion, SignificanceRun
from ptkstore.application.scheduling.lines_asked import line_asked, profile_part_left
from ptkstore.domain.budgeting.thresholds import Comparison, Threshold, threshold_key_id
from ptkstore.domain.jobs import Job, Outcome
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.scheduling.choices import Significance
from ptkstore.domain.streams.streams import Stream
from ptkstore.errors import WindowGone
from ptkstore.ports.catalog import CatalogView, UnitOfWork
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import Lake
from ptkstore.ports.row_processes import Compared, Comparer, CompareRequest, OpenedRows, RunFailed

THRESHOLD_GONE = "threshold-gone"


def compare_significance(
    job: Job, spending: Spending, opening: Opening, *, lake: Lake, comparer: Comparer
) -> None:
    """Release one answer of a noisy threshold at most, or one noisy sum.

    A comparison that draws a threshold spends epsilon_0 first. One with a threshold that was kept runs under the spend
    that paid for its noise. The answer and what becomes of the threshold are kept in one transaction. A threshold that
    answers "above" loses its key before that: no older copy of the catalog can bring it back. A version that cannot be
    read ends its run unpaid, for others wait for the threshold.
    """
    compared = ComparedVersion.of(job, spending.begin, lake)  # before the loss is spent
    with spending.begin() as uow:
        significance = uow.streams.get(job.stream).policy.significance
    if significance is Significance.RELEASED_LOSS:
        pay_and_run(LossRelease(job, compared, comparer), spending, opening)
    else:
        pay_and_run(_Comparing(job, compared, comparer, opening.keys), spending, opening)


class _Comparing(SignificanceRun[Compared]):
    ran_step, kept_step = "compared", "answer-kept"

    def __init__(
        self, job: Job, compared: ComparedVersion | None, comparer: Comparer, keys: KeyStore
    ) -> None:
        super().__init__(job, compared, comparer)
        self._keys, self._key_id = keys, threshold_key_id(job.window, str(job.reservation))
        self._threshold: Threshold | None = None
        self._asked = 0.0

    def is_asked(self, uow: UnitOfWork, claimed: ClaimedRun) -> bool:
        """Tell whether a threshold that was kept is there still, and its line is compared by now."""
        line = self._line(uow)
        kept = [
            one
            for one in uow.thresholds.of(self.job.stream)
            if (one.window, one.line) == (self.job.window, line)
        ]
        self._threshold = kept[0] if kept else None
        if kept and self._is_retired(uow, claimed.stream):
            self._use_up(uow)
            return False
        paid_by = self.job.id if self._threshold is None else self._threshold.reservation
        asked = line_asked(uow, claimed.stream, claimed.spec, self.job.window)
        self._asked = 0.0 if asked is None else asked
        return paid_by == self.job.reservation and asked is not None

    def run(
        self, spent: Spent, rows: tuple[OpenedRows, ...], keep_alive: Callable[[], None]
    ) -> Compared | RunFailed:
        """Have the losses compared; the secret stays sealed on this side."""
        version = self.compared
        try:
            key = self._keys.draft_key(self._key_id)
        except WindowGone:  # it was used up, and nobody was left to keep the answer
            return RunFailed(THRESHOLD_GONE)
        request = CompareRequest(
            estimator=version.estimator,
            state=version.state,
            rows=rows,
            epsilon=spent.spend.loss.spendable_epsilon,
            line=self._asked,
            name=self._key_id,
            threshold_key=key,
            sealed=None if self._threshold is None else self._threshold.sealed,
        )
        return self._comparer.compare(request, keep_alive)

    def was_kept(self, uow: CatalogView, result: Compared) -> bool:
        """Tell whether the answer of this job is kept, and is this one."""
        answers = uow.thresholds.answers(self.job.stream)
        return any((one.job_id, one.above) == (self.job.id, result.above) for one in answers)

    def keep(
        self, uow: UnitOfWork, spent: Spent, spec: PtkSpec | None, result: Compared, at: datetime
    ) -> Outcome:
        """Keep the answer, and the threshold as it is by now: none for a part that is retired, maybe by its spend."""
        if result.sealed is None or self._is_retired(uow, spent.stream):
            self._use_up(uow)
        else:
            reservation = str(self.job.reservation)
            uow.thresholds.keep(Threshold(self.job.window, self._line(uow), reservation, result.sealed))
        self._answer(uow, above=result.above)
        return Outcome.DONE

    def keep_none(self, uow: UnitOfWork) -> None:
        """Use the threshold up and answer "below".

        Also one that others of the line paid for. The owner gets notice of a failure, which may depend on rows. No
        noise covers it. So a threshold ends with the first thing that it tells beside "below", as it ends with
        "above".
        """
        self._use_up(uow)
        self._answer(uow, above=False)

    def note_end(self, uow: UnitOfWork, ended: Ended) -> None:
        """Answer "below"; a run that never had a version to read leaves the threshold to the others of its line."""
        if ended.code == UNREADABLE:
            self._answer(uow, above=False)
        else:
            super().note_end(uow, ended)

    def _line(self, uow: CatalogView) -> str:
        return uow.streams.get(self.job.stream).policy.line_of(str(self.job.ptk_id))

    def _is_retired(self, uow: CatalogView, stream: Stream) -> bool:
        return profile_part_left(uow, stream, self.job.window, self._line(uow)) is None

    def _use_up(self, uow: UnitOfWork) -> None:
        self._keys.destroy_draft(self._key_id)  # before anybody sees the answer
        uow.thresholds.drop(self.job.window, self._line(uow))

    def _answer(self, uow: UnitOfWork, *, above: bool) -> None:
        """Keep the answer for the wait that it was asked for; a PTK that waits anew by now gets none."""
        if (since := self.wait_of(uow)) is not None:
            uow.thresholds.add(Comparison(self.job.id, str(self.job.ptk_id), self.job.window, since, above))
