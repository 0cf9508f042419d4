"""Comparisons with noisy thresholds on a stream: what was answered, what can be asked, and what asking it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ptkstore.application.planning.comparison_plans import price_of_threshold
from ptkstore.application.scheduling.asked_trainings import AskedTraining
from ptkstore.application.scheduling.lines_asked import profile_part_left
from ptkstore.application.scheduling.waiting_ptks import WaitingPtk, line_of
from ptkstore.domain.accounting.accountants import fit_together
from ptkstore.domain.budgeting.measured import Askable
from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome, job_id, paid_run
from ptkstore.domain.ledger.journal import BudgetRequest
from ptkstore.domain.ptks.ptks import same_model
from ptkstore.domain.scheduling.choices import Significance
from ptkstore.domain.streams.blocks import PROFILE, BlockSet, groups_of, part_blocks
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import UnknownName
from ptkstore.ports.catalog import CatalogView, UnitOfWork


class Comparisons:
    """The noisy thresholds of a stream, of which a line of a window has one at most, asked by one at a time."""

    def __init__(self, uow: CatalogView, stream: Stream) -> None:
        self._uow, self._stream = uow, stream
        measured = stream.policy.significance is Significance.LOSS
        kept = uow.thresholds.of(stream.name) if measured else ()
        self._kept = {(one.window.index, one.line): one for one in kept}
        self._answers = uow.thresholds.answers(stream.name) if measured else ()
        self._runs: dict[int, list[Job]] = {}
        for run in uow.jobs.comparisons(stream.name) if measured else ():
            self._runs.setdefault(run.window.index, []).append(run)
        self._asked_now: set[tuple[int, str]] = set()

    def answers(self, one: WaitingPtk) -> Mapping[int, bool]:
        """Return what thresholds of windows have answered a PTK since it began to wait."""
        return {
            answer.window.index: answer.above
            for answer in self._answers
            if (answer.ptk_id, answer.since) == (one.spec.ptk_id, one.wait.since)
        }

    def askable(self, one: WaitingPtk) -> Callable[[int], Askable]:
        """Return whether the threshold of a window can be asked for a PTK.

        A comparison that failed without an answer is not repeated for the same wait: what fails once may fail each
        time. One that was withdrawn has read nothing, and is.
        """
        line, version = str(line_of(one.spec, self._stream.policy)), self._version(one)

        def state(window: int) -> Askable:
            runs = self._runs.get(window, ())
            if (window, line) in self._asked_now or any(self._is_busy(run, line) for run in runs):
                return Askable.LATER
            if not version:
                return Askable.WITHOUT_VERSION
            mine = [run for run in runs if run.ptk_id == one.spec.ptk_id and run.due_at >= one.wait.since]
            if any(run.outcome is not Outcome.WITHDRAWN for run in mine):
                return Askable.WITHOUT_VERSION
            return Askable.YES if self._profile_part_pays(window, line) else Askable.UNAFFORDABLE

        return state

    def asked(self, one: WaitingPtk, windows: Sequence[int], now: datetime) -> list[AskedTraining]:
        """Return the comparisons that have to be paid for, and queue those whose threshold was kept."""
        asked = []
        for window in windows:
            line = self._stream.policy.line_of(one.spec.ptk_id)
            self._asked_now.add((window, line))
            job = self._job(one, window, now)
            kept = self._kept.get((window, line))
            if kept is None:
                asked.append(self._paid_for(job))
            else:  # it runs under the spend that paid for the noise
                writing: UnitOfWork = self._uow  # type: ignore[assignment] # whoever asks may write
                writing.jobs.add(replace(job, reservation=kept.reservation, state=JobState.OPENED))
        return asked

    def _job(self, one: WaitingPtk, window: int, now: datetime) -> Job:
        before = [run.look for run in self._runs.get(window, ()) if run.ptk_id == one.spec.ptk_id]
        place = WindowId(self._stream.name, window)
        look = 1 + max(before, default=0)
        return paid_run(JobKind.COMPARE, one.spec.ptk_id, place, now, version=self._version(one), look=look)

    def _paid_for(self, job: Job) -> AskedTraining:
        policy = self._stream.policy
        price = price_of_threshold(policy)
        blocks = BlockSet.of(part_blocks(PROFILE, job.window, policy, range(groups_of(policy))))
        request = BudgetRequest.of_run(job, policy, blocks, price.loss, price.charge)
        return AskedTraining(request, price.event, job)

    def _is_busy(self, run: Job, line: str) -> bool:
        of_line = self._stream.policy.line_of(str(run.ptk_id)) == line
        return of_line and run.state is not JobState.ENDED

    def _profile_part_pays(self, window: int, line: str) -> bool:
        """Whether it has the loss of a threshold left, or one that was kept; a retired block answers nothing."""
        left = profile_part_left(self._uow, self._stream, WindowId(self._stream.name, window), line)
        if left is None or (window, line) in self._kept:
            return left is not None
        charge = price_of_threshold(self._stream.policy).charge
        return all(fit_together(caps, [charge]) for caps in left.values())

    def _version(self, one: WaitingPtk) -> int:
        """The newest version in the lake of the model that the PTK has by now; 0 if there is none."""
        try:
            number = self._uow.jobs.get(job_id(JobKind.PLACE, one.spec.ptk_id)).position
        except UnknownName:
            return 0
        if not number:
            return 0
        content = self._uow.versions.get(one.spec.ptk_id, number).content
        return number if same_model(content["config"], one.spec.estimator) else 0
