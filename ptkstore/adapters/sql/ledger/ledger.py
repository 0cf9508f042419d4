"""Blocks and the append-only journal in SQL."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import BindParameter, Connection, Row, bindparam, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from ptklib.canonical_json import canonical_json
from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.content import stream_of
from ptkstore.adapters.sql.ledger.projections import Projections, Standing
from ptkstore.adapters.sql.statements import CatalogPart, parts, row_of
from ptkstore.domain.accounting.accountants import Accountant, Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.accounting.sharing import COMMON
from ptkstore.domain.ledger.block_ledgers import BlockLedger, BlockRecord
from ptkstore.domain.ledger.journal import (
    GENESIS,
    BudgetRequest,
    ChainLine,
    Entry,
    EntryKind,
    PolicyEntry,
    next_entry,
    next_policy_entry,
)
from ptkstore.domain.streams.blocks import BlockRange, BlockSet, BlockState
from ptkstore.errors import InvariantBroken, LateWriter

if TYPE_CHECKING:
    from ptkstore.domain.ledger.filters import Filters

_APPEND = insert(t.journal)
_OF: BindParameter[str] = bindparam("stream")
_STANDING = select(
    select(t.meta.c.value).where(t.meta.c.name == "ledger_id").scalar_subquery().label("ledger_id"),
    select(func.coalesce(func.max(t.blocks.c.revision), 0))
    .where(t.blocks.c.stream == _OF)
    .scalar_subquery()
    .label("revision"),
    select(t.streams.c.content).where(t.streams.c.name == _OF).scalar_subquery().label("content"),
    select(func.coalesce(func.max(t.policies.c.sequence), 0))
    .where(t.policies.c.stream == _OF)
    .scalar_subquery()
    .label("policy_at"),
)
_HISTORIES = (
    select(t.journal)
    .where(t.journal.c.key.in_(bindparam("keys", expanding=True)))
    .order_by(t.journal.c.sequence)
)


class SqlLedger(CatalogPart):
    """The tables of a `Ledger`; the caller has the stream's lock when it writes."""

    def __init__(self, connection: Connection, projections: Projections) -> None:
        super().__init__(connection)
        self._projections = projections
        self._mine: dict[str, Filters] = {}
        self._changed: set[str] = set()  # streams whose blocks this transaction changed since it read them
        self._unsure: set[str] = set()  # streams whose filters a rollback makes worthless: they are read anew
        self._broken: set[str] = set()  # those whose filters did not take in what was written
        # sequence and digest before this transaction's own entries
        self._begun: dict[str, tuple[int, str]] = {}
        self._appended: dict[str, list[Entry]] = {}

    def add_blocks(
        self,
        stream: str,
        blocks: Iterable[int],
        capacity: Loss,
        accountant: Accountant = Accountant.BASIC,
        lines: Mapping[str, Loss] | None = None,
        state: BlockState = BlockState.ACTIVE,
    ) -> None:
        self._change(stream)
        content = {
            "capacity_epsilon_nano": capacity.epsilon_nano,
            "capacity_delta_atto": capacity.delta_atto,
            "accountant": accountant,
            "lines": canonical_json(
                {n: [c.epsilon_nano, c.delta_atto] for n, c in (lines or {COMMON: capacity}).items()}
            ),
            "state": state,
            "revision": self._next_revision(stream),
        }
        rows = [{"stream": stream, "number": number, **content} for number in blocks]
        try:
            if rows:
                self._connection.execute(insert(t.blocks), rows)
        except IntegrityError as error:
            raise LateWriter(f"blocks of {stream} were made by somebody else just now") from error.orig

    def erase(self, stream: str, blocks: BlockRange) -> None:
        """Mark blocks whose rows are gone; what they spent stays."""
        self._set_state(stream, blocks.numbers(), BlockState.ERASED)

    def retire(self, stream: str, numbers: Sequence[int]) -> None:
        """Mark blocks that will never be charged again."""
        if numbers:
            self._set_state(stream, numbers, BlockState.RETIRED)

    def standing(self, stream: str) -> Standing:
        """Return what tells whether a projection of the stream is up to date, and for the right catalog."""
        row = self._connection.execute(_STANDING, {"stream": stream}).one()
        policy = None if row.content is None else stream_of(row.content).policy
        return Standing(str(row.ledger_id), int(row.revision), policy, int(row.policy_at))

    def created(self, stream: str, since: int = 0) -> tuple[tuple[BlockRecord, ...], int]:
        """Return the blocks that changed after revision `since`, by number, and the revision reached."""
        query = select(t.blocks).where(t.blocks.c.stream == stream, t.blocks.c.revision > since)
        rows = self._connection.execute(query.order_by(t.blocks.c.number)).all()
        return tuple(map(_block, rows)), max((row.revision for row in rows), default=since)

    def filters(self, stream: str) -> Filters:
        """Return the filters after the last entry, this transaction's own included; of no use once it has ended."""
        if stream not in self._mine:
            self._mine[stream] = self._projections.take(stream, self)
        elif stream in self._changed:
            self._projections.follow(stream, self)
        self._changed.discard(stream)
        return self._mine[stream]

    def blocks(
        self, stream: str, blocks: BlockRange | None = None, limit: int | None = None
    ) -> tuple[BlockLedger, ...]:
        """Return what each line of each block may lose, and what the journal says is reserved and spent."""
        if stream in self._mine or stream in self._changed:  # others must not see what may be rolled back
            return self.filters(stream).views(blocks, limit)
        return self._projections.read(stream, self, blocks, limit)

    def history(self, key: str) -> tuple[Entry, ...]:
        """Return all entries of one reservation."""
        return self.histories([key])[key]

    def histories(self, keys: Sequence[str]) -> dict[str, tuple[Entry, ...]]:
        """Return all entries of each reservation."""
        by_key: dict[str, list[Entry]] = {key: [] for key in keys}
        for some in parts(by_key):
            for row in self._connection.execute(_HISTORIES, {"keys": some}):
                by_key[row.key].append(_entry(row))
        return {key: tuple(entries) for key, entries in by_key.items()}

    def append(self, request: BudgetRequest, kind: EntryKind, event: Mapping[str, object]) -> Entry:
        """Write the next entry."""
        return self.extend(request.stream, [(request, kind, event)])[0]

    def extend(
        self, stream: str, steps: Sequence[tuple[BudgetRequest, EntryKind, Mapping[str, object]]]
    ) -> tuple[Entry, ...]:
        """Write the next entries of a journal; a stale writer meets UNIQUE and raises `LateWriter`."""
        filters = self.filters(stream)
        nonces = secrets.token_hex(16 * len(steps))
        entries: list[Entry] = []
        last = filters.sequence, filters.digest
        for number, (request, kind, event) in enumerate(steps):
            nonce = nonces[32 * number : 32 * number + 32]
            entries.append(next_entry(last, kind, request, canonical_json(event), nonce))
            last = entries[-1].sequence, entries[-1].digest
        try:
            if entries:
                self._connection.execute(_APPEND, list(map(_values, entries)))
        except IntegrityError as error:
            raise LateWriter(f"the journal of {stream} moved on, or a key has ended") from error.orig
        self._begun.setdefault(stream, (filters.sequence, filters.digest))
        try:
            filters.apply(*entries)
        except BaseException:
            self._broken.add(stream)
            raise
        self._appended.setdefault(stream, []).extend(entries)
        return tuple(entries)

    def journal(self, stream: str, after: int = 0) -> tuple[Entry, ...]:
        """Return the entries after a sequence, all by default."""
        query = select(t.journal).where(t.journal.c.stream == stream, t.journal.c.sequence > after)
        return tuple(map(_entry, self._connection.execute(query.order_by(t.journal.c.sequence))))

    def touching(self, stream: str, blocks: BlockRange, since: int, limit: int) -> tuple[Entry, ...]:
        """Return the first entries on any of these blocks, read in parts: ranges beyond the first are no columns."""
        line = t.journal.c
        query = (
            select(t.journal)
            .where(line.stream == stream, line.lo >= since, line.lo < blocks.hi)
            .where(or_(line.hi > blocks.lo, line.further.is_not(None)))
            .order_by(line.sequence)
            .limit(limit)
        )
        found: list[Entry] = []
        after = 0
        while len(found) < limit:
            part = [_entry(row) for row in self._connection.execute(query.where(line.sequence > after))]
            found += (
                one for one in part if any(r.lo < blocks.hi and r.hi > blocks.lo for r in one.blocks.ranges)
            )
            if len(part) < limit:
                break
            after = part[-1].sequence
        return tuple(found[:limit])

    def spent_as(self, stream: str, ptk_ids: Collection[str], event: str) -> frozenset[str]:
        """Return those of these PTKs that ever spent a loss of this event, found in the canonical JSON of events."""
        line, named = t.journal.c, canonical_json({"name": event})[1:-1]
        query = select(line.ptk_id).where(line.stream == stream, line.kind == EntryKind.SPEND).distinct()
        query = query.where(line.event.contains(named, autoescape=True))
        return frozenset(row.ptk_id for row in self._rows_with(query, line.ptk_id, ptk_ids))

    def policies(self, stream: str) -> tuple[PolicyEntry, ...]:
        """Return the lines that hold the stream's policy: one, unless somebody wrote another."""
        query = select(t.policies).where(t.policies.c.stream == stream).order_by(t.policies.c.sequence)
        return tuple(
            PolicyEntry(row.stream, row.sequence, row.content, row.digest, row.nonce)
            for row in self._connection.execute(query)
        )

    def chain(self, stream: str, after: int = 0) -> tuple[ChainLine, ...]:
        """Return the policies and entries after a sequence, in order."""
        lines: list[ChainLine] = [line for line in self.policies(stream) if line.sequence > after]
        return tuple(sorted((*lines, *self.journal(stream, after)), key=lambda line: line.sequence))

    def add_policy(self, stream: str, policy_text: str) -> PolicyEntry:
        """Write the line of the stream's policy, before anything of the stream is charged."""
        self._change(stream)
        lines = self.chain(stream)
        last = (lines[-1].sequence, lines[-1].digest) if lines else (0, GENESIS)
        entry = next_policy_entry(last, stream, policy_text, secrets.token_hex(16))
        self._connection.execute(insert(t.policies).values(row_of(t.policies, entry, content=policy_text)))
        return entry

    def ended(self, *, committed: bool) -> None:
        """Note that the transaction is over: what it appended has happened, or has not."""
        for stream, filters in self._mine.items():
            keep = stream not in self._broken and (committed or stream not in self._unsure)
            if keep and not committed and stream in self._begun:
                filters.revert(self._appended[stream], *self._begun[stream])
            self._projections.give_back(stream, keep=keep)
        for what in (self._mine, self._changed, self._unsure, self._broken, self._begun, self._appended):
            what.clear()

    def _change(self, stream: str) -> None:
        """A projection that is taken, or was before, is read on when it is asked for; a rollback takes it back too."""
        self._changed.add(stream)
        self._unsure.add(stream)

    def _set_state(self, stream: str, numbers: Sequence[int], state: BlockState) -> None:
        self._change(stream)
        revision = self._next_revision(stream)
        block = t.blocks.c
        for some in parts(numbers):
            self._connection.execute(
                update(t.blocks)
                .where(block.stream == stream, block.number.in_(some), block.state != BlockState.ERASED)
                .values(state=state, revision=revision)
            )

    def _next_revision(self, stream: str) -> int:
        query = select(func.coalesce(func.max(t.blocks.c.revision), 0)).where(t.blocks.c.stream == stream)
        return int(self._connection.execute(query).scalar_one()) + 1


