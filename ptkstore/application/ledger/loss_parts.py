"""Say which PTK, or which team, spent what of some blocks of a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from ptkstore.domain.ledger.journal import Entry
from ptkstore.domain.ledger.odometers import LossPart, parts_of
from ptkstore.domain.names import team_of
from ptkstore.domain.streams.blocks import BlockRange, stride_of
from ptkstore.domain.streams.policies import Policy, PrivacyUnit
from ptkstore.ports.catalog import Read

MOST_ENTRIES = 5_000
"""Lines of the journal that are read at once."""


class Party(StrEnum):
    """Those whose parts of a block's loss are told apart."""

    PTK = "ptk"
    TEAM = "team"


def loss_parts(
    stream: str, blocks: BlockRange, by: Party, *, most: int = MOST_ENTRIES, begin: Read
) -> Mapping[tuple[int, str], tuple[LossPart, ...]] | None:
    """Return the parts of the loss of each line of these blocks; None if more than `most` lines are about them.

    The journal is read about these blocks alone, whatever its length. Of one moment, if `begin` reads one.
    """
    with begin() as uow:
        policy = uow.streams.get(stream).policy
        ledgers = uow.ledger.blocks(stream, blocks)
        entries = uow.ledger.touching(stream, blocks, first_of(blocks, policy), most + 1)
    if len(entries) > most:
        return None
    return parts_of(policy.accountant, ledgers, entries, _name_of(by))


def first_of(blocks: BlockRange, policy: Policy) -> int:
    """Return the lowest block that an entry on any of these may begin with: a run reads windows kept together."""
    if policy.privacy_unit is PrivacyUnit.USER:
        return 0
    return max(0, blocks.lo - (policy.retention_windows + 1) * stride_of(policy))


def _name_of(by: Party) -> Callable[[Entry], str]:
    return (lambda entry: entry.ptk_id) if by is Party.PTK else (lambda entry: team_of(entry.ptk_id))
