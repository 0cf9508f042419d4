"""Measured significance on a stream: what was answered or released, what can be asked, and what asking it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ptkstore.application.planning.comparison_plans import price_of_comparison
from ptkstore.application.scheduling.asked_trainings import AskedTraining
from ptkstore.application.scheduling.lines_asked import profile_part_left
from ptkstore.application.scheduling.waiting_ptks import WaitingPtk, line_of
from ptkstore.domain.accounting.accountants import fit_together
from ptkstore.domain.budgeting.measured import Askable
from ptkstore.domain.budgeting.thresholds import Comparison, ReleasedLoss
from ptkstore.domain.jobs import Job, JobKind, JobState, job_id, paid_run
from ptkstore.domain.ledger.journal import BudgetRequest
from ptkstore.domain.ptks.ptks import PtkSpec, same_model
from ptkstore.domain.scheduling.choices import Significance
from ptkstore.domain.streams.blocks import PROFILE, BlockSet, groups_of, part_blocks
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.versions import repeated_version
from ptkstore.errors import UnknownName
from ptkstore.ports.catalog import CatalogView, UnitOfWork


class Comparisons:
    """The noisy thresholds of a stream, or the noisy losses that it releases.

    A line of a window has one threshold at most, asked by one PTK at a time. A release is its PTK's alone.
    """

    def __init__(self, uow: CatalogView, stream: Stream) -> None:
        self._uow, self._stream = uow, stream
        measured = stream.policy.significance.is_measured
        self._releases = stream.policy.significance is Significance.RELEASED_LOSS
        kept = uow.thresholds.of(stream.name) if measured and not self._releases else ()
        self._kept = {(one.window.index, one.line): one for one in kept}
        self._answers: dict[str, list[Comparison]] = {}
        for answer in uow.thresholds.answers(stream.name) if measured else ():
            self._answers.setdefault(answer.ptk_id, []).append(answer)
        self._released: dict[str, list[ReleasedLoss]] = {}
        for release in uow.thresholds.released(stream.name) if self._releases else ():
            self._released.setdefault(release.ptk_id, []).append(release)
        self._versions: dict[str, int] = {}
        self._runs: dict[int, list[Job]] = {}
        for run in uow.jobs.comparisons(stream.name) if measured else ():
            self._runs.setdefault(run.window.index, []).append(run)
        self._asked_now: set[tuple[int, str]] = set()

    def answers(self, one: WaitingPtk) -> Mapping[int, bool]:
        """Return what thresholds of windows have answered a PTK since it began to wait."""
        return {
            answer.window.index: answer.above
            for answer in self._answers.get(one.spec.ptk_id, ())
            if answer.since == one.wait.since
        }

    def released(self, one: WaitingPtk) -> Mapping[int, float | None]:
        """Return the noisy losses of a PTK's version by window, also those that an earlier wait has paid for.

        None means a release that failed since the PTK began to wait.
        """
        version = self.version_of(one)
        mine = [release for release in self._released.get(one.spec.ptk_id, ()) if release.version == version]
        failed = {release.window.index: None for release in mine if release.since == one.wait.since}
        numbers = {release.window.index: release.noisy for release in mine if release.noisy is not None}
        return {**failed, **numbers}

    def askable(self, one: WaitingPtk) -> Callable[[int], Askable]:
        """Return whether the losses on a window can be compared, or released, for a PTK.

        A run that failed has left an answer for its wait, so that it is not repeated. One that was withdrawn has read
        nothing, and is.
        """
        line, version = str(line_of(one.spec, self._stream.policy)), self.version_of(one)
        holder = self._holder(one.spec.ptk_id)

        def state(window: int) -> Askable:
            runs = self._runs.get(window, ())
            if (window, holder) in self._asked_now or any(self._is_busy(run, holder) for run in runs):
                return Askable.LATER
            if not version:
                return Askable.WITHOUT_VERSION
            return Askable.YES if self._profile_part_pays(window, line) else Askable.UNAFFORDABLE

        return state

    def asked(self, one: WaitingPtk, windows: Sequence[int], now: datetime) -> list[AskedTraining]:
        """Return the runs that have to be paid for, and queue those whose threshold was kept."""
        asked = []
        for window in windows:
            line = self._stream.policy.line_of(one.spec.ptk_id)
            self._asked_now.add((window, self._holder(one.spec.ptk_id)))
            job = self._job(one, window, now)
            kept = self._kept.get((window, line))
            if kept is None:
                asked.append(self._paid_for(job))
            else:  # it runs under the spend that paid for the noise
                writing: UnitOfWork = self._uow  # type: ignore[assignment] # whoever asks may write
                writing.jobs.add(replace(job, reservation=kept.reservation, state=JobState.OPENED))
        return asked

    def version_of(self, one: WaitingPtk) -> int:
        """Return the version of a PTK that is compared; 0 if there is none."""
        ptk_id = one.spec.ptk_id
        if ptk_id not in self._versions:
            self._versions[ptk_id] = compared_version(self._uow, one.spec)
        return self._versions[ptk_id]

    def _job(self, one: WaitingPtk, window: int, now: datetime) -> Job:
        before = [run.look for run in self._runs.get(window, ()) if run.ptk_id == one.spec.ptk_id]
        place = WindowId(self._stream.name, window)
        look = 1 + max(before, default=0)
        return paid_run(JobKind.COMPARE, one.spec.ptk_id, place, now, version=self.version_of(one), look=look)

    def _paid_for(self, job: Job) -> AskedTraining:
        policy = self._stream.policy
        price = price_of_comparison(policy)
        blocks = BlockSet.of(part_blocks(PROFILE, job.window, policy, range(groups_of(policy))))
        request = BudgetRequest.of_run(job, policy, blocks, price.loss, price.charge)
        return AskedTraining(request, price.event, job)

    def _holder(self, ptk_id: str) -> str:
        """The one that has one run at a time on a window: a line with its threshold, or a PTK that pays itself."""
        return ptk_id if self._releases else self._stream.policy.line_of(ptk_id)

    def _is_busy(self, run: Job, holder: str) -> bool:
        return self._holder(str(run.ptk_id)) == holder and run.state is not JobState.ENDED

    def _profile_part_pays(self, window: int, line: str) -> bool:
        """Whether it has epsilon_0 left, or a threshold that was kept; a retired block answers nothing."""
        left = profile_part_left(self._uow, self._stream, WindowId(self._stream.name, window), line)
        if left is None or (window, line) in self._kept:
            return left is not None
        charge = price_of_comparison(self._stream.policy).charge
        return all(fit_together(caps, [charge]) for caps in left.values())


def compared_version(uow: CatalogView, spec: PtkSpec) -> int:
    """Return the newest version in the lake of the model that a PTK has by now; 0 if there is none.

    A version that repeats another one has its state, and thus its losses: the other one is compared.
    """
    try:
        number = uow.jobs.get(job_id(JobKind.PLACE, spec.ptk_id)).position
    except UnknownName:
        return 0
    if not number:
        return 0
    content = uow.versions.get(spec.ptk_id, number).content
    return (repeated_version(content) or number) if same_model(content["config"], spec.estimator) else 0
