"""Odometers: what has been lost by now, per block, stream, PTK and team; they decide nothing.

There are three figures. `guarantee` is what the stream's filter adds up. It is valid even if requests were chosen in
the light of earlier releases. `basic` are the sums of the declared losses. `tight` is the best figure for the list of
releases as it is now; it would be valid for a list that was fixed beforehand (differences.md F1).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import ceil, inf, isfinite

from ptkstore.domain.accounting.accountants import Accountant, deciding_coordinate, loss_of
from ptkstore.domain.accounting.assurances import UNKNOWN, Assured, least
from ptkstore.domain.accounting.local import DeviceOdometer, LocalOdometer
from ptkstore.domain.accounting.losses import ATTO, NANO, NO_LOSS, Loss, LossShares
from ptkstore.domain.ledger.block_ledgers import BlockLedger, BlockRecord
from ptkstore.domain.ledger.journal import Entry, EntryKind
from ptkstore.domain.names import team_of
from ptkstore.domain.streams.blocks import BlockState

Releases = Counter[tuple[str, Loss]]
"""How often each event, as canonical JSON, happened with its declared loss."""

Tight = Callable[[Releases, float], float]
"""The least epsilon we can prove for a list of releases at a delta; infinity when there is none."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The joint cost of some releases."""

    releases: int = 0
    guarantee: Loss = NO_LOSS
    basic: Loss = NO_LOSS
    tight: Loss = NO_LOSS

    def __or__(self, other: Spent) -> Spent:
        """The greater of each figure: what parallel releases on other blocks cost."""
        return Spent(
            max(self.releases, other.releases),
            _greater(self.guarantee, other.guarantee),
            _greater(self.basic, other.basic),
            _greater(self.tight, other.tight),
        )


@dataclass(frozen=True, slots=True)
class LineOdometer:
    """One line of one block. If the catalog may have forgotten spends, `in_doubt`, all of the capacity counts.

    `shares` are of the spends in the journal; None if nobody asked.
    """

    number: int
    line: str
    state: BlockState
    capacity: Loss
    reserved: Loss
    spent: Spent
    in_doubt: bool = False
    shares: LossShares | None = None


@dataclass(frozen=True, slots=True)
class PartyOdometer:
    """The spend of a PTK or a team on the block where its guarantee is greatest, and the most it reserved on any."""

    name: str
    spent: Spent
    reserved: Loss
    assured: Assured = UNKNOWN


@dataclass(frozen=True, slots=True)
class Odometers:
    """All odometers of the blocks that were asked for.

    `stream` is the greatest of any block, all of its lines together: blocks hold disjoint rows, so their losses are
    in parallel. `lines` is the same for each line alone. If rows stay on devices, `device` is what a device loses to
    the stream, and `local` to each PTK. That is no loss of a block, and nothing adds the two up.
    """

    blocks: tuple[LineOdometer, ...]
    lines: Mapping[str, Spent]
    stream: Spent
    ptks: tuple[PartyOdometer, ...]
    teams: tuple[PartyOdometer, ...]
    local: tuple[LocalOdometer, ...] = ()
    device: DeviceOdometer | None = None

    @property
    def assured(self) -> Assured:
        """The least that can be said of any PTK here."""
        return least(one.assured for one in self.ptks)

    def with_assurance(
        self, assurances: Mapping[str, Assured], shares: Mapping[tuple[int, str], LossShares]
    ) -> Odometers:
        """With what is known of each PTK and its part of each block; a team is as good as the weakest of its PTKs."""
        ptks = tuple(replace(one, assured=assurances.get(one.name, UNKNOWN)) for one in self.ptks)
        teams = tuple(
            replace(team, assured=least(one.assured for one in ptks if team_of(one.name) == team.name))
            for team in self.teams
        )
        blocks = tuple(replace(row, shares=shares.get((row.number, row.line))) for row in self.blocks)
        return replace(self, blocks=blocks, ptks=ptks, teams=teams)


