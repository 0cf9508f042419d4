"""The ledger's rules: an append-only journal of reservations, spends and releases, and the filter over it.

Filter: basic composition with a fixed capacity per block, adaptive in the losses (Sage SOSP'19, Theorem 4.3).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ptkstore.domain.blocks import BlockRange, BlockState
from ptkstore.domain.losses import NO_LOSS, Loss
from ptkstore.errors import Conflict, InvalidRequest, InvariantBroken


class EntryKind(StrEnum):
    """What a journal entry does to a reservation's key."""

    RESERVE = "reserve"
    SPEND = "spend"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class BudgetRequest:
    """A wish to lose `loss` on every block of `blocks`, under a key that makes it repeatable."""

    stream: str
    key: str
    ptk_id: str
    blocks: BlockRange
    loss: Loss


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal. `digest` chains all entries of a stream, so that a fork of the catalog shows.

    `nonce` is random: a restored catalog that takes the very same steps again has other digests all the same.
    """

    stream: str
    sequence: int
    key: str
    kind: EntryKind
    ptk_id: str
    blocks: BlockRange
    loss: Loss
    event: Mapping[str, object]
    digest: str
    nonce: str = ""

    @property
    def request(self) -> BudgetRequest:
        """What was asked for under this entry's key."""
        return BudgetRequest(self.stream, self.key, self.ptk_id, self.blocks, self.loss)


@dataclass(frozen=True, slots=True)
class BlockLedger:
    """What one block may lose and what is promised or lost already."""

    number: int
    capacity: Loss
    state: BlockState
    reserved: Loss = NO_LOSS
    spent: Loss = NO_LOSS

    @property
    def committed(self) -> Loss:
        """Reserved plus spent: what later requests must fit beside."""
        return self.reserved + self.spent

    @property
    def left(self) -> Loss:
        """What a further request may still take."""
        return self.capacity - self.committed


@dataclass(frozen=True, slots=True)
class Granted:
    """The loss is reserved, or was already spent, on every block of the request."""

    key: str


@dataclass(frozen=True, slots=True)
class Denied:
    """Nothing was reserved anywhere; these blocks have no room, or the reservation has ended."""

    key: str
    exhausted: tuple[int, ...]


def decide(ledgers: Sequence[BlockLedger], request: BudgetRequest) -> Granted | Denied:
    """All blocks or none; `InvalidRequest` if a block of the request does not exist."""
    if [block.number for block in ledgers] != list(request.blocks.numbers()):
        raise InvalidRequest(f"{request.key!r} asks for blocks of {request.stream!r} that do not exist")
    exhausted = tuple(
        block.number
        for block in ledgers
        if block.state is not BlockState.ACTIVE or not (block.committed + request.loss).fits(block.capacity)
    )
    return Denied(request.key, exhausted) if exhausted else Granted(request.key)


def outcome_of(request: BudgetRequest, history: Sequence[Entry]) -> Granted | Denied | None:
    """The stored answer of a key, None for a new one; other content under the same key is a `Conflict` (PAPERS F3)."""
    if not history:
        return None
    first = history[0]
    if (first.ptk_id, first.blocks, first.loss) != (request.ptk_id, request.blocks, request.loss):
        raise Conflict(f"key {request.key!r} was used for another request")
    kinds = {entry.kind for entry in history}
    return Denied(request.key, ()) if EntryKind.RELEASE in kinds else Granted(request.key)


def fold(blocks: Iterable[BlockLedger], entries: Iterable[Entry]) -> dict[int, BlockLedger]:
    """Recompute reserved and spent of `blocks` from journal entries alone, in journal order."""
    state = {block.number: BlockLedger(block.number, block.capacity, block.state) for block in blocks}
    held: dict[str, Entry] = {}
    for entry in entries:
        if entry.kind is EntryKind.RESERVE:
            held[entry.key] = entry
        elif not _same(held.pop(entry.key, None), entry):
            raise InvariantBroken(
                f"journal entry {entry.stream}/{entry.sequence} ends no reservation like it"
            )
        for number in entry.blocks.numbers():
            if number in state:
                state[number] = _after(state[number], entry)
    return state


def _same(reservation: Entry | None, end: Entry) -> bool:
    """Whether `end` spends or releases exactly what was reserved, where it was reserved."""
    return reservation is not None and (reservation.ptk_id, reservation.blocks, reservation.loss) == (
        end.ptk_id,
        end.blocks,
        end.loss,
    )


def _after(block: BlockLedger, entry: Entry) -> BlockLedger:
    reserved, spent = block.reserved, block.spent
    if entry.kind is EntryKind.RESERVE:
        reserved += entry.loss
    else:
        reserved -= entry.loss
        if entry.kind is EntryKind.SPEND:
            spent += entry.loss
    return BlockLedger(block.number, block.capacity, block.state, reserved, spent)


GENESIS = "0" * 64


def chained_digest(previous: str, entry: Entry) -> str:
    """SHA-256 over the previous digest and the entry's content (its own digest left out)."""
    content = json.dumps(
        [
            previous,
            entry.stream,
            entry.sequence,
            entry.key,
            entry.kind,
            entry.ptk_id,
            entry.blocks.lo,
            entry.blocks.hi,
            entry.loss.epsilon_nano,
            entry.loss.delta_atto,
            entry.event,
            entry.nonce,
        ],
        sort_keys=True,
        separators=(",", ":"),
    )
    return hashlib.sha256(content.encode()).hexdigest()


def verify(blocks: Iterable[BlockLedger], entries: Sequence[Entry]) -> tuple[str, ...]:
    """What is wrong with a stream's journal, recomputed from the entries alone; empty when all is well."""
    faults: list[str] = []
    previous = GENESIS
    held: dict[str, Entry | None] = {}
    for expected, entry in enumerate(entries, start=1):
        if entry.sequence != expected:
            faults.append(f"sequence {expected} is missing before {entry.sequence}")
            break
        if chained_digest(previous, entry) != entry.digest:
            faults.append(f"entry {entry.sequence} does not match its digest")
        if entry.kind is EntryKind.RESERVE:
            if entry.key in held:
                faults.append(f"entry {entry.sequence} repeats or follows the end of key {entry.key!r}")
            held[entry.key] = entry
        else:
            if not _same(held.get(entry.key), entry):
                faults.append(f"entry {entry.sequence} ends no reservation like it")
            held[entry.key] = None
        previous = entry.digest
    if not faults:
        faults += [
            f"block {block.number} is over its capacity"
            for block in fold(blocks, entries).values()
            if not block.committed.fits(block.capacity)
        ]
    return tuple(faults)
