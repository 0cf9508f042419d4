"""Filters kept between transactions: each transaction reads only what the journal says since the last one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ptkstore.domain.ledger.block_ledgers import BlockLedger, BlockRecord, not_as_promised
from ptkstore.domain.ledger.journal import ChainLine, PolicyEntry, chained_digest
from ptkstore.domain.streams.blocks import BlockRange
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.policy_texts import policy_in
from ptkstore.errors import InvariantBroken

if TYPE_CHECKING:
    from ptkstore.domain.ledger.filters import Filters


@dataclass(frozen=True, slots=True)
class Standing:
    """The catalog's identity, a stream's last revision of blocks, its policy and that policy's place in the journal.

    `policy` is the one in the stream's own row, which the journal has to confirm; None for a stream that has no row.
    """

    ledger_id: str
    revision: int
    policy: Policy | None
    policy_at: int


class Source(Protocol):
    """The tables that a projection follows, as one transaction sees them."""

    def standing(self, stream: str) -> Standing:
        """Return what tells whether a projection is up to date, and for the right catalog."""

    def created(self, stream: str, since: int = 0) -> tuple[tuple[BlockRecord, ...], int]:
        """Return the blocks that changed after a revision."""

    def journal(self, stream: str, after: int = 0) -> tuple[ChainLine, ...]:
        """Return the entries after a sequence."""

    def chain(self, stream: str, after: int = 0) -> tuple[ChainLine, ...]:
        """Return the policies and entries after a sequence."""


def _no_filters() -> Filters:
    from ptkstore.domain.ledger.filters import Filters  # loads numpy: who reads no ledger needs neither

    return Filters()


@dataclass
class _Kept:
    lock: threading.RLock = field(default_factory=threading.RLock)
    filters: Filters = field(default_factory=_no_filters)
    revision: int = 0
    ledger_id: str = ""
    fault: str = ""
    """Why nothing may be decided by these filters: somebody changed the catalog behind them."""

    def forget(self) -> None:
        """Begin anew."""
        self.filters, self.revision, self.fault = _no_filters(), 0, ""


class Projections:
    """One projection per stream and process.

    A writer has the stream's database lock before it asks, and keeps the projection until its transaction ends. A
    reader copies what it needs at once: it never waits for the database while it has a projection.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def take(self, stream: str, source: Source) -> Filters:
        """Lend the stream's filters, up to date, to the caller alone until `give_back`."""
        kept = self._of(stream)
        kept.lock.acquire()
        try:
            _follow(stream, kept, source, decides=True)
            if kept.fault:
                raise InvariantBroken(
                    f"stream {stream!r}: {kept.fault}. Somebody wrote to the catalog's tables, so nothing is charged; "
                    f"`ptk ledger verify {stream}` says what to put back"
                )
        except BaseException:
            kept.forget()
            kept.lock.release()
            raise
        return kept.filters

    def follow(self, stream: str, source: Source) -> None:
        """Take in blocks that the caller's own transaction changed."""
        kept = self._of(stream)
        blocks, kept.revision = source.created(stream, kept.revision)
        if kept.filters.policy_text is not None:
            _check_blocks(kept, policy_in(kept.filters.policy_text), blocks)
        kept.filters.put(blocks)

    def give_back(self, stream: str, *, keep: bool) -> None:
        """End what `take` began; unless `keep`, what was added up is forgotten and read anew."""
        kept = self._of(stream)
        if not keep:
            kept.forget()
        kept.lock.release()

    def read(
        self, stream: str, source: Source, blocks: BlockRange | None, limit: int | None = None
    ) -> tuple[BlockLedger, ...]:
        """Return what can be read of a stream's blocks."""
        kept = self._of(stream)
        with kept.lock:
            try:
                _follow(stream, kept, source, decides=False)
                return kept.filters.views(blocks, limit)
            except BaseException:
                kept.forget()
                raise

    def _of(self, stream: str) -> _Kept:
        with self._lock:
            return self._kept.setdefault(stream, _Kept())


def _follow(stream: str, kept: _Kept, source: Source, *, decides: bool) -> None:
    """Read what is new. A catalog that does not continue what was read is another one: begin anew.

    A restored catalog may have the same head and give a revision twice; recovery gives it another identity. One whose
    journal is empty needs no recovery, and no digest tells it apart: whoever decides takes nothing there for known.
    """
    there = source.standing(stream)
    unsure = decides and not kept.filters.sequence
    if unsure or there.ledger_id != kept.ledger_id or there.revision < kept.revision:
        kept.forget()
        kept.ledger_id = there.ledger_id
    head = kept.filters.sequence
    read = source.chain if there.policy_at >= head else source.journal
    tail = read(stream, max(0, head - 1))
    if head and (not tail or tail[0].digest != kept.filters.digest):
        kept.forget()
        head, tail = 0, source.chain(stream)
    blocks, kept.revision = source.created(stream, kept.revision)
    _check_policy(kept, there.policy, tail, blocks)
    kept.filters.put(blocks)
    new = [line for line in tail if line.sequence > head]
    digests = [kept.filters.digest, *(line.digest for line in new)]
    for previous, line in zip(digests, new, strict=False):
        if not kept.fault and chained_digest(previous, line) != line.digest:
            kept.fault = f"line {line.sequence} of the journal does not match its digest"
    kept.filters.apply(*new)


def _check_policy(
    kept: _Kept, policy: Policy | None, tail: Sequence[ChainLine], blocks: Sequence[BlockRecord]
) -> None:
    """Compare the stream's row and its blocks with the policy in the journal, if it has one."""
    texts = (line.policy_text for line in tail if isinstance(line, PolicyEntry))
    text = kept.filters.policy_text or next(texts, None)
    if text is None:
        return
    chained = policy_in(text)
    if policy != chained:
        kept.fault = "its policy in the catalog is not the one in the journal"
    _check_blocks(kept, chained, blocks)


def _check_blocks(kept: _Kept, chained: Policy, blocks: Sequence[BlockRecord]) -> None:
    if wrong := not_as_promised(blocks, chained):
        kept.fault = f"block {wrong[0]} has another capacity than the policy in the journal"
