"""Compare what a window teaches a PTK with a noisy threshold: one answer, and the threshold goes on or is used up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from ptkstore.application.ledger.charging import Price
from ptkstore.application.paid_runs.paid_run import (
    ClaimedRun,
    Ended,
    Opening,
    PaidRun,
    Spending,
    Spent,
    pay_and_run,
)
from ptkstore.application.planning.comparison_plans import price_of_threshold
from ptkstore.application.scheduling.lines_asked import line_asked, profile_part_left
from ptkstore.application.versions.elected_files import state_files_of
from ptkstore.domain.budgeting.thresholds import Comparison, Threshold, threshold_key_id
from ptkstore.domain.jobs import Job, Outcome
from ptkstore.domain.ptks.ptks import PtkSpec, same_model
from ptkstore.domain.streams.streams import Stream
from ptkstore.errors import CorruptObject, InvariantBroken, UnknownName, WindowGone
from ptkstore.ports.catalog import CatalogView, UnitOfWork
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import Lake
from ptkstore.ports.row_processes import Compared, Comparer, CompareRequest, OpenedRows, RunFailed

THRESHOLD_GONE = "threshold-gone"
UNREADABLE = "version-unreadable"


def compare_significance(
    job: Job, spending: Spending, opening: Opening, *, lake: Lake, comparer: Comparer
) -> None:
    """Release one answer of a noisy threshold, at most.

    A comparison that draws a threshold spends epsilon_0 first. One with a threshold that was kept runs under the spend
    that paid for its noise. The answer and what becomes of the threshold are kept in one transaction. A threshold that
    answers "above" loses its key before that: no older copy of the catalog can bring it back. A version that cannot be
    read ends its run unpaid, for others wait for the threshold.
    """
    try:  # before the loss is spent: the lake may not answer
        with spending.begin() as uow:
            version = uow.versions.get(str(job.ptk_id), job.version)
        compared = _Compared(version.content["config"], state_files_of(version, lake))
    except (CorruptObject, UnknownName, WindowGone):
        compared = None
    pay_and_run(_Comparing(job, compared, comparer, opening.keys), spending, opening)


@dataclass(frozen=True, slots=True)
class _Compared:
    """A version: its estimator as data, and its files."""

    estimator: Mapping[str, object]
    state: Mapping[str, bytes]


class _Comparing(PaidRun[Compared]):
    ran_step, kept_step = "compared", "answer-kept"
    locks_stream = True  # thresholds are the stream's

    def __init__(self, job: Job, compared: _Compared | None, comparer: Comparer, keys: KeyStore) -> None:
        super().__init__(job)
        self._compared, self._comparer, self._keys = compared, comparer, keys
        self._key_id = threshold_key_id(job.window, str(job.reservation))
        self._threshold: Threshold | None = None
        self._line, self._asked = "", 0.0
        self._since: datetime | None = None

    def price(self, uow: UnitOfWork, claimed: ClaimedRun) -> Price | Ended:
        """Return the price of a threshold. One that was kept has to be there still, and its PTK has to wait."""
        if self._compared is None:
            return Ended(Outcome.FAILED, UNREADABLE)
        policy = claimed.stream.policy
        self._line = policy.line_of(claimed.spec.ptk_id)
        kept = [
            one
            for one in uow.thresholds.of(self.job.stream)
            if (one.window, one.line) == (self.job.window, self._line)
        ]
        self._threshold = kept[0] if kept else None
        if kept and self._is_retired(uow, claimed.stream):
            self._use_up(uow)
            return Ended(Outcome.WITHDRAWN)
        paid_by = self.job.id if self._threshold is None else self._threshold.reservation
        asked = line_asked(uow, claimed.stream, claimed.spec, self.job.window)
        same = same_model(self._compared.estimator, claimed.spec.estimator)
        if paid_by != self.job.reservation or asked is None or not same:
            return Ended(Outcome.WITHDRAWN)
        self._asked, self._since = asked, uow.waits.of(self.job.stream)[claimed.spec.ptk_id].since
        return price_of_threshold(policy)

    def run(
        self, spent: Spent, rows: tuple[OpenedRows, ...], keep_alive: Callable[[], None]
    ) -> Compared | RunFailed:
        """Have the losses compared; the secret stays sealed on this side."""
        if self._compared is None:
            raise InvariantBroken("a run without a version ends unpaid")
        try:
            key = self._keys.draft_key(self._key_id)
        except WindowGone:  # it was used up, and nobody was left to keep the answer
            return RunFailed(THRESHOLD_GONE)
        request = CompareRequest(
            estimator=self._compared.estimator,
            state=self._compared.state,
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
            uow.thresholds.keep(Threshold(self.job.window, self._line, reservation, result.sealed))
        self._answer(uow, above=result.above)
        return Outcome.DONE

    def note_failure(self, uow: UnitOfWork, code: str, at: datetime) -> None:
        """Use the threshold up and answer "below": nobody pays again and again for what fails each time.

        Also one that others of the line paid for. The owner is told of a failure, and it may depend on rows. No noise
        covers it. So a threshold ends with the first thing that it tells beside "below", as it ends with "above".
        """
        self._use_up(uow)
        self._answer(uow, above=False)

    def _is_retired(self, uow: CatalogView, stream: Stream) -> bool:
        return profile_part_left(uow, stream, self.job.window, self._line) is None

    def _use_up(self, uow: UnitOfWork) -> None:
        self._keys.destroy_draft(self._key_id)  # before anybody sees the answer
        uow.thresholds.drop(self.job.window, self._line)

    def _answer(self, uow: UnitOfWork, *, above: bool) -> None:
        """Keep the answer for the wait that it was asked for; a PTK that waits anew by now gets none."""
        wait = uow.waits.of(self.job.stream).get(str(self.job.ptk_id))
        if wait is not None and wait.since == self._since:
            answer = Comparison(self.job.id, str(self.job.ptk_id), self.job.window, wait.since, above)
            uow.thresholds.add(answer)
