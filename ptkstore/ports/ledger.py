"""The ledger of the catalog: blocks and the journal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.ledger.block_ledgers import BlockLedger, BlockRecord
from ptkstore.domain.ledger.journal import BudgetRequest, ChainLine, Entry, EntryKind, PolicyEntry
from ptkstore.domain.streams.blocks import BlockRange, BlockState

if TYPE_CHECKING:
    from ptkstore.domain.ledger.filters import Filters


class LedgerView(Protocol):
    """Blocks and the journal, for reading."""

    def created(self, stream: str, since: int = 0) -> tuple[tuple[BlockRecord, ...], int]:
        """Return the blocks that changed after revision `since`, by number, and the revision reached."""

    def filters(self, stream: str) -> Filters:
        """Return the filters after the last entry, this transaction's own included; of no use once it has ended."""

    def blocks(
        self, stream: str, blocks: BlockRange | None = None, limit: int | None = None
    ) -> tuple[BlockLedger, ...]:
        """Return what each line of each block may lose, has reserved and has spent.

        Of all blocks of the stream by default, by number; of the first `limit` of these.
        """

    def history(self, key: str) -> tuple[Entry, ...]:
        """Return all entries of one reservation, oldest first."""

    def histories(self, keys: Sequence[str]) -> Mapping[str, tuple[Entry, ...]]:
        """Return all entries of each reservation, oldest first."""

    def journal(self, stream: str, after: int = 0) -> tuple[Entry, ...]:
        """Return the entries after a sequence, all by default, in sequence, without the line of the stream's policy."""

    def touching(self, stream: str, blocks: BlockRange, since: int, limit: int) -> tuple[Entry, ...]:
        """Return the first `limit` entries on any of these blocks, in sequence.

        Only entries whose lowest block is `since` or later are looked at.
        """

    def spent_as(self, stream: str, ptk_ids: Collection[str], event: str) -> frozenset[str]:
        """Return those of these PTKs that ever spent a loss whose event, or a part of it, has this name."""

    def chain(self, stream: str, after: int = 0) -> tuple[ChainLine, ...]:
        """Return all lines after a sequence, all by default, in sequence: the stream's policy and the entries."""

    def policies(self, stream: str) -> tuple[PolicyEntry, ...]:
        """Return the lines that hold the stream's policy: one, none before an upgrade, more if somebody wrote one."""


class Ledger(LedgerView, Protocol):
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
        """Create blocks; `LateWriter` if there is one.

        Parameters
        ----------
        stream, blocks, accountant, state
            The blocks' numbers, how their losses add up, and the state that they begin in.
        capacity, lines
            The capacity of each, and its lines; by default all on the common one.
        """

    def retire(self, stream: str, numbers: Sequence[int]) -> None:
        """Mark blocks that will never be charged again."""

    def erase(self, stream: str, blocks: BlockRange) -> None:
        """Mark blocks whose rows are gone; what they spent stays."""

    def append(self, request: BudgetRequest, kind: EntryKind, event: Mapping[str, object]) -> Entry:
        """Write the next entry of the stream's journal."""

    def extend(
        self, stream: str, steps: Sequence[tuple[BudgetRequest, EntryKind, Mapping[str, object]]]
    ) -> tuple[Entry, ...]:
        """Write the next entries of the stream's journal, all or none."""

    def add_policy(self, stream: str, policy_text: str) -> PolicyEntry:
        """Write the line of the stream's policy, in the transaction that creates the stream."""
