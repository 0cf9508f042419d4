"""The catalog: SQL of everything but rows and keys, one transaction at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ptkstore.domain.accountants import Accountant
from ptkstore.domain.blocks import BlockRange, BlockState
from ptkstore.domain.filters import BlockLedger, BlockRecord, Filters
from ptkstore.domain.journal import BudgetRequest, ChainLine, Entry, EntryKind, PolicyEntry
from ptkstore.domain.losses import Loss
from ptkstore.domain.profiles import ProfileRecord
from ptkstore.domain.ptks import PtkSpec
from ptkstore.domain.snapshots import Lineage, Version
from ptkstore.domain.streams import Policy, Stream
from ptkstore.domain.windows import Window, WindowId, WindowState
from ptkstore.ports.evaluating import Evaluations
from ptkstore.ports.identity import Answers, AuditLog, Identities
from ptkstore.ports.jobs import Jobs
from ptkstore.ports.operations import Operations
from ptkstore.ports.subscriptions import Deliveries, Subscriptions


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stream's event time has come: all windows below `closed_before` are closed.

    Blocks of windows below `retired_before` are retired from the start: spends on them may have been forgotten.
    """

    closed_before: int
    reached: datetime
    retired_before: int = 0


@dataclass(frozen=True, slots=True)
class Notice:
    """Something an owner should know; fixed codes, public subjects."""

    at: datetime
    team: str
    subject: str
    code: str


class Streams(Protocol):
    """Streams, their progress and the batches they took.

    A stream is read with the policy that its journal holds, whatever somebody wrote into its row; with its row's policy
    only while its journal holds none.
    """

    def add(self, stream: Stream) -> bool:
        """Create a stream, True if it is new; one that is equal, or grew from an equal one, stays.

        Other content is `NameTaken`.
        """
        ...

    def replace(self, stream: Stream) -> None:
        """Write a stream that has grown; the caller holds the lock."""
        ...

    def get(self, name: str) -> Stream:
        """`UnknownName` if there is none."""
        ...

    def lock(self, name: str) -> Stream:
        """Like `get`; until the transaction ends nobody else passes here for this stream."""
        ...

    def all(self) -> tuple[Stream, ...]:
        """By name."""
        ...

    def policy_in_row(self, name: str) -> Policy:
        """The policy in the stream's own row, to compare with the journal's; it decides nothing."""
        ...

    def progress(self, name: str) -> Progress:
        """How far the stream has come."""
        ...

    def advance(self, name: str, progress: Progress) -> None:
        """Move forward; the caller holds the lock."""
        ...

    def add_batch(self, name: str, batch_id: str, token: str, closed_before: int) -> None:
        """Commit a batch whose rows belong to windows from `closed_before` on."""
        ...

    def knows_batch(self, name: str, batch_id: str) -> bool:
        """Whether the batch was committed."""
        ...

    def tokens_for(self, window: WindowId) -> tuple[str, ...]:
        """Tokens of all batches that may hold rows of the window, in order of arrival."""
        ...


class Windows(Protocol):
    """Windows that have closed."""

    def add(self, *windows: Window) -> None:
        """Record closed windows, all of one stream; `LateWriter` if somebody else did."""
        ...

    def get(self, window: WindowId) -> Window:
        """`UnknownName` if it has not closed."""
        ...

    def set_state(self, window: WindowId, state: WindowState) -> None:
        """The caller holds the stream's lock."""
        ...

    def let_expire(self, stream: str, lo: int, hi: int) -> tuple[WindowId, ...]:
        """Let no run open windows `lo` to `hi - 1` any more; those that one could have opened, in order of time.

        The caller holds the stream's lock.
        """
        ...

    def of(self, stream: str) -> tuple[Window, ...]:
        """All that ever closed, in order of time."""
        ...