def shares_of(
    blocks: Iterable[BlockRecord], entries: Iterable[Entry], assurances: Mapping[str, Assured]
) -> dict[tuple[int, str], LossShares]:
    """By block and line, what releases cost alone of PTKs that `assurances` calls proven, and of all others."""
    spends = [entry for entry in entries if entry.kind is EntryKind.SPEND]
    proven = _Stretches([one for one in spends if assurances.get(one.ptk_id, UNKNOWN).proven])
    others = _Stretches([one for one in spends if not assurances.get(one.ptk_id, UNKNOWN).proven])
    loss_shares = {}
    for block in blocks:
        parts = proven.at(block.number), others.at(block.number)
        for line, capacity in block.lines.items():
            loss_shares[block.number, line] = LossShares(
                *(guarantee_of(block.accountant, capacity, _of_line(line, part)) for part in parts)
            )
    return loss_shares


@dataclass(frozen=True, slots=True)
class LossPart:
    """What one PTK, or one team, spent of a line of a block.

    `alone` is the loss of its releases by themselves. These losses need not add up to that of the block. `share` is
    its share of what the accountant added up where it decides; the shares of a block add up to 1.
    """

    name: str
    alone: Loss
    share: float


def parts_of(
    accountant: Accountant,
    blocks: Iterable[BlockLedger],
    entries: Iterable[Entry],
    party_of: Callable[[Entry], str],
) -> dict[tuple[int, str], tuple[LossPart, ...]]:
    """Return who spent what of each block and line, the largest share first.

    Parameters
    ----------
    entries : iterable of Entry
        All that are on any of the blocks.
    """
    spends = _Stretches([entry for entry in entries if entry.kind is EntryKind.SPEND])
    known: dict[tuple[tuple[int, ...], str, Loss], tuple[LossPart, ...]] = {}
    found = {}
    for block in blocks:
        some = _of_line(block.line, spends.at(block.number))
        key = tuple(entry.sequence for entry in some), block.line, block.capacity
        if key not in known:
            known[key] = _parts(accountant, block.capacity, some, party_of)
        found[block.number, block.line] = known[key]
    return found


def _parts(
    accountant: Accountant, capacity: Loss, entries: Sequence[Entry], party_of: Callable[[Entry], str]
) -> tuple[LossPart, ...]:
    if not entries:
        return ()
    sums = [sum(column) for column in zip(*(entry.charge.amounts for entry in entries), strict=True)]
    place = deciding_coordinate(accountant, capacity, sums)
    parts = (
        LossPart(
            name,
            guarantee_of(accountant, capacity, some),
            sum(entry.charge.amounts[place] for entry in some) / sums[place],
        )
        for name, some in _by_party(entries, party_of).items()
    )
    return tuple(sorted(parts, key=lambda part: (-part.share, part.name)))


def odometers_of(
    blocks: Iterable[BlockRecord],
    entries: Iterable[Entry],
    tight: Tight,
    in_doubt: Callable[[int], bool] = lambda _: False,
) -> Odometers:
    """Read all odometers of `blocks` off the journal, and of no other blocks.

    `in_doubt` says whether spends on a block may have been forgotten (differences.md F3b). The capacity of such a block
    counts as spent; spends of PTKs and teams on it are those in the journal alone.
    """
    journal = tuple(entries)
    ended = {entry.key for entry in journal if entry.kind is not EntryKind.RESERVE}
    spends = [entry for entry in journal if entry.kind is EntryKind.SPEND]
    held = [entry for entry in journal if entry.kind is EntryKind.RESERVE and entry.key not in ended]
    meter = _Meter(sorted(blocks, key=lambda block: block.number), tight)
    rows = tuple(
        replace(row, in_doubt=True, spent=_all_of(row.capacity, row.spent)) if in_doubt(row.number) else row
        for row in meter.rows(spends, held)
    )
    lines: dict[str, Spent] = {}
    for row in rows:
        lines[row.line] = lines.get(row.line, Spent()) | row.spent
    stream = meter.most_spent(spends)
    for block in meter.blocks:
        if in_doubt(block.number):
            stream |= _all_of(sum(block.lines.values(), NO_LOSS), Spent())
    return Odometers(
        rows,
        lines,
        stream,
        meter.parties(spends, held, lambda entry: entry.ptk_id),
        meter.parties(spends, held, lambda entry: team_of(entry.ptk_id)),
    )


