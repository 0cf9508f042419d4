"""Filters kept between transactions: each transaction reads only what the journal says since the last one."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Protocol

from ptkstore.domain.blocks import BlockRange
from ptkstore.domain.filters import BlockLedger, BlockRecord, Filters
from ptkstore.domain.journal import Entry


class Source(Protocol):
    """The tables that a projection follows, as one transaction sees them."""

    def identity(self, stream: str) -> tuple[str, int]:
        """The catalog's identity and the last revision of the stream's blocks."""
        ...

    def created(self, stream: str, since: int = 0) -> tuple[tuple[BlockRecord, ...], int]:
        """Blocks that changed after a revision."""
        ...

    def journal(self, stream: str, after: int = 0) -> tuple[Entry, ...]:
        """Entries after a sequence."""
        ...


@dataclass
class _Kept:
    lock: threading.RLock = field(default_factory=threading.RLock)
    filters: Filters = field(default_factory=Filters)
    revision: int = 0
    ledger_id: str = ""


class Projections:
    """One projection per stream and process.

    A writer holds the stream's database lock before it asks, and keeps the projection until its transaction ends. A
    reader copies what it needs at once: it never waits for the database while it holds a projection.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def take(self, stream: str, source: Source) -> Filters:
        """The stream's filters, up to date, for the caller alone until `give_back`."""
        kept = self._of(stream)
        kept.lock.acquire()
        try:
            _follow(stream, kept, source, decides=True)
        except BaseException:
            kept.filters, kept.revision = Filters(), 0
            kept.lock.release()
            raise
        return kept.filters

    def follow(self, stream: str, source: Source) -> None:
        """Take in blocks that the caller's own transaction changed."""
        kept = self._of(stream)
        blocks, kept.revision = source.created(stream, kept.revision)
        kept.filters.put(blocks)

    def give_back(self, stream: str, *, keep: bool) -> None:
        """End what `take` began; unless `keep`, what was added up is forgotten and read anew."""
        kept = self._of(stream)
        if not keep:
            kept.filters, kept.revision = Filters(), 0
        kept.lock.release()

    def read(
        self, stream: str, source: Source, blocks: BlockRange | None, limit: int | None = None
    ) -> tuple[BlockLedger, ...]:
        """What can be read of a stream's blocks."""
        kept = self._of(stream)
        with kept.lock:
            try:
                _follow(stream, kept, source, decides=False)
                return kept.filters.views(blocks, limit)
            except BaseException:
                kept.filters, kept.revision = Filters(), 0
                raise

    def _of(self, stream: str) -> _Kept:
        with self._lock:
            return self._kept.setdefault(stream, _Kept())


def _follow(stream: str, kept: _Kept, source: Source, *, decides: bool) -> None:
    """Read what is new. A catalog that does not continue what was read is another one: begin anew.

    A restored catalog may have the same head and give a revision twice; recovery gives it another identity. One whose
    journal is empty needs no recovery, and no digest tells it apart: whoever decides takes nothing there for known.
    """
    ledger_id, revision = source.identity(stream)
    unsure = decides and not kept.filters.sequence
    if unsure or ledger_id != kept.ledger_id or revision < kept.revision:
        kept.filters, kept.revision, kept.ledger_id = Filters(), 0, ledger_id
    head = kept.filters.sequence
    tail = source.journal(stream, max(0, head - 1))
    if head and (not tail or tail[0].digest != kept.filters.digest):
        kept.filters, kept.revision, head = Filters(), 0, 0
        tail = source.journal(stream)
    blocks, kept.revision = source.created(stream, kept.revision)
    kept.filters.put(blocks)
    for entry in tail:
        if entry.sequence > head:
            kept.filters.apply(entry)