def _block(row: Row[Any]) -> BlockRecord:
    lines = {name: Loss(*capacity) for name, capacity in json.loads(row.lines).items()}
    return BlockRecord(row.number, lines, Accountant(row.accountant), BlockState(row.state))


def _values(entry: Entry) -> dict[str, Any]:
    request = entry.request
    lo, hi, *further = request.blocks.edges
    return {
        "stream": request.stream,
        "sequence": entry.sequence,
        "key": request.key,
        "kind": entry.kind,
        "ptk_id": request.ptk_id,
        "lo": lo,
        "hi": hi,
        "further": str(further) if further else None,
        "epsilon_nano": request.loss.epsilon_nano,
        "delta_atto": request.loss.delta_atto,
        "line": request.line,
        "charge": str([*request.charge.amounts, request.charge.delta_atto]),
        "event": entry.event_text,
        "digest": entry.digest,
        "nonce": entry.nonce,
    }


def _further(row: Row[Any]) -> list[int]:
    """The blocks beyond the first range; other programs may have written the text."""
    further = [] if row.further is None else json.loads(row.further)
    if not isinstance(further, list) or any(type(edge) is not int for edge in further):
        raise InvariantBroken(f"journal entry {row.stream}/{row.sequence} names no blocks")
    return further


def _entry(row: Row[Any]) -> Entry:
    *amounts, delta = json.loads(row.charge)
    request = BudgetRequest(
        row.stream,
        row.key,
        row.ptk_id,
        BlockSet((row.lo, row.hi, *_further(row))),
        Loss(row.epsilon_nano, row.delta_atto),
        Charge(tuple(amounts), delta),
        row.line,
    )
    return Entry(row.sequence, EntryKind(row.kind), request, row.event, row.digest, row.nonce)
