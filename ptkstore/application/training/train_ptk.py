"""Run one training: spend, open the rows, train apart, elect the output (differences.md F2, F3, F3a)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from ptkstore.application.ledger.charging import Price, price_of
from ptkstore.application.paid_runs.paid_run import (
    CHANGED,
    ClaimedRun,
    Ended,
    Opening,
    PaidRun,
    Spending,
    Spent,
    pay_and_run,
)
from ptkstore.application.paid_runs.team_code_source import FetchedTeamCode, TeamCodeSource
from ptkstore.application.planning.estimators import can_be_read, condenses, event_of, is_paid_for
from ptkstore.application.planning.evaluation_plans import queue_evaluation
from ptkstore.application.training.partials import (
    add_partials,
    discard,
    ended_partials_of,
    n_partials,
    needless_partials_of,
    staged,
)
from ptkstore.application.versions.candidates import write_content
from ptkstore.application.versions.drafts import OwnDraft
from ptkstore.application.versions.elected_files import state_files_of
from ptkstore.application.versions.elections import elect
from ptkstore.domain.jobs import Job, JobState, Outcome, validation_of
from ptkstore.domain.ledger.journal import Entry
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.ptks import PtkSpec, same_model
from ptkstore.domain.streams.blocks import groups_behind
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.windows import WindowState
from ptkstore.domain.versions.manifests import content_of, elected_manifest
from ptkstore.domain.versions.state_windows import charged_blocks, windows_in
from ptkstore.domain.versions.versions import Draft, Version
from ptkstore.errors import CorruptObject, Unavailable, UnknownName
from ptkstore.ports.catalog import Begin, CatalogView, UnitOfWork
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import Lake, Staging
from ptkstore.ports.row_processes import OpenedRows, RunFailed, Trainer, TrainRequest

PREVIOUS_STATE_UNREADABLE: Final = "previous-state-unreadable"


@dataclass(frozen=True, slots=True)
class Storing:
    """The ports that store drafts and versions."""

    staging: Staging
    lake: Lake


def train_ptk(
    job: Job,
    spending: Spending,
    opening: Opening,
    storing: Storing,
    *,
    trainer: Trainer,
    code: TeamCodeSource,
    rows_per_partial: int,
) -> None:
    """Train one PTK on its windows; at most one output of its reservation is ever elected.

    A large run of an estimator whose statistics condense rows is split after its spend. Other jobs collect partial
    statistics of ranges of the keyed hash. When all have ended this one is claimed again, merges them and draws noise
    once.

    Before anything is spent, team code is fetched, its sandbox tried, a key for the draft made and a file written to
    staging. If that fails, another worker may have the job. A last version whose state cannot be read is not
    continued.

    Parameters
    ----------
    job : Job
        The claimed training.
    spending, opening, storing : Spending, Opening, Storing
        The ports that charge, open rows and keep a draft.
    code : TeamCodeSource
        The source of team code.
    rows_per_partial : int
        A run that is planned for more rows is split.
    """
    begin, keys, staging = spending.begin, opening.keys, storing.staging
    # Before the loss is spent: the lake may not answer, what it holds may be unreadable, and staging may take no file.
    basis = _basis(job, begin, storing.lake, code.of_job(job, begin))
    opening.raw.check_writable()
    with OwnDraft(job.window, keys, staging) as draft:
        run = _Training(job, basis, draft, trainer, rows_per_partial, keys, staging)
        draft.kept = elected = pay_and_run(run, spending, opening)
        if run.is_split:
            draft.destroy()
            spending.steps.reached("split", job.id)
            return
        # before the draft goes: where staging deletes nothing, the keys of both are destroyed all the same
        discard(run.partials if elected else _needless(job, begin), keys, staging)


@dataclass(frozen=True, slots=True)
class _Basis:
    """The start of a training."""

    previous: Version | None
    state: Mapping[str, bytes] | None
    """The files of its state; None if it is unreadable, and so is not gone on from."""
    code: FetchedTeamCode

    def continued(
        self, spec: PtkSpec, policy: Policy, spend: Entry, windows: Sequence[int]
    ) -> Version | None:
        """The version whose state a run continues from: of the same model, of rows of the same kind, of other windows.

        A window that is in the state already would count twice.
        """
        previous = self.previous
        if (
            previous is None
            or self.state is None
            or not same_model(previous.content["config"], spec.estimator)
        ):
            return None
        *_, newest = charged_blocks(previous.content)
        is_same = groups_behind(policy, newest) == groups_behind(policy, spend.blocks.first)
        return previous if is_same and windows_in(previous.content, policy).isdisjoint(windows) else None


class _Training(PaidRun[Draft]):
    ran_step, kept_step = "trained", "elected"

    def __init__(
        self,
        job: Job,
        basis: _Basis,
        draft: OwnDraft,
        trainer: Trainer,
        rows_per_partial: int,
        keys: KeyStore,
        staging: Staging,
    ) -> None:
        super().__init__(job)
        self._basis, self._draft, self._trainer = basis, draft, trainer
        self._keys, self._staging = keys, staging
        self._rows_per_partial = rows_per_partial
        self._content: Mapping[str, Any] = {}
        self._collected: tuple[int, ...] = ()
        self.partials: tuple[Job, ...] = ()
        self.is_split = False

    @property
    def n_rows(self) -> int:
        return self.job.n_rows

    def price(self, uow: UnitOfWork, claimed: ClaimedRun) -> Price | Ended:
        self.partials = ended_partials_of(uow, claimed.job)
        # when a window expires, partials that have read it are collected anew
        states = claimed.states.items()
        self._collected = tuple(index for index, state in states if state is not WindowState.EXPIRED)
        if any(one.outcome is not Outcome.DONE for one in self.partials):
            return Ended(Outcome.FAILED)
        self._basis.code.check(claimed.spec.ptk_id, claimed.spec.estimator)
        loss = claimed.history[0].loss
        event = event_of(claimed.spec.estimator, loss)  # raises before anything is spent
        if claimed.spend is not None and not is_paid_for(claimed.spec.estimator, claimed.spend):
            return Ended(Outcome.FAILED)
        return price_of(event, claimed.stream.policy.accountant, loss)

    def note_spend(self, uow: UnitOfWork, claimed: ClaimedRun, spent: Entry) -> bool:
        n = n_partials(claimed.job.n_rows, self._rows_per_partial) if condenses(claimed.spec.estimator) else 1
        self.is_split = n > 1
        if self.is_split:
            add_partials(uow, claimed.job, n)
            uow.jobs.save(replace(claimed.job, state=JobState.OPENED, attempt=1))  # waits without a lease
        return not self.is_split

    def run(
        self, spent: Spent, rows: tuple[OpenedRows, ...], keep_alive: Callable[[], None]
    ) -> Draft | RunFailed:
        request = TrainRequest(
            estimator=spent.spec.estimator,
            epsilon=spent.spend.loss.spendable_epsilon,
            delta=spent.spend.loss.spendable_delta,
            rows=rows,
            draft_id=self._draft.id,
            draft_key=self._draft.key,
            previous_state=self._basis.state if self._continued(spent) else None,
            bundle=self._basis.code.bundle,
        )
        if self.partials:  # no row is opened, and no key of rows is handed on
            partials = staged(self.partials, self._keys)
            request = replace(request, rows=(), partials=partials)
        made = self._trainer.train(request, keep_alive)
        if isinstance(made, Draft):
            self._content = content_of(
                self.job,
                spent.spec,
                spent.stream,
                spent.spend,
                made,
                windows=self._windows(spent),
                previous=self._continued(spent),
            )
            if spent.spec.accept is not None:  # whoever validates it reads it from there
                write_content(made.draft_id, spent.spec, self._content, self._draft.key, self._staging)
        self._draft.kept = isinstance(made, Draft)  # by an election that nobody answers, too
        return made

    def was_kept(self, uow: CatalogView, result: Draft) -> bool:
        made = uow.versions.of_jobs([self.job.id]).get(self.job.id)
        if made is not None:
            return uow.versions.get(str(self.job.ptk_id), made[0]).draft_id == result.draft_id
        return any(one.draft_id == result.draft_id for one in uow.jobs.find(ptk_id=self.job.ptk_id))

    def keep(
        self, uow: UnitOfWork, spent: Spent, spec: PtkSpec | None, result: Draft, at: datetime
    ) -> Outcome | Ended:
        """Make the draft the PTK's next version, or have it validated first, unless the PTK was withdrawn meanwhile."""
        if spec is None:
            return Outcome.WITHDRAWN
        if spec.accept is not None and spent.spec.accept is None:
            return Ended(Outcome.WITHDRAWN, CHANGED)  # this state was to pass no test
        version = None
        if spent.spec.accept is None:
            manifest = partial(elected_manifest, self._content, at)
            version = elect(uow, self.job, result.draft_id, manifest, at)
            queue_evaluation(uow, spec, version, self.job.stream, at)
        else:
            uow.jobs.add(validation_of(self.job, result.draft_id, at))
        self._tell_of_unreadable_state(uow, spent, at, version)
        return Outcome.DONE if version is None else Outcome.PUBLISHED

    def _tell_of_unreadable_state(
        self, uow: UnitOfWork, spent: Spent, at: datetime, version: Version | None
    ) -> None:
        unreadable = self._basis.previous if self._basis.state is None else None
        if unreadable and same_model(unreadable.content["config"], spent.spec.estimator):
            notice = Notice.of_run(self.job, PREVIOUS_STATE_UNREADABLE, at)
            if version is not None:
                notice = replace(notice, window_index=None, version=version.number)
            uow.notify_owner(notice)

    def _windows(self, spent: Spent) -> tuple[int, ...]:
        """The windows whose rows may be in the state: those that were opened, or that partials may have read."""
        return self._collected if self.partials else spent.windows

    def _continued(self, spent: Spent) -> Version | None:
        return self._basis.continued(spent.spec, spent.stream.policy, spent.spend, self._windows(spent))


def _basis(job: Job, begin: Begin, lake: Lake, code: FetchedTeamCode) -> _Basis:
    """Claims of a PTK come one after the other, so its last version stays the last while this claim has the job."""
    with begin() as uow:
        previous = uow.versions.latest(str(job.ptk_id))
    return _Basis(previous, None if previous is None else _state_of(previous, lake), code)


def _state_of(version: Version, lake: Lake) -> dict[str, bytes] | None:
    """The files of a placed version's state; None if one is damaged or missing, or if nothing continues from them."""
    try:
        files = state_files_of(version, lake)
    except UnknownName:
        if not lake.ptk_ids():  # another folder or bucket, or one that is not mounted
            raise Unavailable("the lake has none of the versions that were placed in it") from None
        return None
    except CorruptObject:
        return None
    return files if can_be_read(version, files) else None


def _needless(job: Job, begin: Begin) -> tuple[Job, ...]:
    """The partials of a training that has ended, whoever ended it; none while somebody runs it."""
    with begin() as uow:
        return needless_partials_of(uow, job)
