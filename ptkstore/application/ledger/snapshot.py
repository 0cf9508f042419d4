"""A stream's blocks and journal at one moment, and why the losses in it are believed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ptkstore.domain.accounting.assurances import UNKNOWN, Assurance, Assured, assured, assured_in, least
from ptkstore.domain.ledger.block_ledgers import BlockRecord
from ptkstore.domain.ledger.journal import ChainLine, Entry, EntryKind
from ptkstore.domain.streams.streams import Stream
from ptkstore.ports.catalog import CatalogView
from ptkstore.ports.streams import Progress

OF_TEAM_CODE = "EpsilonDelta"
"""The event of a loss that is known by epsilon and delta alone. No family of the library spends it."""


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """A stream's blocks and journal at one moment."""

    stream: Stream
    progress: Progress
    blocks: tuple[BlockRecord, ...]
    lines: tuple[ChainLine, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The lines that are charges."""
        return tuple(line for line in self.lines if isinstance(line, Entry))


def snapshot_of(stream: str, uow: CatalogView) -> LedgerSnapshot:
    """Read blocks and journal; in a transaction that reads one moment, nobody writes in between."""
    record = uow.streams.get(stream)
    blocks, _ = uow.ledger.created(stream)
    return LedgerSnapshot(record, uow.streams.progress(stream), blocks, uow.ledger.chain(stream))


def assurances_on(snapshot: LedgerSnapshot, uow: CatalogView) -> dict[str, Assured]:
    """Say why the loss of each PTK in the journal is believed: the least of what it is, was published as, and spent.

    A PTK of a stream whose policy accepts nothing else is of the library, also if it is gone and published nothing.
    """
    ids = {entry.ptk_id for entry in snapshot.entries}
    if snapshot.stream.policy.minimum_assurance is Assurance.LIBRARY:
        return _assurances(snapshot.stream, ids, (), uow)
    spends = (entry for entry in snapshot.entries if entry.kind is EntryKind.SPEND)
    by_team = {entry.ptk_id for entry in spends if _is_of_team_code(entry)}
    return _assurances(snapshot.stream, ids, by_team, uow)


def assurances_of(stream: Stream, ptk_ids: Collection[str], uow: CatalogView) -> dict[str, Assured]:
    """Say the same of some PTKs of a stream; the catalog looks through the journal, and no entry is read."""
    by_team = uow.ledger.spent_as(stream.name, ptk_ids, OF_TEAM_CODE)
    return _assurances(stream, ptk_ids, by_team, uow)


def _assurances(
    stream: Stream, ptk_ids: Collection[str], by_team: Collection[str], uow: CatalogView
) -> dict[str, Assured]:
    if stream.policy.minimum_assurance is Assurance.LIBRARY:
        return {ptk_id: Assured(Assurance.LIBRARY) for ptk_id in ptk_ids}
    assurances: dict[str, list[Assured]] = {ptk_id: [] for ptk_id in sorted(ptk_ids)}
    for spec in uow.ptks.find(stream=stream.name):
        assurances.setdefault(spec.ptk_id, []).append(assured(spec.assurance, spec.ptk_id))
    for ptk_id in by_team:
        assurances[ptk_id] = [assured(Assurance.ASSERTED, ptk_id)]
    for ptk_id in sorted(ptk_ids):
        latest = uow.versions.latest(ptk_id)
        if latest is not None:
            assurances[ptk_id].append(assured_in(latest.content, ptk_id))
    return {ptk_id: least(some) if some else UNKNOWN for ptk_id, some in assurances.items()}


def _is_of_team_code(entry: Entry) -> bool:
    """Whether a training's or a profile's loss was a team's word, also if its PTK is one of the library today.

    The event in the journal's chain says so. The kind in the job's row could have been changed.
    """
    return _has_asserted_part(entry.event)


def _has_asserted_part(event: object) -> bool:
    """Whether a loss known by epsilon and delta alone is anywhere in an event.

    It looks at the JSON form, so that an event that this version cannot read is searched, too.
    """
    if isinstance(event, Mapping):
        return event.get("name") == OF_TEAM_CODE or any(map(_has_asserted_part, event.values()))
    return isinstance(event, list | tuple) and any(map(_has_asserted_part, event))
