"""The filters of a stream's blocks: a projection of the journal in memory, which the journal can always rebuild."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Self

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Bools, Ints
from ptkstore.domain.accounting.accountants import Accountant, Caps, Charge, caps_of, loss_of
from ptkstore.domain.accounting.losses import ATTO, NO_LOSS, Loss
from ptkstore.domain.ledger.block_ledgers import BlockLedger, BlockRecord
from ptkstore.domain.ledger.journal import GENESIS, BudgetRequest, ChainLine, Entry, EntryKind, PolicyEntry
from ptkstore.domain.streams.blocks import BlockRange, BlockSet, BlockState
from ptkstore.errors import InvalidRequest, InvariantBroken

_STATES = tuple(BlockState)
_ACTIVE = _STATES.index(BlockState.ACTIVE)
_PLACES_KEPT = 1_024
_TOGETHER = 2**20  # amounts are at most 2**40
_Where = slice | Ints
"""Columns of blocks: neighbours, or one by one."""
_Losses = dict[tuple[Loss, bytes, bytes], tuple[Loss, Loss, Loss]]
"""What is reserved, spent and both of a line, by its capacity and its sums."""


class Filters:
    """The filters of all blocks of one stream after the journal entry `sequence`, whose digest is `digest`.

    Adding up costs a few numpy operations over the blocks of a request, whatever the length of the journal.
    """

    def __init__(self) -> None:
        self.sequence = 0
        self.digest = GENESIS
        self.policy_text: str | None = None
        """The policy that the journal holds; None for a stream that has none there."""
        self._held: dict[str, BudgetRequest] = {}
        self._accountant = Accountant.BASIC
        self._lines: dict[str, _Line] = {}
        self._numbers = np.empty(0, dtype=np.int64)
        self._order: list[int] = []  # the same numbers: bisection of a list is quicker
        self._states = np.empty(0, dtype=np.int8)
        self._places: dict[tuple[int, ...], Ints] = {}

    @classmethod
    def of(cls, blocks: Iterable[BlockRecord], entries: Iterable[ChainLine] = ()) -> Self:
        """Return the filters of `blocks` after `entries`, in journal order."""
        filters = cls()
        filters.put(tuple(blocks))
        filters.apply(*entries)
        return filters

    def copy(self) -> Self:
        """Return an independent copy."""
        return deepcopy(self)

    # blocks

    def put(self, blocks: Sequence[BlockRecord]) -> None:
        """Create blocks, or take over the state of blocks that exist."""
        if not blocks:
            return
        index_of = {number: index for index, number in enumerate(self._order)}
        for block in blocks:
            if block.number in index_of:
                self._states[index_of[block.number]] = _STATES.index(block.state)
        new = sorted((b for b in blocks if b.number not in index_of), key=lambda block: block.number)
        if not new:
            return
        if not index_of:
            self._accountant = new[0].accountant
        if any(block.accountant is not self._accountant for block in new):
            raise InvariantBroken("the blocks of a stream have one accountant")
        self._places.clear()
        at = np.searchsorted(self._numbers, [block.number for block in new])
        self._numbers = np.insert(self._numbers, at, [block.number for block in new])
        self._order = self._numbers.tolist()
        self._states = np.insert(self._states, at, [_STATES.index(block.state) for block in new])
        for name in {name for block in new for name in block.lines}.difference(self._lines):
            self._lines[name] = _Line(self._accountant, len(index_of))
        for name, line in self._lines.items():
            line.insert(at, [block.lines.get(name) for block in new])

    # decisions

    def exhausted(self, request: BudgetRequest) -> tuple[int, ...]:
        """Return the blocks of the request that have no room for it; `InvalidRequest` if one does not exist."""
        where = self._where(request.blocks)
        active = self._states[where] == _ACTIVE
        if len(active) != len(request.blocks):
            raise InvalidRequest(f"{request.key!r} asks for blocks of {request.stream!r} that do not exist")
        line = self._line(request)
        charge = _column(line, request.charge)
        if active.all() and line.surely_fit(where, charge):
            return ()
        fits = line.fits(where, charge) & active
        return () if fits.all() else tuple(self._numbers[where][~fits].tolist())

    def surely_fit(self, requests: Sequence[BudgetRequest]) -> bool:
        """Return whether all requests fit beside each other, by a quick test: each block pays for all of them.

        If it says no, `exhausted` says of one request after the other whether it fits.
        """
        # No block may lose a delta of 1, and sums of 64 bits hold so much.
        if len(requests) > _TOGETHER or sum(one.charge.delta_atto for one in requests) > ATTO:
            return False
        sums = self._sums(requests)
        totals: dict[str, Ints] = {}
        for (name, _), column in sums.items():
            totals[name] = totals[name] + column if name in totals else column
        return all(self._surely_fit(blocks, self._lines[name], totals[name]) for name, blocks in sums)

    def used_up(self, blocks: BlockSet, least: Charge) -> tuple[int, ...]:
        """Return the active blocks on none of whose lines the spends of `blocks` leave room for `least`."""
        where = self._where(blocks)
        useful = np.zeros(len(self._numbers[where]), dtype=bool)
        for line in self._lines.values():
            useful |= line.fits(where, _column(line, least), spent=True)
        gone = ~useful & (self._states[where] == _ACTIVE)
        return tuple(self._numbers[where][gone].tolist())

    def left(self, line: str, numbers: Iterable[int]) -> dict[int, Caps]:
        """Return what a line of each of these blocks has left beside all that is committed, of those that are active.

        A coordinate without any remaining room, or without a cap, is below 1.
        """
        places = {number: place for place, number in enumerate(self._order)}
        left = self._lines[line].left if line in self._lines else None
        found: dict[int, Caps] = {}
        for number in numbers:
            place = places.get(number)
            if left is not None and place is not None and self._states[place] == _ACTIVE:
                *amounts, delta = left[:, place].tolist()
                found[number] = Caps(tuple(amounts), delta)
        return found

    def promise(self, *requests: BudgetRequest) -> None:
        """Add requests to what is committed, on those of their blocks that exist."""
        for (name, blocks), column in self._sums(requests).items():
            self._lines[name].left[:, self._where(blocks)] -= column

    def take_back(self, *requests: BudgetRequest) -> None:
        """Undo `promise`."""
        for (name, blocks), column in self._sums(requests).items():
            self._lines[name].left[:, self._where(blocks)] += column

    # the journal

    def apply(self, *lines: ChainLine) -> None:
        """Take in the next lines; after an error the filters are of no use if there were several.

        Raises
        ------
        InvariantBroken
            A line ends no reservation like it, reserves under a held key, or is a second policy.
        """
        of_kind: dict[EntryKind, list[BudgetRequest]] = {kind: [] for kind in EntryKind}
        for line in lines:
            if isinstance(line, PolicyEntry):
                if self.policy_text is not None:
                    raise InvariantBroken(f"journal line {line.stream}/{line.sequence} is a second policy")
                self.policy_text = line.policy_text
            else:
                self._hold_or_end(line)
                of_kind[line.kind].append(line.request)
            self.sequence, self.digest = line.sequence, line.digest
        self.promise(*of_kind[EntryKind.RESERVE])
        self.take_back(*of_kind[EntryKind.RELEASE])
        for (name, blocks), column in self._sums(of_kind[EntryKind.SPEND]).items():
            self._lines[name].spent[:, self._where(blocks)] += column

    def _hold_or_end(self, entry: Entry) -> None:
        if entry.kind is EntryKind.RESERVE:
            if entry.key in self._held:
                raise InvariantBroken(
                    f"journal entry {entry.stream}/{entry.sequence} reserves under a held key"
                )
            self._held[entry.key] = entry.request
        elif self._held.pop(entry.key, None) != entry.request:
            raise InvariantBroken(
                f"journal entry {entry.stream}/{entry.sequence} ends no reservation like it"
            )

    def revert(self, entries: Sequence[Entry], sequence: int, digest: str) -> None:
        """Undo `apply` of the last entries; `sequence` and `digest` are those of the entry before them.

        The sums are whole numbers, so that undoing leaves no trace.
        """
        for entry in reversed(entries):
            match entry.kind:
                case EntryKind.RESERVE:
                    self.take_back(entry.request)
                case EntryKind.RELEASE:
                    self.promise(entry.request)
                case EntryKind.SPEND:
                    line = self._line(entry.request)
                    line.spent[:, self._where(entry.blocks)] -= _column(line, entry.charge)
            if entry.kind is EntryKind.RESERVE:
                del self._held[entry.key]
            else:
                self._held[entry.key] = entry.request
        self.sequence, self.digest = sequence, digest

    def over(self) -> tuple[int, ...]:
        """Return blocks with a line whose committed charges are beyond its caps at every coordinate."""
        everywhere = slice(0, len(self._numbers))
        fine = np.ones(len(self._numbers), dtype=bool)
        for line in self._lines.values():
            fine &= line.fits(everywhere, np.zeros((line.height, 1), dtype=np.int64))
        return tuple(self._numbers[~fine].tolist())

    def views(self, blocks: BlockRange | None = None, limit: int | None = None) -> tuple[BlockLedger, ...]:
        """Return what can be read of each block, of the first `limit` of them, by number, and of each line, by name."""
        where = slice(0, len(self._numbers)) if blocks is None else self._slice(blocks.lo, blocks.hi)
        if limit is not None:
            where = slice(where.start, min(where.stop, where.start + limit))
        known: _Losses = {}
        return tuple(
            line.view(index, int(self._numbers[index]), name, _STATES[self._states[index]], known)
            for index in range(where.start, where.stop)
            for name, line in sorted(self._lines.items())
            if line.capacities[index] is not None
        )

    def _sums(self, requests: Iterable[BudgetRequest]) -> dict[tuple[str, BlockSet], Ints]:
        """The charges of requests, added up where they are for the same line of the same blocks."""
        sums: dict[tuple[str, BlockSet], Ints] = {}
        for request in requests:
            column = _column(self._line(request), request.charge)
            place = request.line, request.blocks
            sums[place] = sums[place] + column if place in sums else column
        return sums

    def _surely_fit(self, blocks: BlockSet, line: _Line, charge: Ints) -> bool:
        """Whether the blocks exist and are active, and `_Line.surely_fit` finds room in all."""
        where = self._where(blocks)
        active = self._states[where] == _ACTIVE
        return len(active) == len(blocks) and bool(active.all()) and line.surely_fit(where, charge)

    def _slice(self, lo: int, hi: int) -> slice:
        return slice(bisect_left(self._order, lo), bisect_left(self._order, hi))

    def _where(self, blocks: BlockSet) -> _Where:
        """The columns of blocks; several ranges are asked for again and again, and are looked up once."""
        if len(blocks.edges) == 2:
            return self._slice(*blocks.edges)
        where = self._places.get(blocks.edges)
        if where is None:
            ends = np.searchsorted(self._numbers, blocks.edges).reshape(-1, 2)
            where = np.concatenate([np.arange(start, end) for start, end in ends])
            if len(self._places) == _PLACES_KEPT:
                self._places.clear()
            self._places[blocks.edges] = where
        return where

    def _line(self, request: BudgetRequest) -> _Line:
        try:
            return self._lines[request.line]
        except KeyError:
            raise InvalidRequest(f"the blocks of {request.stream!r} have no line {request.line!r}") from None


class _Line:
    """Caps and sums of one line: one column per block, one row per coordinate, the deltas in the last row.

    `left` is the caps less what is committed, so that a decision is one comparison; a dead coordinate's is negative.
    """

    def __init__(self, accountant: Accountant, blocks: int) -> None:
        self.accountant = accountant
        self.height = len(accountant.coordinates) + 1
        self.caps: Ints = np.full((self.height, blocks), -1, dtype=np.int64)
        self.left: Ints = self.caps.copy()
        self.spent: Ints = np.zeros((self.height, blocks), dtype=np.int64)
        self.capacities: list[Loss | None] = [None] * blocks
        self._first = 0

    def insert(self, at: npt.NDArray[np.intp], capacities: Sequence[Loss | None]) -> None:
        columns = np.array([self._caps(capacity) for capacity in capacities], dtype=np.int64).T
        self.caps = np.insert(self.caps, at, columns, axis=1)
        self.left = np.insert(self.left, at, columns, axis=1)
        self.spent = np.insert(self.spent, at, 0, axis=1)
        for shift, (place, capacity) in enumerate(zip(at.tolist(), capacities, strict=True)):
            self.capacities.insert(place + shift, capacity)

    def surely_fit(self, where: _Where, charge: Ints) -> bool:
        """Return whether one coordinate and the deltas have room in all blocks: two rows of all, the usual case."""
        return all((charge[row, 0] <= self.left[row, where]).all() for row in (self._first, -1))

    def fits(self, where: _Where, charge: Ints, *, spent: bool = False) -> Bools:
        """Whether some coordinate, and the deltas, have room beside what is committed (or only spent)."""
        if spent:
            room = self.spent[:, where] + charge <= self.caps[:, where]
        else:
            room = charge <= self.left[:, where]
            # A later charge likely has room at the same coordinate, if at any in all blocks.
            self._first = int(room[:-1].all(axis=1).argmax())
        return np.asarray(room[:-1].any(axis=0) & room[-1])

    def view(self, index: int, number: int, name: str, state: BlockState, known: _Losses) -> BlockLedger:
        """Return what can be read of a block; blocks of equal sums have equal losses, which are computed once."""
        capacity = self.capacities[index] or NO_LOSS
        left, spent = self.left[:, index], self.spent[:, index]
        sums = capacity, left.tobytes(), spent.tobytes()
        if sums not in known:
            committed = self.caps[:, index] - left
            known[sums] = (
                self._loss(capacity, committed - spent),
                self._loss(capacity, spent),
                self._loss(capacity, committed),
            )
        reserved, lost, all_of_it = known[sums]
        return BlockLedger(number, capacity, state, reserved, lost, name, all_of_it)

    def _caps(self, capacity: Loss | None) -> tuple[int, ...]:
        if capacity is None:
            return (-1,) * self.height
        caps = caps_of(self.accountant, capacity)
        return (*caps.amounts, caps.delta_atto)

    def _loss(self, capacity: Loss, sums: Ints) -> Loss:
        *amounts, delta = sums.tolist()
        return loss_of(self.accountant, capacity, amounts, delta)


def _column(line: _Line, charge: Charge) -> Ints:
    if len(charge.amounts) != line.height - 1:
        raise InvalidRequest(f"a charge under {line.accountant.value!r} has {line.height - 1} amounts")
    return _as_column(charge)


@lru_cache(maxsize=4096)
def _as_column(charge: Charge) -> Ints:
    column = np.array([*charge.amounts, charge.delta_atto], dtype=np.int64)[:, None]
    column.flags.writeable = False
    return column
