"""The use cases of a client, on this machine or behind HTTP: each of the two satisfies this Protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ptkstore.ports.runtime import TellSteps, tell_nobody

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    import pyarrow as pa

    from ptkstore.application.delivery.read_deliveries import DeliveryState
    from ptkstore.application.delivery.send_test_event import TriedEndpoint
    from ptkstore.application.devices.issue_tickets import Issued
    from ptkstore.application.ingest.ingest_records import IngestReply
    from ptkstore.application.ledger.export_ledger import Export
    from ptkstore.application.ledger.verification import LedgerCheck
    from ptkstore.application.operations.read_overview import Overview
    from ptkstore.application.planning.recommend_rows import StreamAdvice
    from ptkstore.application.profiling.read_profile import ProfileView
    from ptkstore.application.ptks.exchange_ptks import Admission
    from ptkstore.application.states.diff_versions import VersionDiff
    from ptkstore.application.streams.exposure import Exposure
    from ptkstore.application.training.read_trainings import Training
    from ptkstore.application.versions.trace_window import Descendant
    from ptkstore.domain.accounting.assurances import Assurance
    from ptkstore.domain.audit import AuditEntry
    from ptkstore.domain.evaluations import Evaluation
    from ptkstore.domain.identity import Grant, Token
    from ptkstore.domain.ledger.block_ledgers import BlockLedger
    from ptkstore.domain.ledger.odometers import Odometers
    from ptkstore.domain.near_names import Names
    from ptkstore.domain.notices import Notice
    from ptkstore.domain.ptks.ptks import PtkSpec
    from ptkstore.domain.ptks.room_for_more import RoomForMore
    from ptkstore.domain.ptks.wanted import WantedPtk
    from ptkstore.domain.scheduling.queues import QueuedPtk, WaitSpan
    from ptkstore.domain.scheduling.simulation.outcomes import SimulationResult
    from ptkstore.domain.scheduling.simulation.requests import SimulationRequest
    from ptkstore.domain.streams.persons import PersonLoss
    from ptkstore.domain.streams.schemas import ColumnType
    from ptkstore.domain.streams.streams import Stream
    from ptkstore.domain.streams.windows import Window, WindowId
    from ptkstore.domain.subscriptions import Attempt, Subscription
    from ptkstore.domain.validations import Validation
    from ptkstore.ports.features import Answers
    from ptkstore.ports.team_code import Examined


class Published(Protocol):
    """A published version; in a list over HTTP, `content` is what lists tell of the manifest."""

    @property
    def ptk_id(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def sha256(self) -> str: ...
    @property
    def content(self) -> Mapping[str, Any]: ...


class IdentityReads(Protocol):
    """Teams, tokens, grants and the audit trail, for reading; no secret is among them."""

    def teams(self) -> tuple[str, ...]:
        """Return all teams, by name."""

    def tokens(self, team: str | None = None) -> tuple[Token, ...]:
        """Return tokens, by age."""

    def grants(self, team: str | None = None, stream: str | None = None) -> tuple[Grant, ...]:
        """Return roles that teams were given on streams."""

    def audit_log(self, after: int = 0, limit: int = 100, *, team: str | None = None) -> Sequence[AuditEntry]:
        """Return the next lines after the one of number `after`, oldest first."""


class StoreService(Protocol):
    """The use cases of a client. Each is named as in `Store`, whose documentation says what it does.

    Over HTTP a caller sees what its token may see, and is refused the rest; in a home there is no such limit.
    """

    @property
    def identity(self) -> IdentityReads: ...
    def close(self) -> None:
        """Give connections back."""

    def unlisted_names(self) -> Mapping[str, Names]:
        """Return names by kind, of things that no list of the client tells; a server suggests those itself."""

    def overview(self) -> Overview:
        """Return what the caller may see of the whole store: health, what needs somebody, the last day."""

    # streams

    def create_stream(self, stream: Stream) -> None:
        """Create it; repeating that with equal content changes nothing."""

    def origin_for(self, stream: str, window: timedelta) -> datetime:
        """Return the origin of a stream created without one: that which it has, or the present window's start."""

    def evolve_stream(
        self, stream: str, column: str, kind: ColumnType, default: str | int | float | bool
    ) -> Stream:
        """Add a column; the stream as it is then."""

    def ingest(self, stream: str, table: pa.Table, batch_id: str | None = None) -> IngestReply:
        """Store rows of a batch, once."""

    def close_windows(
        self,
        stream: str,
        until: datetime | None = None,
        *,
        expire_unfinished: bool = False,
        tell: TellSteps = tell_nobody,
    ) -> tuple[WindowId, ...]:
        """Close the windows that have ended; those that were closed. `tell` hears nothing behind HTTP."""

    def forget(self, stream: str, unit: str | int) -> None:
        """Erase a user's rows."""

    def streams(self) -> tuple[Stream, ...]:
        """Return the streams that the caller may see, by name."""

    def stream(self, name: str) -> Stream:
        """Return one stream; `UnknownName` if there is none."""

    def windows(self, stream: str) -> tuple[Window, ...]:
        """Return the windows of a stream that ever closed."""

    def exposure(self, stream: str) -> Exposure:
        """Return what is kept of a stream that is no DP output."""

    def recommend_rows(self, stream: str, partitions: int | None = None) -> StreamAdvice:
        """Return what the registered PTKs of a stream need."""

    # PTKs

    def register_ptk(self, *, team: str, stream: str, name: str, **said: Any) -> str:
        """Register a PTK of which this is said, as arguments of `WantedPtk`; return its id."""

    def update_ptk(self, ptk_id: str, **change: Any) -> PtkSpec:
        """Change the arguments of `WantedPtk` that are given and not None, from the next window on."""

    def deregister_ptk(self, ptk_id: str) -> None:
        """Stop training it."""

    def resume_ptk(self, ptk_id: str) -> int:
        """Train a PTK again that was given up; the first window that counts for its timeout."""

    def admit_ptks(
        self, *, team: str, stream: str, wanted: Sequence[WantedPtk], leaving: Sequence[str] = ()
    ) -> Admission:
        """Return what would be refused of a team's PTKs; nothing is changed."""

    def exchange_ptks(
        self, *, team: str, stream: str, wanted: Sequence[WantedPtk], leaving: Sequence[str] = ()
    ) -> None:
        """Change all of it or nothing."""

    def put_bundle(self, content: bytes, sha256: str | None = None, *, team: str) -> str:
        """Upload a team's code; its name."""

    def examine_team_code(self, estimator: Mapping[str, Any], bundle: bytes, runs: int = ...) -> Examined:
        """Check and audit a team's code in a sandbox."""

    def ptks(self, *, stream: str | None = None, team: str | None = None) -> tuple[PtkSpec, ...]:
        """Return the registered PTKs that the caller may see, by id."""

    def ptk(self, ptk_id: str) -> PtkSpec:
        """Return one registered PTK; `Deregistered` or `UnknownName` if it is not registered."""

    def profile(self, ptk_id: str) -> ProfileView:
        """Return what is known of how many rows a PTK needs."""

    def trainings(self, ptk_id: str) -> tuple[Training, ...]:
        """Return what became of a PTK's trainings, by window."""

    # versions

    def versions(self, ptk_id: str) -> tuple[Published, ...]:
        """Return the published versions of a PTK, oldest first."""

    def newest_versions(self) -> Mapping[str, int]:
        """Return the newest version of each PTK that is in the lake and that the caller may read; 0 where none is."""

    def newest_times(self) -> Mapping[str, datetime]:
        """Return when the newest version of each PTK was published, of those that the caller may read."""

    def newest_version(self, ptk_id: str) -> int:
        """Return the newest version of one PTK in the lake, also of one that was deregistered; 0 where none is."""

    def version(self, ptk_id: str, number: int) -> Published:
        """Return one version, with its manifest as it was elected; `UnknownName` if there is none."""

    def ptk_version(self, ptk_id: str, number: int) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Manifest and files of a published version, verified against what was elected."""

    def validations(self, ptk_id: str) -> tuple[Validation, ...]:
        """Return the verdicts on a PTK's trained states, in the order in which they were kept."""

    def evaluations(self, ptk_id: str) -> tuple[Evaluation, ...]:
        """Paid estimates of the losses of published versions."""

    def rollback_ptk(self, ptk_id: str, to: int) -> int:
        """Publish the state of version `to` again; its new number."""

    def materialize_ptk(self, ptk_id: str) -> int:
        """Have the newest version written online again; its number."""

    def diff_versions(self, ptk_id: str, one: int, other: int) -> VersionDiff:
        """Return what differs between two versions."""

    def trace_window(self, stream: str, window: int) -> tuple[Descendant, ...]:
        """Return the published versions that a window's rows went into."""

    def look_up(self, features: Sequence[str], entities: Sequence[Mapping[str, Any]]) -> Answers:
        """Look features of entities up in the online store."""

    def wait_for_version(self, ptk_id: str, after: int, timeout_seconds: float) -> int | None:
        """Wait for one after this to be online; None when the time is over."""

    def work_until_idle(self, at_once: int = 1) -> int:
        """Do due work here; how many jobs."""

    # subscriptions and notices

    def subscribe_to_ptk(self, ptk_id: str, endpoint: str) -> tuple[Subscription, str]:
        """Subscribe an endpoint; return the subscription and its secret, which nobody shows again."""

    def unsubscribe(self, subscription_id: str) -> None:
        """End a subscription."""

    def rotate_secret(self, subscription_id: str, overlap: timedelta = ...) -> str:
        """Make a new signing secret; the old one signs beside it for a while."""

    def notify_new_ptk_state(self, ptk_id: str) -> int:
        """Tell of the newest version again; how many will hear."""

    def redeliver(
        self, subscription_id: str, number: int | None = None, since: datetime | None = None
    ) -> int:
        """Send dead letters again; how many wait for it."""

    def send_test_event(self, subscription_id: str) -> TriedEndpoint:
        """Send a test event to an endpoint; how it was taken."""

    def disable_subscription(self, subscription_id: str) -> None:
        """Send nothing until it is enabled again."""

    def enable_subscription(self, subscription_id: str, *, redelivering: bool = True) -> Subscription:
        """Send to it again."""

    def subscriptions(self, ptk_id: str | None = None) -> tuple[DeliveryState, ...]:
        """Return the subscriptions to one PTK, or all that the caller may see."""

    def deliveries(self, subscription_id: str) -> DeliveryState:
        """Return one subscription with its dead letters."""

    def attempts(self, subscription_id: str) -> tuple[Attempt, ...]:
        """Return the attempts at its deliveries that are kept, the newest first."""

    def notices(self, team: str | None = None, *, since: datetime | None = None) -> Sequence[Notice]:
        """Return the notices to a team or to all, oldest first."""

    # the ledger

    def budget(self, stream: str) -> tuple[BlockLedger, ...]:
        """Return the ledger of every block of a stream."""

    def assurance_on(self, stream: str) -> tuple[Assurance, tuple[str, ...]]:
        """Return the least assurance that a stream accepts, and its PTKs whose loss is their team's word."""

    def room_for_more(self, stream: str) -> RoomForMore | None:
        """Say how many more PTKs fit like the one that was registered last; None without one, or without blocks."""

    def queue(self, stream: str) -> tuple[QueuedPtk, ...]:
        """Return the PTKs that wait on a stream, the first to arrive first; none unless it is adaptive."""

    def ended_waits(self, stream: str) -> tuple[WaitSpan, ...]:
        """Return the waits on a stream that ended, the first to begin first; the `WAITS_TOLD` that began last."""

    def issue_tickets(self, stream: str, ptk_id: str, count: int) -> Issued:
        """Make tickets for devices."""

    def simulate(
        self, stream: str, request: SimulationRequest, *, tell: TellSteps = tell_nobody
    ) -> SimulationResult:
        """Return when the PTKs of a stream would be released under some schedulers.

        `tell` hears how many windows are simulated; behind HTTP it hears nothing.
        """

    def odometers(self, stream: str) -> Odometers:
        """Return what was spent so far on a stream."""

    def person_loss(self, streams: Sequence[str]) -> PersonLoss:
        """Return what one person who is in all of these streams loses to them together."""

    def verify_ledger(self, stream: str) -> LedgerCheck:
        """Recompute the journal of a stream."""

    def export_ledger(
        self, stream: str, since: datetime | None = None, until: datetime | None = None
    ) -> Export:
        """Sign a report on some windows."""

    def report_key(self) -> str:
        """Return the public key that reports are signed with, in hexadecimal."""
