"""A block as it was created, and what a line of it may lose and has lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.losses import NO_LOSS, Loss, LossShares
from ptkstore.domain.accounting.sharing import COMMON
from ptkstore.domain.streams.blocks import BlockState
from ptkstore.domain.streams.policies import Policy


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """A block as it was created: what each line may lose, under which accountant; and its state since."""

    number: int
    lines: Mapping[str, Loss]
    accountant: Accountant = Accountant.BASIC
    state: BlockState = BlockState.ACTIVE


@dataclass(frozen=True, slots=True)
class BlockLedger:
    """The capacity of one line of one block and its promised or spent losses.

    `reserved` and `spent` are losses that are valid for what the accountant added up. Under basic composition they are
    its sums, otherwise the epsilon that the sums imply at the capacity's delta. `shares` are those of `spent`; None
    where they were not read.
    """

    number: int
    capacity: Loss
    state: BlockState
    reserved: Loss = NO_LOSS
    spent: Loss = NO_LOSS
    line: str = COMMON
    committed: Loss = NO_LOSS
    shares: LossShares | None = None

    @property
    def left(self) -> Loss:
        """The loss that the line still allows, read off the committed loss."""
        epsilon = self.capacity.epsilon_nano - self.committed.epsilon_nano
        delta = self.capacity.delta_atto - self.committed.delta_atto
        return Loss(max(0, epsilon), max(0, delta))


def not_as_promised(blocks: Iterable[BlockRecord], policy: Policy) -> list[int]:
    """Return the blocks that have another accountant or other capacities than follow from the policy."""
    lines = policy.lines
    return [b.number for b in blocks if b.accountant is not policy.accountant or b.lines != lines]
