"""The catalog: SQL of everything but rows and keys, one transaction at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Literal, Protocol

from ptkstore.domain.jobs import JobKind
from ptkstore.domain.notices import Notice
from ptkstore.ports.identity import Answers, AuditLog, AuditLogView, Identities, IdentitiesView
from ptkstore.ports.jobs import Jobs, JobsView
from ptkstore.ports.ledger import Ledger, LedgerView
from ptkstore.ports.operations import Operations, OperationsView
from ptkstore.ports.ptks import (
    Evaluations,
    EvaluationsView,
    Profiles,
    ProfilesView,
    Ptks,
    PtksView,
    Validations,
    ValidationsView,
    Versions,
    VersionsView,
)
from ptkstore.ports.scheduling import Waits, WaitsView
from ptkstore.ports.streams import Streams, StreamsView, Windows, WindowsView
from ptkstore.ports.subscriptions import Deliveries, DeliveriesView, Subscriptions, SubscriptionsView
from ptkstore.ports.thresholds import Thresholds, ThresholdsView


class CatalogView(Protocol):
    """The reads of either kind of transaction."""

    @property
    def streams(self) -> StreamsView: ...
    @property
    def windows(self) -> WindowsView: ...
    @property
    def ledger(self) -> LedgerView: ...
    @property
    def ptks(self) -> PtksView: ...
    @property
    def profiles(self) -> ProfilesView: ...
    @property
    def jobs(self) -> JobsView: ...
    @property
    def versions(self) -> VersionsView: ...
    @property
    def evaluations(self) -> EvaluationsView: ...
    @property
    def validations(self) -> ValidationsView: ...
    @property
    def waits(self) -> WaitsView: ...
    @property
    def thresholds(self) -> ThresholdsView: ...
    @property
    def subscriptions(self) -> SubscriptionsView: ...
    @property
    def deliveries(self) -> DeliveriesView: ...
    @property
    def identities(self) -> IdentitiesView: ...
    @property
    def audit(self) -> AuditLogView: ...
    @property
    def operations(self) -> OperationsView: ...

    def notices(
        self,
        team: str | None = None,
        *,
        since: datetime | None = None,
        skip: int = 0,
        limit: int | None = None,
        newest: bool = False,
    ) -> Sequence[Notice]:
        """Return words left for a team or for all.

        Parameters
        ----------
        team, since : str or None, datetime or None
            The owner of the notices, and their first moment; None for all.
        skip, limit, newest : int, int or None, bool
            `limit` words after the first `skip`, oldest first or newest first.
        """

    def notices_about(
        self,
        team: str,
        ptk_id: str,
        *,
        stream: str | None = None,
        windows: Iterable[int] | None = None,
        run: JobKind | None = None,
    ) -> Sequence[Notice]:
        """Return notices to a team about a PTK that a stream refused, or about its runs on these windows.

        Those of one window are in order of arrival.

        Parameters
        ----------
        team, ptk_id : str
        stream : str, optional
            That which refused the PTK; None for notices about runs.
        windows : iterable of int, optional
            Those of the runs; None for notices about no window.
        run : JobKind, optional
            The kind of run; None for trainings.
        """


class ReadTransaction(CatalogView, Protocol):
    """One transaction that only reads: it waits for no writer, and has nothing to commit."""

    @property
    def read_only(self) -> Literal[True]:
        """No transaction that may write passes for this one."""


class UnitOfWork(CatalogView, Protocol):
    """One transaction that may write; what is not committed has not happened."""

    @property
    def streams(self) -> Streams: ...
    @property
    def windows(self) -> Windows: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def ptks(self) -> Ptks: ...
    @property
    def profiles(self) -> Profiles: ...
    @property
    def jobs(self) -> Jobs: ...
    @property
    def versions(self) -> Versions: ...
    @property
    def evaluations(self) -> Evaluations: ...
    @property
    def validations(self) -> Validations: ...
    @property
    def waits(self) -> Waits: ...
    @property
    def thresholds(self) -> Thresholds: ...
    @property
    def subscriptions(self) -> Subscriptions: ...
    @property
    def deliveries(self) -> Deliveries: ...
    @property
    def identities(self) -> Identities: ...
    @property
    def audit(self) -> AuditLog: ...
    @property
    def answers(self) -> Answers: ...
    @property
    def operations(self) -> Operations: ...

    @property
    def read_only(self) -> Literal[False]:
        """No transaction that only reads passes for this one."""

    def notify_owner(self, notice: Notice) -> None:
        """Leave word for a team."""

    def renew_ledger_id(self) -> None:
        """Give the catalog a new identity, so that no older copy of it is taken for this one (differences.md F3b)."""

    def commit(self) -> None:
        """Make it durable; on return it survives a crash. `OutcomeUnknown` if nobody knows whether it will."""


Begin = Callable[[], AbstractContextManager[UnitOfWork]]
"""Starts a transaction that may write. With SQLite it waits for every other one."""

Read = Callable[[], AbstractContextManager[ReadTransaction]]
"""Starts a transaction that only reads. mypy accepts neither in the place of the other."""