class Ledger(Protocol):
    """Blocks and the journal; writers hold the stream's lock, and a stale one fails on a database constraint."""

    def add_blocks(
        self,
        stream: str,
        blocks: Iterable[int],
        capacity: Loss,
        accountant: Accountant = ...,
        lines: Mapping[str, Loss] | None = None,
        state: BlockState = ...,
    ) -> None:
        """Create blocks, `LateWriter` if there is one; without `lines` all of the capacity is on the common line."""
        ...

    def created(self, stream: str, since: int = 0) -> tuple[tuple[BlockRecord, ...], int]:
        """Blocks that changed after revision `since`, by number, and the revision reached."""
        ...

    def filters(self, stream: str) -> Filters:
        """The filters after the last entry, this transaction's own included; of no use once it has ended."""
        ...

    def blocks(
        self, stream: str, blocks: BlockRange | None = None, limit: int | None = None
    ) -> tuple[BlockLedger, ...]:
        """What each line of each block may lose, has reserved and has spent.

        Of all blocks of the stream by default, by number; of the first `limit` of these.
        """
        ...

    def retire(self, stream: str, numbers: Sequence[int]) -> None:
        """Mark blocks that will never be charged again."""
        ...

    def erase(self, stream: str, blocks: BlockRange) -> None:
        """Mark blocks whose rows are gone; what they spent stays."""
        ...

    def history(self, key: str) -> tuple[Entry, ...]:
        """All entries of one reservation, oldest first."""
        ...

    def histories(self, keys: Sequence[str]) -> Mapping[str, tuple[Entry, ...]]:
        """All entries of each reservation, oldest first."""
        ...

    def append(self, request: BudgetRequest, kind: EntryKind, event: Mapping[str, object]) -> Entry:
        """Write the next entry of the stream's journal."""
        ...

    def extend(
        self, stream: str, steps: Sequence[tuple[BudgetRequest, EntryKind, Mapping[str, object]]]
    ) -> tuple[Entry, ...]:
        """Write the next entries of the stream's journal, all or none."""
        ...

    def journal(self, stream: str, after: int = 0) -> tuple[Entry, ...]:
        """The entries after a sequence, all by default, in sequence; the line of the stream's policy left out."""
        ...

    def chain(self, stream: str, after: int = 0) -> tuple[ChainLine, ...]:
        """All lines after a sequence, all by default, in sequence: the stream's policy and the entries."""
        ...

    def policies(self, stream: str) -> tuple[PolicyEntry, ...]:
        """The lines that hold the stream's policy: one, none before an upgrade, several if somebody wrote another."""
        ...

    def add_policy(self, stream: str, policy_text: str) -> PolicyEntry:
        """Write the line of the stream's policy, in the transaction that creates the stream."""
        ...


class Ptks(Protocol):
    """Registered PTKs, each with what its profile says today."""

    def add(self, spec: PtkSpec) -> None:
        """Register; `NameTaken` if the id exists."""
        ...

    def check_free(self, ptk_id: str) -> None:
        """`NameTaken`, as `add` raises it, if the id was ever used; for reading."""
        ...

    def replace(self, spec: PtkSpec) -> None:
        """Overwrite a registered PTK."""
        ...

    def remove(self, ptk_id: str) -> None:
        """Deregister; published versions stay."""
        ...

    def get(self, ptk_id: str) -> PtkSpec:
        """`UnknownName` if it is not registered."""
        ...

    def lock(self, ptk_id: str) -> PtkSpec | None:
        """Serialise elections of one PTK; None once it was deregistered."""
        ...

    def find(self, *, stream: str | None = None, team: str | None = None) -> tuple[PtkSpec, ...]:
        """Registered PTKs, by id."""
        ...

    def stream_of(self, ptk_id: str) -> str:
        """The stream of a PTK, also of one that was deregistered; `UnknownName` if the id was never used."""
        ...

    def ids_on(self, stream: str) -> tuple[str, ...]:
        """All PTKs that a stream ever had, in order.

        Also those that were deregistered, and those of which a recovery knows versions alone.
        """
        ...

    def informed(self, spec: PtkSpec) -> PtkSpec:
        """The PTK with what the profile it asks for says today, whoever that was made for."""
        ...


