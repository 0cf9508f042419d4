"""Allowances: how the room of each block is shared among the PTKs that wait (Sage SOSP'19, section 3.3).

A part of a block that is in no allowance is *free*. One rule: what is free is divided evenly among those who wait. So
a new block is divided among all of them, and what an accepted PTK leaves goes to the others. With many PTKs, such a
share may be less than the least loss of some. Those go without: a share that pays for nothing keeps others waiting.

Allowances are planning. They decide who proposes what; the ledger's filter decides what is granted, and knows nothing
of them. Proof that the two agree: docs/proofs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptklib.arrays import Bools, Ints
from ptkstore.domain.accounting.accountants import Charge
from ptkstore.domain.scheduling.block_rooms import BlockRoom
from ptkstore.domain.scheduling.model import ChargeOf, Proposal, Waiting
from ptkstore.domain.scheduling.shares import Share as Share
from ptkstore.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Holding:
    """The allowances of one PTK, or what is free for it: an entry for each block, those of one window side by side.

    `nano` and `atto` are what may be used, `n_groups` how many blocks of a window a training needs.
    """

    numbers: Ints
    windows: Ints
    coordinates: Ints
    nano: Ints
    atto: Ints
    n_groups: int = 1

    def covering(self, charge: Charge) -> Ints:
        """Return the windows on all of whose blocks the holding covers a charge; they rise."""
        due = np.asarray(charge.amounts, dtype=np.int64)[self.coordinates]
        covered: Bools = (self.nano >= due) & (self.atto >= charge.delta_atto)
        if self.n_groups == 1:
            return self.windows[covered]
        windows, counts = np.unique(self.windows[covered], return_counts=True)
        return np.asarray(windows[counts == self.n_groups])

    def due(self, windows: Sequence[int], charge: Charge) -> list[tuple[int, int]]:
        """Return the blocks of some windows, and what a charge takes of each."""
        at = np.flatnonzero(np.isin(self.windows, windows))
        units = np.asarray(charge.amounts, dtype=np.int64)[self.coordinates[at]]
        return list(zip(self.numbers[at].tolist(), units.tolist(), strict=True))

    def less(self, taken: Mapping[int, tuple[int, int]]) -> Holding:
        """Return the holding without what was taken of some blocks: units and deltas by number."""
        if not taken:
            return self
        numbers, gone = np.array(sorted(taken)), np.array([taken[number] for number in sorted(taken)])
        place = np.searchsorted(numbers, self.numbers).clip(max=len(numbers) - 1)
        hit = numbers[place] == self.numbers
        nano, atto = np.where(hit, gone[place].T, 0)
        return replace(self, nano=self.nano - nano, atto=self.atto - atto)

    def left_of(self, windows: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Return what each block of some windows has: units and deltas by number."""
        at = np.flatnonzero(np.isin(self.windows, windows))
        amounts = zip(self.nano[at].tolist(), self.atto[at].tolist(), strict=True)
        return dict(zip(self.numbers[at].tolist(), amounts, strict=True))

    def nth_largest(self, n: int) -> int:
        """Return the n-th largest amount that one block has, 0 if there are fewer blocks."""
        return int(np.partition(self.nano, -n)[-n]) if 0 < n <= len(self.nano) else 0


