"""Blocks and the append-only journal in SQL."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from ptkstore.adapters.sql import tables as t
from ptkstore.domain.blocks import BlockRange, BlockState
from ptkstore.domain.ledger import (
    GENESIS,
    BlockLedger,
    BudgetRequest,
    Entry,
    EntryKind,
    chained_digest,
    fold,
)
from ptkstore.domain.losses import Loss
from ptkstore.domain.snapshots import canonical_json
from ptkstore.errors import LateWriter


class SqlLedger:
    """The ledger's tables; the caller holds the stream's lock when it writes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add_blocks(self, stream: str, blocks: BlockRange, capacity: Loss) -> None:
        """Create the blocks of a window."""
        self._connection.execute(
            insert(t.blocks),
            [
                {
                    "stream": stream,
                    "number": number,
                    "capacity_epsilon_nano": capacity.epsilon_nano,
                    "capacity_delta_atto": capacity.delta_atto,
                    "state": BlockState.ACTIVE,
                }
                for number in blocks.numbers()
            ],
        )

    def blocks(self, stream: str, blocks: BlockRange | None = None) -> tuple[BlockLedger, ...]:
        """Blocks with what the journal says is reserved and spent."""
        query = select(t.blocks).where(t.blocks.c.stream == stream).order_by(t.blocks.c.number)
        entries = select(t.journal).where(t.journal.c.stream == stream).order_by(t.journal.c.sequence)
        if blocks is not None:
            query = query.where(t.blocks.c.number >= blocks.lo, t.blocks.c.number < blocks.hi)
            entries = entries.where(t.journal.c.lo < blocks.hi, t.journal.c.hi > blocks.lo)
        bare = [
            BlockLedger(r.number, Loss(r.capacity_epsilon_nano, r.capacity_delta_atto), BlockState(r.state))
            for r in self._connection.execute(query)
        ]
        return tuple(fold(bare, map(_entry, self._connection.execute(entries))).values())

    def erase(self, stream: str, blocks: BlockRange) -> None:
        """Mark blocks whose rows are gone."""
        self._connection.execute(
            update(t.blocks)
            .where(t.blocks.c.stream == stream, t.blocks.c.number >= blocks.lo, t.blocks.c.number < blocks.hi)
            .values(state=BlockState.ERASED)
        )

    def history(self, key: str) -> tuple[Entry, ...]:
        """All entries of one reservation."""
        query = select(t.journal).where(t.journal.c.key == key).order_by(t.journal.c.sequence)
        return tuple(map(_entry, self._connection.execute(query)))

    def append(self, request: BudgetRequest, kind: EntryKind, event: dict[str, object]) -> Entry:
        """Write the next entry; a stale writer meets UNIQUE and raises `LateWriter`."""
        last = self._connection.execute(
            select(t.journal.c.sequence, t.journal.c.digest)
            .where(t.journal.c.stream == request.stream)
            .order_by(t.journal.c.sequence.desc())
            .limit(1)
        ).one_or_none()
        sequence, digest = (last.sequence, last.digest) if last else (0, GENESIS)
        entry = Entry(
            request.stream,
            sequence + 1,
            request.key,
            kind,
            request.ptk_id,
            request.blocks,
            request.loss,
            json.loads(canonical_json(event)),
            "",
            secrets.token_hex(16),
        )
        entry = replace(entry, digest=chained_digest(digest, entry))
        try:
            self._connection.execute(insert(t.journal).values(**_values(entry)))
        except IntegrityError as error:
            raise LateWriter(
                f"the journal of {request.stream} moved on, or {request.key} has ended"
            ) from error.orig
        return entry

    def journal(self, stream: str) -> tuple[Entry, ...]:
        """All entries, in sequence."""
        query = select(t.journal).where(t.journal.c.stream == stream).order_by(t.journal.c.sequence)
        return tuple(map(_entry, self._connection.execute(query)))


def _values(entry: Entry) -> dict[str, Any]:
    return {
        "stream": entry.stream,
        "sequence": entry.sequence,
        "key": entry.key,
        "kind": entry.kind,
        "ptk_id": entry.ptk_id,
        "lo": entry.blocks.lo,
        "hi": entry.blocks.hi,
        "epsilon_nano": entry.loss.epsilon_nano,
        "delta_atto": entry.loss.delta_atto,
        "event": canonical_json(entry.event),
        "digest": entry.digest,
        "nonce": entry.nonce,
    }


def _entry(row: Row[Any]) -> Entry:
    return Entry(
        row.stream,
        row.sequence,
        row.key,
        EntryKind(row.kind),
        row.ptk_id,
        BlockRange(row.lo, row.hi),
        Loss(row.epsilon_nano, row.delta_atto),
        json.loads(row.event),
        row.digest,
        row.nonce,
    )
