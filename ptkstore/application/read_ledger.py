"""Read the ledger: what each block may lose and has lost, and whether the journal still adds up."""

from __future__ import annotations

from dataclasses import dataclass

from ptkstore.domain.ledger import BlockLedger, verify
from ptkstore.ports.catalog import Begin


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """The result of recomputing a stream's journal; `faults` is empty when all is well."""

    stream: str
    entries: int
    blocks: int
    faults: tuple[str, ...]


def budget_of(stream: str, *, begin: Begin) -> tuple[BlockLedger, ...]:
    """Every block of a stream with capacity, reserved and spent, by number."""
    with begin() as uow:
        uow.streams.get(stream)
        return uow.ledger.blocks(stream)


def verify_ledger(stream: str, *, begin: Begin) -> LedgerCheck:
    """Recompute digests, order and sums from the journal alone."""
    with begin() as uow:
        uow.streams.lock(stream)
        blocks = uow.ledger.blocks(stream)
        entries = uow.ledger.journal(stream)
    return LedgerCheck(stream, len(entries), len(blocks), verify(blocks, entries))