class Allowances:
    """The blocks of one line, what each has left, and how much of that each waiting PTK may use.

    Amounts are whole units, so nothing is lost or made by rounding: for each block, the allowances and what is free
    add up to what the block has left. No method draws, reads a clock or depends on the order of what it is given.
    """

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._groups: list[range] = []  # of each PTK
        self._turns: list[tuple[int, str]] = []
        self._least: list[Charge] = []
        self._facts = np.empty((4, 0), dtype=np.int64)  # number, window, coordinate, group
        self._free = np.empty((2, 0), dtype=np.int64)  # units, and deltas in the last row
        self._shares = np.empty((0, 2, 0), dtype=np.int64)
        self._wanted = np.empty((0, 0), dtype=bool)

    @classmethod
    def of(
        cls,
        blocks: Iterable[BlockRoom],
        waiting: Iterable[Waiting],
        shares: Iterable[Share],
        charge_of: ChargeOf,
    ) -> Allowances:
        """Return the allowances that a table of shares tells, beside what blocks have left by now.

        Shares of blocks or PTKs that are gone are dropped. A block that others charged may have less left than
        its shares add up to. They are cut in proportion then. `divide` has to be called for what is free.
        """
        made = cls()
        made.add_blocks(blocks)
        for one in sorted(waiting, key=lambda one: one.ptk_id):
            made.join(one, charge_of)
        places = {number: place for place, number in enumerate(made._facts[0].tolist())}
        rows = {ptk_id: row for row, ptk_id in enumerate(made._ids)}
        for share in shares:
            row, place = rows.get(share.ptk_id), places.get(share.block)
            if row is not None and place is not None and made._wanted[row, place]:
                made._shares[row, :, place] = (max(0, share.nano), max(0, share.delta_atto))
        made._cut()
        return made

    # what happens

    def add_blocks(self, blocks: Iterable[BlockRoom]) -> None:
        """Take in new blocks; `InvalidRequest` for one that is there, or has less than nothing left."""
        new = sorted(blocks, key=lambda block: (block.window, block.number))
        if not new:
            return
        if len({block.number for block in new}.difference(self._facts[0].tolist())) != len(new):
            raise InvalidRequest("a block has one room")
        if any(block.left_nano < 0 or block.left_atto < 0 for block in new):
            raise InvalidRequest("the rest of a block is never negative")
        facts = np.array([(b.number, b.window, b.coordinate, b.group) for b in new], dtype=np.int64).T
        free = np.array([(b.left_nano, b.left_atto) for b in new], dtype=np.int64).T
        wanted = np.array([_wants(groups, facts) for groups in self._groups], dtype=bool)
        at = np.searchsorted(self._facts[1], facts[1], side="right")
        self._facts = np.insert(self._facts, at, facts, axis=1)
        self._free = np.insert(self._free, at, free, axis=1)
        self._shares = np.insert(self._shares, at, 0, axis=2)
        self._wanted = np.insert(self._wanted, at, wanted.reshape(len(self._ids), len(new)), axis=1)

    def drop_blocks(self, numbers: Iterable[int]) -> None:
        """Forget blocks that are retired or expired, with all allowances of them; unknown ones are no fault."""
        kept = ~np.isin(self._facts[0], list(numbers))
        if kept.all():
            return
        self._facts, self._free = self._facts[:, kept], self._free[:, kept]
        self._shares, self._wanted = self._shares[:, :, kept], self._wanted[:, kept]

    def join(self, one: Waiting, charge_of: ChargeOf) -> None:
        """Let a PTK wait, without allowances so far; `InvalidRequest` if it waits already."""
        if one.ptk_id in self._ids:
            raise InvalidRequest(f"{one.ptk_id} waits already")
        self._ids.append(one.ptk_id)
        self._groups.append(one.groups)
        self._turns.append((one.arrived, one.ptk_id))
        self._least.append(charge_of(one.ptk_id, one.losses[0]))
        wanted = _wants(one.groups, self._facts)
        self._wanted = np.concatenate([self._wanted, wanted[None]])
        none = np.zeros((1, 2, self._facts.shape[1]), dtype=np.int64)
        self._shares = np.concatenate([self._shares, none])

    def leave(self, ptk_id: str) -> None:
        """Free all allowances of a PTK that waits no longer: accepted, rejected, withdrawn or timed out."""
        row = self._row(ptk_id)
        self._free += self._shares[row]
        self._shares = np.delete(self._shares, row, axis=0)
        self._wanted = np.delete(self._wanted, row, axis=0)
        del self._ids[row], self._groups[row], self._turns[row], self._least[row]

    def divide(self) -> None:
        """Divide what is free of each block evenly among those who wait for it, in whole units.

        Even shares may leave some PTKs below their least charge. Then as many share as can be brought up to theirs:
        first those who miss least of it, then by arrival. A remainder stays free until the next division.
        """
        sharers = self._wanted.sum(axis=0)
        at = np.flatnonzero((sharers > 0) & (self._free >= np.maximum(sharers, 1)).any(axis=0))
        if not len(at):
            return
        short = np.maximum(self._least_at(at) - self._shares[:, :, at], 0)
        taking = self._wanted[:, at]
        some = ((self._free[:, at] // sharers[at] < short) & taking[:, None]).any(axis=(0, 1))
        turns = np.empty(len(self._turns), dtype=np.int64)
        turns[sorted(range(len(self._turns)), key=self._turns.__getitem__)] = np.arange(len(self._turns))
        for place in np.flatnonzero(some).tolist():
            taking[:, place] = _served(taking[:, place], short[:, :, place], turns, self._free[:, at[place]])
        counts = np.maximum(taking.sum(axis=0), 1)
        each = self._free[:, at] // counts
        self._shares[:, :, at] += each * taking[:, None]
        self._free[:, at] -= each * taking.sum(axis=0)

    def _least_at(self, at: Ints) -> Ints:
        """The least charge of each PTK on some blocks: units and deltas."""
        if not self._least:
            return np.empty((0, 2, len(at)), dtype=np.int64)
        units = np.array([charge.amounts for charge in self._least], dtype=np.int64)[:, self._facts[2, at]]
        deltas = np.array([charge.delta_atto for charge in self._least], dtype=np.int64)
        return np.stack([units, np.broadcast_to(deltas[:, None], units.shape)], axis=1)

    def take(self, proposal: Proposal) -> None:
        """Charge a training to the allowances of its PTK.

        Raises
        ------
        InvalidRequest
            The allowances do not cover it, or a window is not there with all blocks that the PTK needs.
        """
        row, at = self._row(proposal.ptk_id), self._blocks_at(proposal)
        due = self._due(at, proposal.charge)
        if (self._shares[row][:, at] < due).any():
            raise InvalidRequest(f"the allowances of {proposal.ptk_id} do not cover what it asks for")
        self._shares[row][:, at] -= due

    def take_free(self, proposal: Proposal) -> None:
        """Charge a training to what is free; refused as `take` refuses."""
        at = self._blocks_at(proposal)
        due = self._due(at, proposal.charge)
        if (self._free[:, at] < due).any():
            raise InvalidRequest(f"the free budget does not cover {proposal.ptk_id}")
        self._free[:, at] -= due

    # what is read

    def __len__(self) -> int:
        """How many blocks there are."""
        return int(self._facts.shape[1])

    def of_ptk(self, ptk_id: str) -> Holding:
        """Return what a waiting PTK may use; `InvalidRequest` if it does not wait."""
        row = self._row(ptk_id)
        at = np.flatnonzero(self._wanted[row])
        return self._holding(at, self._shares[row], len(self._groups[row]))

    def free(self, one: Waiting) -> Holding:
        """Return what is free of the blocks that a PTK is trained on."""
        at = np.flatnonzero(_wants(one.groups, self._facts))
        return self._holding(at, self._free, len(one.groups))

    def left(self) -> dict[int, tuple[int, int]]:
        """Return what each block has left, held or free: units and deltas by number."""
        left = self._free + self._shares.sum(axis=0)
        return dict(zip(self._facts[0].tolist(), map(tuple, left.T.tolist()), strict=True))

    def below(self, charge: Charge) -> tuple[int, ...]:
        """Return the blocks that have less than a charge left."""
        left = self._free + self._shares.sum(axis=0)
        short = (left < self._due(np.arange(left.shape[1]), charge)).any(axis=0)
        return tuple(np.sort(self._facts[0, short]).tolist())

    def coordinates(self) -> dict[int, int]:
        """Return the coordinate at which each block is counted, by number."""
        return dict(zip(self._facts[0].tolist(), self._facts[2].tolist(), strict=True))

    def shares(self) -> Iterator[Share]:
        """Return the table of allowances: a row for each PTK and block with a share, by PTK and number."""
        numbers = self._facts[0]
        for row in sorted(range(len(self._ids)), key=self._ids.__getitem__):
            for place in sorted(np.flatnonzero(self._shares[row].any(axis=0)), key=numbers.__getitem__):
                nano, atto = self._shares[row, :, place].tolist()
                coordinate = int(self._facts[2, place])
                yield Share(self._ids[row], int(numbers[place]), nano, atto, coordinate)

    def _row(self, ptk_id: str) -> int:
        try:
            return self._ids.index(ptk_id)
        except ValueError:
            raise InvalidRequest(f"{ptk_id} does not wait") from None

    def _holding(self, at: Ints, amounts: Ints, n_groups: int) -> Holding:
        number, window, coordinate, _ = self._facts[:, at]
        nano, atto = amounts[:, at]
        return Holding(number, window, coordinate, nano, atto, n_groups)

    def _blocks_at(self, proposal: Proposal) -> Ints:
        row = self._row(proposal.ptk_id)
        at = np.flatnonzero(self._wanted[row] & np.isin(self._facts[1], proposal.windows))
        if len(at) != len(proposal.windows) * len(self._groups[row]):
            raise InvalidRequest(f"{proposal.ptk_id} asks for windows that are not there")
        return at

    def _due(self, at: Ints, charge: Charge) -> Ints:
        units = np.asarray(charge.amounts, dtype=np.int64)[self._facts[2, at]]
        return np.stack([units, np.full(len(at), charge.delta_atto, dtype=np.int64)])

    def _cut(self) -> None:
        """Count the free budget; cut shares that add up to more than that."""
        held = self._shares.sum(axis=0)
        for kind, place in np.argwhere(held > self._free).tolist():
            left, total = int(self._free[kind, place]), int(held[kind, place])
            cut = [share * left // total for share in self._shares[:, kind, place].tolist()]
            self._shares[:, kind, place] = cut
        self._free -= self._shares.sum(axis=0)


def _wants(groups: range, facts: Ints) -> Bools:
    """The blocks that a PTK of these groups is trained on."""
    return np.asarray((facts[3] >= groups.start) & (facts[3] < groups.stop))


def _served(wanted: Bools, short: Ints, turns: Ints, free: Ints) -> Bools:
    """The PTKs that share in one block so that nobody's share is of no use; as many as there can be."""
    rows = np.flatnonzero(wanted)
    rows = rows[np.lexsort((turns[rows], short[rows, 1], short[rows, 0]))]
    each = free // np.arange(1, len(rows) + 1)[:, None]  # deltas times many PTKs may pass 64 bits
    enough = np.maximum.accumulate(short[rows], axis=0) <= each
    served = np.zeros(len(wanted), dtype=bool)
    served[rows[: int(enough.all(axis=1).sum())]] = True
    return served