def most_lost(
    blocks: Iterable[BlockRecord],
    entries: Iterable[Entry],
    in_doubt: Callable[[int], bool] = lambda _: False,
) -> Loss:
    """Return the most that any block has lost, all lines together: the guarantee of `Odometers.stream` alone."""
    meter = _Meter(sorted(blocks, key=lambda block: block.number), lambda *_: inf)
    doubted = (sum(block.lines.values(), NO_LOSS) for block in meter.blocks if in_doubt(block.number))
    spends = [entry for entry in entries if entry.kind is EntryKind.SPEND]
    return _greatest((meter.most_guaranteed(spends), *doubted))


class _Meter:
    """Adds up entries on stretches of blocks that share them, and equal lists of releases once."""

    def __init__(self, blocks: Sequence[BlockRecord], tight: Tight) -> None:
        self.blocks = blocks
        self._numbers = [block.number for block in blocks]
        self._tight = tight
        self._known: dict[object, Spent] = {}

    def rows(self, spends: Sequence[Entry], held: Sequence[Entry]) -> tuple[LineOdometer, ...]:
        spent_at, held_at = _Stretches(spends), _Stretches(held)
        odometers = []
        for block in self.blocks:
            paid, promised = spent_at.at(block.number), held_at.at(block.number)
            for line, capacity in sorted(block.lines.items()):
                spent = self._spent(block, _of_line(line, paid))
                reserved = guarantee_of(block.accountant, capacity, _of_line(line, promised))
                odometers.append(LineOdometer(block.number, line, block.state, capacity, reserved, spent))
        return tuple(odometers)

    def most_spent(self, spends: Iterable[Entry]) -> Spent:
        """The greatest of any block."""
        most = Spent()
        for entries, block in self._on_blocks(spends):
            most |= self._spent(block, entries)
        return most

    def worst(self, spends: Iterable[Entry]) -> Spent:
        """All figures of the block whose guarantee is greatest: one list of releases to be looked at, not many."""
        by_guarantee = (
            (self._guarantee(block, some), some, block) for some, block in self._on_blocks(spends)
        )
        largest = max(by_guarantee, key=lambda one: (one[0].epsilon_nano, one[0].delta_atto), default=None)
        return Spent() if largest is None else self._spent(largest[2], largest[1])

    def most_guaranteed(self, entries: Iterable[Entry]) -> Loss:
        """The greatest of any block, of what was spent or reserved."""
        return _greatest(self._guarantee(block, some) for some, block in self._on_blocks(entries))

    def parties(
        self, spends: Sequence[Entry], held: Sequence[Entry], party_of: Callable[[Entry], str]
    ) -> tuple[PartyOdometer, ...]:
        spent_by, held_by = _by_party(spends, party_of), _by_party(held, party_of)
        odometers = (
            PartyOdometer(
                name, self.worst(spent_by.get(name, ())), self.most_guaranteed(held_by.get(name, ()))
            )
            for name in sorted({*spent_by, *held_by})
        )
        return tuple(one for one in odometers if one.spent.releases or one.reserved != NO_LOSS)

    def _on_blocks(self, entries: Iterable[Entry]) -> Iterator[tuple[tuple[Entry, ...], BlockRecord]]:
        """Each stretch that has a block, with one of its blocks: all of a stream have the same lines."""
        for low, high, some in _Stretches(entries).all():
            place = bisect_left(self._numbers, low)
            if some and place < len(self._numbers) and self._numbers[place] < high:
                yield some, self.blocks[place]

    def _spent(self, block: BlockRecord, entries: Sequence[Entry]) -> Spent:
        """The cost of some entries to the block, whichever of its lines they are on."""
        bill = Counter((entry.request.line, entry.event_text, entry.loss, entry.charge) for entry in entries)
        key = (frozenset(bill.items()), tuple(sorted(block.lines.items())))
        if key not in self._known:
            self._known[key] = self._added_up(block, entries)
        return self._known[key]

    def _added_up(self, block: BlockRecord, entries: Sequence[Entry]) -> Spent:
        if not entries:
            return Spent()
        guarantee = self._guarantee(block, entries)
        basic = sum((entry.loss for entry in entries), NO_LOSS)
        capacities = (block.lines[line] for line in {entry.request.line for entry in entries})
        delta_atto = sum(capacity.delta_atto for capacity in capacities)
        epsilon = self._tight(Counter((entry.event_text, entry.loss) for entry in entries), delta_atto / ATTO)
        figures = [figure for figure in (guarantee, basic) if figure.delta_atto <= delta_atto]
        if isfinite(epsilon):
            figures.append(Loss(ceil(epsilon * NANO), delta_atto))
        tight = min(figures, key=lambda figure: (figure.epsilon_nano, figure.delta_atto), default=guarantee)
        return Spent(len(entries), guarantee, basic, tight)

    def _guarantee(self, block: BlockRecord, entries: Sequence[Entry]) -> Loss:
        """Lines compose as (epsilon, delta) does, whatever the accountant."""
        lines = {entry.request.line for entry in entries}
        parts = (guarantee_of(block.accountant, block.lines[line], _of_line(line, entries)) for line in lines)
        return sum(parts, NO_LOSS)


