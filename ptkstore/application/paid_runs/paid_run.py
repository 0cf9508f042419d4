"""Price, spend, ask for the key, run apart, wait for the tick, keep: for all that spends (differences.md F2-F6)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar, Final, Generic, TypeVar

from ptkstore.application.ledger.charging import Price, expect_spent, release_unopened, spend
from ptkstore.application.ledger.group_commit import GroupCommit
from ptkstore.application.ledger.retired_windows import drop_windows_of
from ptkstore.application.paid_runs.commit_retry import CommitRetry
from ptkstore.domain.jobs import WAITED_FOR, Job, JobState, Outcome, scheduler_of
from ptkstore.domain.ledger.journal import Entry
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.runs import hopeless, runs_once
from ptkstore.domain.streams.blocks import Rows, rows_by_window, windows_behind
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.errors import LeaseLost, NoProcess, OutcomeUnknown, PtkStoreError, Unavailable, WindowGone
from ptkstore.ports.catalog import Begin, CatalogView, UnitOfWork
from ptkstore.ports.keys import JournalView, KeyStore
from ptkstore.ports.objects import RawZone
from ptkstore.ports.row_processes import OpenedRows, RunFailed
from ptkstore.ports.runtime import Steps

R = TypeVar("R")
_T = TypeVar("_T")

CHANGED: Final = "changed-after-its-reservation"


@dataclass(frozen=True, slots=True)
class Spending:
    """The ports that spend a loss, wait, and record the result."""

    begin: Begin
    charges: GroupCommit
    commit_retry: CommitRetry
    steps: Steps

    def now(self) -> datetime:
        """Return the present in UTC."""
        return self.commit_retry.ticks.clock.now()


@dataclass(frozen=True, slots=True)
class Opening:
    """The ports that open rows for a claim; `keep_alive` raises once somebody else has the job."""

    keys: KeyStore
    journal: JournalView
    raw: RawZone
    keep_alive: Callable[[], None]

    def open(self, rows: Mapping[int, Rows], spend: Entry) -> dict[int, OpenedRows]:
        """Return the rows of each window that remains, by its index, with their key.

        The key store hands out the key of each window against the one spend, which it can see. Raises `WindowGone` if
        no window remains.
        """
        opened, gone = {}, None
        for index, one in rows.items():
            self.keep_alive()
            window = WindowId(spend.request.stream, index)
            try:
                key = self.keys.opening_key(window, self.journal, (spend.sequence, spend.digest))
            except WindowGone as error:
                gone = error
                continue
            urls = tuple(self.raw.part_url(window, file) for file in one.files)
            opened[index] = OpenedRows(urls, one.low, one.high, key)
        if not opened and gone is not None:
            raise gone
        return opened


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A claimed run that may open rows.

    `history` is that of its reservation, empty if it has yet to reserve. `states` are those of the windows that it has
    reserved on, or else of those that it asks for.
    """

    stream: Stream
    spec: PtkSpec
    job: Job
    history: tuple[Entry, ...]
    states: Mapping[int, WindowState]

    @property
    def spend(self) -> Entry | None:
        """The payment of an earlier claim, or of this one without an answer."""
        return self.history[-1] if self.job.state is JobState.OPENED else None


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that ends before it opens rows; its owner gets `code`, or else the outcome."""

    outcome: Outcome
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """A run whose loss is spent: from here on its rows may be read.

    Attributes
    ----------
    windows : tuple of int
        The windows that paid and do not expire, rising; once rows are opened, those that were left.
    """

    stream: Stream
    spec: PtkSpec
    spend: Entry
    windows: tuple[int, ...]


class PaidRun(ABC, Generic[R]):
    """The steps that belong to one kind of paid run; the rest is `pay_and_run`.

    `price`, `note_spend`, `keep` and what they call are steps of a transaction that others commit, and may be taken
    again when nobody heard whether it was.

    Attributes
    ----------
    ran_step, kept_step : str
        The steps at which it has ended, on a tick, and at which its result is kept.
    locks_stream : bool
        Whether it writes what other PTKs of the stream share.
    """

    ran_step: ClassVar[str]
    kept_step: ClassVar[str]
    locks_stream: ClassVar[bool] = False

    def __init__(self, job: Job) -> None:
        self.job = job

    @abstractmethod
    def price(self, uow: UnitOfWork, claimed: ClaimedRun) -> Price | Ended:
        """Return what it is charged, reserved by now at the latest; the run ends if that covers less."""

    @abstractmethod
    def run(
        self, spent: Spent, rows: tuple[OpenedRows, ...], keep_alive: Callable[[], None]
    ) -> R | RunFailed:
        """Run on the rows of each window in a process of its own."""

    @abstractmethod
    def keep(
        self, uow: UnitOfWork, spent: Spent, spec: PtkSpec | None, result: R, at: datetime
    ) -> Outcome | Ended:
        """Write down the result at a tick, and return how the run ends.

        Parameters
        ----------
        spent : Spent
            The run with the PTK as it was when its loss was spent.
        spec : PtkSpec, optional
            The PTK as it is by now, None if it was withdrawn.
        result : R
            What `run` returned.
        at : datetime
            The tick.
        """

    @property
    def windows(self) -> tuple[int, ...]:
        """The windows that it asks for, rising, where it has reserved on none yet."""
        return (self.job.window.index,)

    @property
    def n_rows(self) -> int | None:
        """How many rows are planned; None for all behind the blocks that pay."""
        return None

    def note_spend(self, uow: UnitOfWork, claimed: ClaimedRun, spent: Entry) -> bool:
        """Take note of the spend, in its transaction; whether the run opens its rows now."""
        return True

    def was_kept(self, uow: CatalogView, result: R) -> bool:
        """Tell whether a transaction that nobody answered has kept this very result."""
        return False

    def note_failure(self, uow: UnitOfWork, code: str, at: datetime) -> None:
        """Take note of a run that opened rows and tells nothing else."""

    def note_end(self, uow: UnitOfWork, ended: Ended) -> None:
        """Take note of a run that ends and opens no rows now; a claim before this one may have opened them."""

    def tell(self, uow: UnitOfWork, code: str, now: datetime) -> None:
        """Leave word for whoever waits for the result."""
        uow.notify_owner(Notice.of_run(self.job, code, now))


def states_behind(
    uow: CatalogView, policy: Policy, job: Job, history: Sequence[Entry]
) -> Mapping[int, WindowState]:
    """Return the state of each window behind the reservation of a run."""
    return uow.windows.states(job.stream, windows_behind(policy, history[0].blocks, job.window.index))


def still_held(uow: UnitOfWork, job: Job) -> Job:
    """Lock the job and return it; `LeaseLost` also if an expiry took it back, which leaves its fence as it is."""
    held = uow.jobs.held(job)
    if held.lease_until is None:
        raise LeaseLost(f"job {job.id} was given back")
    return held


def left_of(states: Mapping[int, WindowState]) -> tuple[int, ...]:
    """Return the windows that a run may open: those that do not expire."""
    return tuple(index for index, state in states.items() if state is WindowState.PREPARED)


def pay_and_run(run: PaidRun[R], spending: Spending, opening: Opening) -> bool:
    """Release at most one result of the job's reservation; whether this is it.

    The loss is spent before the key is asked for. Only a run of a library estimator whose lease was lost is run again
    under the same spend: it has told nobody anything. Every other end of a run that opened rows keeps the loss and
    releases nothing. A process that spent and got no answer looks whether the spend was committed, and continues: it
    alone knows that no row was opened. A run that has ended waits for a catalog that is away.

    While the machine starts no process for team code, it waits under its spend, as it does for its key.
    """
    walk = _Walk(run, spending, opening)
    try:
        return walk.take()
    except LeaseLost:  # somebody else runs it now, or it is over; nothing of this run is kept
        return False


class _Walk(Generic[R]):
    """The steps of one paid run, in order."""

    def __init__(self, run: PaidRun[R], spending: Spending, opening: Opening) -> None:
        self._run, self._job = run, run.job
        self._spending, self._opening = spending, opening

    def take(self) -> bool:
        spending, job = self._spending, self._job
        commit_retry, steps = spending.commit_retry, spending.steps
        # runs that begin at once elsewhere in this process share the commit
        paid = commit_retry.settle(lambda: spending.charges.together(job.stream, self._spend))
        if paid is None:
            return False
        steps.reached("spent", job.id)
        try:
            opened = self._persist(paid, lambda: self._open(paid))
            steps.reached("opened", job.id)
            spent = replace(paid, windows=tuple(opened))
            rows = tuple(opened.values())
            result = self._persist(spent, lambda: self._begin(spent, rows), (NoProcess,))
        except WindowGone:
            self._end(paid, Ended(Outcome.EXPIRED))
            return False
        leaves_at = commit_retry.ticks.wait()
        steps.reached(self._run.ran_step, job.id)
        kept = commit_retry.outlast(lambda tick: self._keep(spent, result, tick), leaves_at)
        if kept:
            steps.reached(self._run.kept_step, job.id)
        return kept

    def _spend(self, uow: UnitOfWork) -> Spent | None:
        stream = uow.streams.lock(self._job.stream)
        spec = uow.ptks.lock(str(self._job.ptk_id))
        held = uow.jobs.held(self._job)
        if held.lease_until is None:  # this very claim gave it back, and nobody heard
            return None
        priced = self._price_and_spend(uow, stream, spec, held)
        if isinstance(priced, Ended):
            release_unopened(uow, held.reservation)
            self._finish(uow, held, priced)
            self._run.note_end(uow, priced)
            return None
        return priced

    def _price_and_spend(
        self, uow: UnitOfWork, stream: Stream, spec: PtkSpec | None, held: Job
    ) -> Spent | Ended | None:
        # What this very claim spent without an answer opened no row: it has yet to begin.
        begun = replace(held, state=self._job.state)
        history = uow.ledger.history(str(held.reservation))
        if history:
            states = states_behind(uow, stream.policy, held, history)
        else:
            states = uow.windows.states(held.stream, self._run.windows)
        outcome = hopeless(begun, spec, states.values())
        if spec is None or outcome is not None:
            return Ended(outcome or Outcome.WITHDRAWN)
        claimed = ClaimedRun(stream, spec, held, tuple(history), states)
        price = self._run.price(uow, claimed)
        if isinstance(price, Ended):
            return price
        reservation = (history or uow.ledger.history(str(held.reservation)))[0]
        if not reservation.charge.covers(price.charge):
            return Ended(Outcome.WITHDRAWN, CHANGED)
        windows = left_of(states)
        if claimed.spend is not None:
            return Spent(stream, spec, claimed.spend, windows)
        spent = spend(uow, reservation, price.event, stream.policy)
        uow.jobs.mark_opened(held)
        return Spent(stream, spec, spent, windows) if self._run.note_spend(uow, claimed, spent) else None

    def _persist(
        self,
        spent: Spent,
        act: Callable[[], _T],
        errors: tuple[type[PtkStoreError], ...] = (Unavailable, OutcomeUnknown),
    ) -> _T:
        """Team code whose loss is spent waits: it has opened no row, and nobody else may go on with it."""
        if not runs_once(spent.spec):
            return act()
        return self._spending.commit_retry.outlast(lambda _: act(), self._spending.now(), errors)

    def _open(self, spent: Spent) -> dict[int, OpenedRows]:
        policy, newest = spent.stream.policy, self._job.window.index
        rows = rows_by_window(policy, spent.spend.blocks, newest, self._run.n_rows)
        return self._opening.open({index: rows[index] for index in spent.windows}, spent.spend)

    def _begin(self, spent: Spent, rows: tuple[OpenedRows, ...]) -> R | RunFailed:
        self._opening.keep_alive()
        return self._run.run(spent, rows, self._opening.keep_alive)

    def _keep(self, spent: Spent, result: R | RunFailed, at: datetime) -> bool:
        """Repeatable: `LeaseLost` means that this result is not kept and never will be."""
        run = self._run
        with self._spending.begin() as uow:
            self._lock_stream(uow, spent)
            spec = uow.ptks.lock(str(self._job.ptk_id))  # waits for a transaction that nobody answered
            try:
                held = still_held(uow, self._job)
            except LeaseLost:
                if not isinstance(result, RunFailed) and run.was_kept(uow, result):
                    return True
                raise
            expect_spent(uow, spent.spend)
            if isinstance(result, RunFailed):
                ended = Ended(Outcome.FAILED, result.code)
                self._finish(uow, held, ended)
                run.note_failure(uow, result.code, at)
            else:
                kept = run.keep(uow, spent, spec, result, at)
                ended = kept if isinstance(kept, Ended) else Ended(kept)
                self._finish(uow, held, ended)
            uow.commit()
        return ended.outcome in _KEPT

    def _end(self, spent: Spent, ended: Ended) -> None:
        with self._spending.begin() as uow:
            self._lock_stream(uow, spent)
            self._finish(uow, uow.jobs.held(self._job), ended)
            uow.commit()

    def _lock_stream(self, uow: UnitOfWork, spent: Spent) -> None:
        """Lock the stream before anything else, if the end of the run writes or reads what runs share."""
        if self._run.locks_stream or spent.stream.policy.drop_retired:
            uow.streams.lock(self._job.stream)

    def _finish(self, uow: UnitOfWork, held: Job, ended: Ended) -> None:
        uow.jobs.save(held.ended(ended.outcome))
        if held.kind in WAITED_FOR:
            uow.jobs.wake(scheduler_of(held.stream), self._spending.now())
        drop_windows_of(uow, held, self._spending.now())
        if ended.outcome not in _KEPT:
            self._run.tell(uow, ended.code or ended.outcome.value, self._spending.now())


_KEPT = (Outcome.PUBLISHED, Outcome.DONE)
