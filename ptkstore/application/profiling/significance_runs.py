"""A paid run on a window's profile part that measures what the window teaches a PTK, for one wait."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from ptkstore.application.ledger.charging import Price
from ptkstore.application.paid_runs.paid_run import ClaimedRun, Ended, PaidRun
from ptkstore.application.planning.comparison_plans import price_of_comparison
from ptkstore.application.versions.elected_files import state_files_of
from ptkstore.domain.jobs import Job, Outcome
from ptkstore.domain.ptks.ptks import same_model
from ptkstore.errors import CorruptObject, InvariantBroken, UnknownName, WindowGone
from ptkstore.ports.catalog import Begin, CatalogView, UnitOfWork
from ptkstore.ports.objects import Lake
from ptkstore.ports.row_processes import Comparer

UNREADABLE = "version-unreadable"

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ComparedVersion:
    """A version: its estimator as data, and its files."""

    estimator: Mapping[str, object]
    state: Mapping[str, bytes]

    @classmethod
    def of(cls, job: Job, begin: Begin, lake: Lake) -> ComparedVersion | None:
        """Return the version that a run is about; None if it cannot be read. The lake may not answer."""
        try:
            with begin() as uow:
                version = uow.versions.get(str(job.ptk_id), job.version)
            return cls(version.content["config"], state_files_of(version, lake))
        except (CorruptObject, UnknownName, WindowGone):
            return None


class SignificanceRun(PaidRun[R]):
    """A run about a version. One that fails leaves an answer, so that nobody pays again and again for it.

    A version that cannot be read ends its run unpaid.
    """

    locks_stream = True  # what it keeps is the stream's

    def __init__(self, job: Job, compared: ComparedVersion | None, comparer: Comparer) -> None:
        super().__init__(job)
        self._compared, self._comparer = compared, comparer
        self._since: datetime | None = None

    @property
    def compared(self) -> ComparedVersion:
        """The version of a run that was priced."""
        if self._compared is None:
            raise InvariantBroken("a run without a version ends unpaid")
        return self._compared

    @abstractmethod
    def is_asked(self, uow: UnitOfWork, claimed: ClaimedRun) -> bool:
        """Tell whether the answer is of use by now, from public facts."""

    @abstractmethod
    def keep_none(self, uow: UnitOfWork) -> None:
        """Keep for the wait that there is no answer."""

    def price(self, uow: UnitOfWork, claimed: ClaimedRun) -> Price | Ended:
        """Return the price of the noise, where its PTK waits still and has the same model."""
        if self._compared is None:
            return Ended(Outcome.FAILED, UNREADABLE)
        asked = self.is_asked(uow, claimed)
        if not (asked and same_model(self._compared.estimator, claimed.spec.estimator)):
            return Ended(Outcome.WITHDRAWN)
        self._since = uow.waits.of(self.job.stream)[claimed.spec.ptk_id].since
        return price_of_comparison(claimed.stream.policy)

    def note_failure(self, uow: UnitOfWork, code: str, at: datetime) -> None:
        """Keep that there is no answer."""
        self.keep_none(uow)

    def note_end(self, uow: UnitOfWork, ended: Ended) -> None:
        """Keep that there is no answer, also where a run has taken down one worker after the other."""
        if ended.outcome is Outcome.FAILED:
            self.keep_none(uow)

    def wait_of(self, uow: CatalogView) -> datetime | None:
        """Return when the wait began that the run was asked for; None if the PTK does not wait or waits anew."""
        wait = uow.waits.of(self.job.stream).get(str(self.job.ptk_id))
        return wait.since if wait is not None and self._since in (None, wait.since) else None