class _Stretches:
    """Entries by stretches of block numbers on which they are the same."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        starts: dict[int, list[Entry]] = {}
        ends: dict[int, list[Entry]] = {}
        for entry in entries:
            for blocks in entry.blocks.ranges:
                starts.setdefault(blocks.lo, []).append(entry)
                ends.setdefault(blocks.hi, []).append(entry)
        self._edges = sorted({*starts, *ends})
        self._entries: list[tuple[Entry, ...]] = []
        running: dict[int, Entry] = {}
        for edge in self._edges:
            for entry in ends.get(edge, ()):
                del running[entry.sequence]
            running.update((entry.sequence, entry) for entry in starts.get(edge, ()))
            self._entries.append(tuple(running.values()))

    def at(self, number: int) -> tuple[Entry, ...]:
        """The entries on a block."""
        place = bisect_right(self._edges, number)
        return self._entries[place - 1] if place else ()

    def all(self) -> Iterator[tuple[int, int, tuple[Entry, ...]]]:
        """Half-open stretches with their entries."""
        yield from zip(self._edges, self._edges[1:], self._entries, strict=False)


def guarantee_of(accountant: Accountant, capacity: Loss, entries: Iterable[Entry]) -> Loss:
    """Return the loss that the accountant of a line guarantees for `entries`."""
    charges = [entry.charge for entry in entries]
    if not charges:
        return NO_LOSS
    amounts = tuple(map(sum, zip(*(charge.amounts for charge in charges), strict=True)))
    return loss_of(accountant, capacity, amounts, sum(charge.delta_atto for charge in charges))


def _all_of(capacity: Loss, spent: Spent) -> Spent:
    return Spent(spent.releases, capacity, capacity, capacity)


def _of_line(line: str, entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(entry for entry in entries if entry.request.line == line)


def _by_party(entries: Iterable[Entry], party_of: Callable[[Entry], str]) -> dict[str, list[Entry]]:
    entries_of: dict[str, list[Entry]] = {}
    for entry in entries:
        entries_of.setdefault(party_of(entry), []).append(entry)
    return entries_of


def _greatest(losses: Iterable[Loss]) -> Loss:
    return reduce(_greater, losses, NO_LOSS)


def _greater(one: Loss, other: Loss) -> Loss:
    return Loss(max(one.epsilon_nano, other.epsilon_nano), max(one.delta_atto, other.delta_atto))