class Profiles(Protocol):
    """Profiles by samples; writers hold the stream's lock."""

    def add(self, record: ProfileRecord) -> None:
        """Begin a profile; a stale writer gets `LateWriter`."""
        ...

    def save(self, record: ProfileRecord) -> None:
        """Write what became of a profile."""
        ...

    def of(self, keys: Iterable[str]) -> Mapping[str, tuple[ProfileRecord, ...]]:
        """All profiles under each key, by number."""
        ...

    def of_job(self, job_id: str) -> ProfileRecord | None:
        """The profile whose last job this is."""
        ...


class Versions(Protocol):
    """Elected states."""

    def add(self, version: Version) -> None:
        """The database refuses a second version of a job, and a number used before."""
        ...

    def get(self, ptk_id: str, number: int) -> Version:
        """`UnknownName` if there is none."""
        ...

    def latest(self, ptk_id: str) -> Version | None:
        """The highest number."""
        ...

    def of(
        self, ptk_id: str, *, after: int = 0, until: int | None = None, limit: int | None = None
    ) -> tuple[Version, ...]:
        """Those above `after` and up to `until`, by number; all by default, or so many."""
        ...

    def of_jobs(self, job_ids: Iterable[str]) -> Mapping[str, tuple[int, datetime]]:
        """Number and time of election of what these jobs made, for those that made a version."""
        ...

    def lineage(self, ptk_id: str, since: WindowId) -> tuple[Lineage, ...]:
        """Of versions trained on this window or a later one of its stream, or that repeat such a one, by number."""
        ...

    def all(self) -> Iterator[Version]:
        """Of all PTKs, one by one, while the transaction lasts."""
        ...

    def draft_ids(self) -> frozenset[str]:
        """Drafts that were elected."""
        ...


class UnitOfWork(Protocol):
    """One transaction; what is not committed has not happened."""

    @property
    def streams(self) -> Streams: ...  # noqa: D102
    @property
    def windows(self) -> Windows: ...  # noqa: D102
    @property
    def ledger(self) -> Ledger: ...  # noqa: D102
    @property
    def ptks(self) -> Ptks: ...  # noqa: D102
    @property
    def profiles(self) -> Profiles: ...  # noqa: D102
    @property
    def jobs(self) -> Jobs: ...  # noqa: D102
    @property
    def versions(self) -> Versions: ...  # noqa: D102
    @property
    def evaluations(self) -> Evaluations: ...  # noqa: D102
    @property
    def subscriptions(self) -> Subscriptions: ...  # noqa: D102
    @property
    def deliveries(self) -> Deliveries: ...  # noqa: D102
    @property
    def identities(self) -> Identities: ...  # noqa: D102
    @property
    def audit(self) -> AuditLog: ...  # noqa: D102
    @property
    def answers(self) -> Answers: ...  # noqa: D102
    @property
    def operations(self) -> Operations: ...  # noqa: D102

    def notify_owner(self, notice: Notice) -> None:
        """Leave word for a team."""
        ...

    def notices(
        self,
        team: str | None = None,
        *,
        since: datetime | None = None,
        skip: int = 0,
        limit: int | None = None,
        newest: bool = False,
    ) -> Sequence[Notice]:
        """Word left for a team or for all, oldest first or newest first; `limit` words after the first `skip`."""
        ...

    def notices_about(self, team: str, subjects: Iterable[str]) -> Sequence[Notice]:
        """Word left for a team about any of these subjects, of each the oldest first."""
        ...

    def renew_ledger_id(self) -> None:
        """Give the catalog a new identity, so that no older copy of it is taken for this one (differences.md F3b)."""
        ...

    def commit(self) -> None:
        """Make it durable; on return it survives a crash. `OutcomeUnknown` if nobody knows whether it will."""
        ...


Begin = Callable[[], AbstractContextManager[UnitOfWork]]
