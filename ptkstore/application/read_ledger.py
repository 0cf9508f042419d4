"""Read the ledger: what each block may lose and has lost, and whether the journal still adds up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ptkstore.application.charging import charge_of
from ptkstore.domain.accountants import Accountant, Charge
from ptkstore.domain.blocks import BlockRange
from ptkstore.domain.filters import BlockLedger, BlockRecord
from ptkstore.domain.journal import BudgetRequest, Entry
from ptkstore.domain.ledger import verify
from ptkstore.ports.catalog import Begin

_BEYOND_ALL = 2**63  # no block has such a number


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """The result of recomputing a stream's journal; `faults` is empty when all is well."""

    stream: str
    entries: int
    blocks: int
    faults: tuple[str, ...]


def budget_of(
    stream: str, *, after: int | None = None, limit: int | None = None, begin: Begin
) -> tuple[BlockLedger, ...]:
    """The blocks of a stream with capacity, reserved and spent, by number: all, or so many after a number."""
    later = None if after is None else BlockRange(after + 1, max(after + 2, _BEYOND_ALL))
    with begin() as uow:
        # first, so that what is read is no older than what was read before
        blocks = uow.ledger.blocks(stream, later, limit)
        uow.streams.get(stream)
        return blocks


def verify_ledger(stream: str, *, begin: Begin) -> LedgerCheck:
    """Recompute digests, order and sums from the journal alone."""
    with begin() as uow:
        uow.streams.lock(stream)
        blocks, _ = uow.ledger.created(stream)
        entries = uow.ledger.journal(stream)
    return LedgerCheck(stream, len(entries), len(blocks), faults_of(blocks, entries))


def faults_of(blocks: Sequence[BlockRecord], entries: Sequence[Entry]) -> tuple[str, ...]:
    """What is wrong with a journal, charges recomputed from their events; empty when all is well."""
    return verify(blocks, entries, _recomputed)


def _recomputed(event: Mapping[str, object], accountant: Accountant, request: BudgetRequest) -> Charge:
    return charge_of(event, accountant, request.loss)
