"""Whether a journal still adds up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptkstore.application.ledger.charging import charge_of
from ptkstore.domain.ledger.block_ledgers import BlockRecord
from ptkstore.domain.ledger.journal import ChainLine
from ptkstore.domain.ledger.rules import verify
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import CatalogBehind, UnknownName
from ptkstore.ports.catalog import Read
from ptkstore.ports.keys import JournalView, KeyStore


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """The result of recomputing a stream's journal; `faults` is empty when all is well."""

    stream: str
    entries: int
    blocks: int
    faults: tuple[str, ...]


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
    """Return what is wrong with a journal, charges recomputed from their events; empty when all is well."""
    return verify(blocks, lines, charge_of, policy)


def faults_of_memory(stream: str, keys: KeyStore, journal: JournalView) -> tuple[str, ...]:
    """Find where the journal does not continue what the key store saw, or has another policy, or there is no key."""
    try:
        keys.check_journal(stream, journal)
    except (CatalogBehind, UnknownName) as error:
        return (str(error),)
    return ()
