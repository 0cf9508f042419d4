"""The capacity and the losses of each block of a stream."""

from __future__ import annotations

from dataclasses import replace

from ptkstore.application.ledger.loss_parts import first_of
from ptkstore.application.ledger.snapshot import assurances_of
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.accounting.losses import LossShares
from ptkstore.domain.ledger.block_ledgers import BlockLedger, BlockRecord
from ptkstore.domain.ledger.odometers import shares_of
from ptkstore.domain.streams.blocks import BlockRange
from ptkstore.ports.catalog import Read

_BEYOND_ALL = 2**63  # no block has such a number
_ALL = 2**62  # entries; no journal is as long


def assurance_on(stream: str, *, begin: Read) -> tuple[Assurance, tuple[str, ...]]:
    """Return the least assurance that a stream accepts, and its PTKs whose loss the library does not prove."""
    with begin() as uow:
        minimum = uow.streams.get(stream).policy.minimum_assurance
        specs = () if minimum is Assurance.LIBRARY else uow.ptks.find(stream=stream)
    return minimum, tuple(sorted(one.ptk_id for one in specs if one.assurance is not Assurance.LIBRARY))


def budget_of(
    stream: str, *, after: int | None = None, limit: int | None = None, begin: Read
) -> tuple[BlockLedger, ...]:
    """List the blocks of a stream with capacity, reserved and spent, by number: all, or so many after a number.

    For the shares of what was spent, the entries on these blocks are read, where the stream accepts more than the
    library's own.
    """
    later = None if after is None else BlockRange(after + 1, max(after + 2, _BEYOND_ALL))
    with begin() as uow:
        # first, so that what is read is no older than what was read before
        blocks = uow.ledger.blocks(stream, later, limit)
        record = uow.streams.get(stream)
        policy = record.policy
        if policy.minimum_assurance is Assurance.LIBRARY:
            return tuple(replace(one, shares=LossShares(library=one.spent)) for one in blocks)
        if not blocks:
            return ()
        these = BlockRange(min(one.number for one in blocks), max(one.number for one in blocks) + 1)
        entries = uow.ledger.touching(stream, these, first_of(these, policy), _ALL)
        assurances = assurances_of(record, {entry.ptk_id for entry in entries}, uow)
    lines = [BlockRecord(one.number, {one.line: one.capacity}, policy.accountant) for one in blocks]
    shares = shares_of(lines, entries, assurances)
    return tuple(replace(one, shares=shares.get((one.number, one.line))) for one in blocks)
