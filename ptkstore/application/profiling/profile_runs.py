"""A paid run on a window's profile set, of which a profile's record tells (differences.md F2, F3, F5)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from ptkstore.application.ledger.charging import Price
from ptkstore.application.paid_runs.paid_run import ClaimedRun, Ended, PaidRun
from ptkstore.application.paid_runs.team_code_source import FetchedTeamCode
from ptkstore.application.profiling.profile_requests import notify_owners, sharing
from ptkstore.domain.jobs import Job, Outcome
from ptkstore.domain.ledger.journal import Entry
from ptkstore.domain.ptks.profiles import Paid, ProfileAsk, ProfileRecord
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.policies import Policy
from ptkstore.ports.catalog import UnitOfWork
from ptkstore.ports.row_processes import SampleProfiler

R = TypeVar("R")


class ProfileSetRun(PaidRun[R]):
    """A run for the profile it was queued for alone: a PTK that changed meanwhile gets its reservation back.

    Attributes
    ----------
    ask, record :
        The request, and the profile's record; there once the run is priced.
    code :
        The code of the PTK, where it is a team's.
    """

    locks_stream = True
    ask: ProfileAsk
    record: ProfileRecord

    def __init__(self, job: Job, profiler: SampleProfiler, code: FetchedTeamCode) -> None:
        super().__init__(job)
        self.profiler, self.code = profiler, code

    @abstractmethod
    def priced(self, spec: PtkSpec, policy: Policy) -> Price | None:
        """Return what `ask` and `record` cost now; None if it cannot be had."""

    def price(self, uow: UnitOfWork, claimed: ClaimedRun) -> Price | Ended:
        """Return what is asked now; a later claim may ask for more than its reservation pays for."""
        ask, record = claimed.spec.profile, uow.profiles.of_job(self.job.id)
        if ask is None or record is None or ask.key != record.key:
            return Ended(Outcome.WITHDRAWN)
        self.code.check(claimed.spec.ptk_id, claimed.spec.estimator)
        self.ask, self.record = ask, record
        return self.priced(claimed.spec, claimed.stream.policy) or Ended(Outcome.WITHDRAWN)

    def note_spend(self, uow: UnitOfWork, claimed: ClaimedRun, spent: Entry) -> bool:
        """Note in the record what was paid."""
        paid = Paid(self.job.kind.value, self.job.window.index, spent.blocks.first, spent.loss)
        self.record = self.record.charged(paid)
        uow.profiles.save(self.record)
        return True

    def note_failure(self, uow: UnitOfWork, code: str, at: datetime) -> None:
        """Keep the code in the record; the loss stays spent."""
        record = replace(self.record, code=code)
        gives_up = not record.settled and record.tries >= self.ask.tries
        self.save(uow, record.given_up() if gives_up else record, at)

    def save(self, uow: UnitOfWork, record: ProfileRecord, at: datetime) -> None:
        """Write down what is known now."""
        uow.profiles.save(record)

    def tell(self, uow: UnitOfWork, code: str, now: datetime) -> None:
        """Leave word about the run for the owners of all PTKs that share the profile."""
        notify_owners(uow, self._sharing(uow), code, now, self.job.window_index, self.job.kind)

    def notify_of_profile(self, uow: UnitOfWork, code: str, now: datetime) -> None:
        """Leave word about the profile itself for the same owners."""
        notify_owners(uow, self._sharing(uow), code, now)

    def _sharing(self, uow: UnitOfWork) -> tuple[PtkSpec, ...]:
        record = uow.profiles.of_job(self.job.id)
        return sharing(uow, self.job.stream, record.key if record else "")
