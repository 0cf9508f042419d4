"""Read the ledger: what each block may lose and has lost, and whether the journal still adds up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ptkstore.application.books import assurances_on, books_of
from ptkstore.application.charging import charge_of
from ptkstore.domain.accountants import Accountant, Charge
from ptkstore.domain.assurances import Assurance
from ptkstore.domain.block_ledgers import BlockLedger, BlockRecord
from ptkstore.domain.blocks import BlockRange
from ptkstore.domain.journal import BudgetRequest, ChainLine
from ptkstore.domain.ledger import verify
from ptkstore.domain.loss_shares import LossShares
from ptkstore.domain.odometers import shares_of
from ptkstore.domain.streams import Policy
from ptkstore.errors import CatalogBehind
from ptkstore.ports.catalog import Read
from ptkstore.ports.keys import JournalView, KeyStore

_BEYOND_ALL = 2**63  # no block has such a number


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """The result of recomputing a stream's journal; `faults` is empty when all is well."""

    stream: str
    entries: int
    blocks: int
    faults: tuple[str, ...]


def asserted_on(stream: str, *, begin: Read) -> tuple[Assurance, tuple[str, ...]]:
    """The least assurance that a stream accepts, and its registered PTKs whose loss the library does not prove."""
    with begin() as uow:
        minimum = uow.streams.get(stream).policy.minimum_assurance
        specs = () if minimum is Assurance.LIBRARY else uow.ptks.find(stream=stream)
    return minimum, tuple(sorted(one.ptk_id for one in specs if one.assurance is not Assurance.LIBRARY))


def budget_of(
    stream: str, *, after: int | None = None, limit: int | None = None, begin: Read
) -> tuple[BlockLedger, ...]:
    """The blocks of a stream with capacity, reserved and spent, by number: all, or so many after a number.

    The journal is read for the shares of what was spent, where the stream accepts more than the library's own.
    """
    later = None if after is None else BlockRange(after + 1, max(after + 2, _BEYOND_ALL))
    with begin() as uow:
        # first, so that what is read is no older than what was read before
        blocks = uow.ledger.blocks(stream, later, limit)
        policy = uow.streams.get(stream).policy
        if policy.minimum_assurance is Assurance.LIBRARY:
            return tuple(replace(one, shares=LossShares(library=one.spent)) for one in blocks)
        books = books_of(stream, uow)
        known = assurances_on(books, uow)
    numbers = {one.number for one in blocks}
    shares = shares_of([one for one in books.blocks if one.number in numbers], books.entries, known)
    return tuple(replace(one, shares=shares.get((one.number, one.line))) for one in blocks)


def verify_ledger(stream: str, *, begin: Read, keys: KeyStore, journal: JournalView) -> LedgerCheck:
    """Recompute digests, order, sums and capacities from the journal, and compare it with the key store's memory.

    `begin` starts a transaction that reads one moment.
    """
    with begin() as uow:
        policy = uow.streams.policy_in_row(stream)
        blocks, _ = uow.ledger.created(stream)
        lines = uow.ledger.chain(stream)
    faults = faults_of(blocks, lines, policy) + faults_of_memory(stream, keys, journal)
    return LedgerCheck(stream, len(lines), len(blocks), faults)


def faults_of(blocks: Sequence[BlockRecord], lines: Sequence[ChainLine], policy: Policy) -> tuple[str, ...]:
    """What is wrong with a journal, charges recomputed from their events; empty when all is well."""
    return verify(blocks, lines, _recomputed, policy)


def faults_of_memory(stream: str, keys: KeyStore, journal: JournalView) -> tuple[str, ...]:
    """Where the journal does not continue what the key store saw, or holds another policy."""
    try:
        keys.check_journal(stream, journal)
    except CatalogBehind as error:
        return (str(error),)
    return ()


def _recomputed(event: Mapping[str, object], accountant: Accountant, request: BudgetRequest) -> Charge:
    return charge_of(event, accountant, request.loss)
