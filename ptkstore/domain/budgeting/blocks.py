"""The unspent budget of a block, in public numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ptkstore.errors import InvalidRequest, Refused


class Unaffordable(Refused):
    """A block has less left than a query costs there."""

    code = "unaffordable"

    def __init__(self, number: int) -> None:
        super().__init__(f"block {number} has less left than this costs")
        self.number = number


@dataclass(frozen=True, slots=True)
class BudgetedBlock:
    """A block that queries compete for.

    Parameters
    ----------
    number : int
        Names the block.
    capacity_nano, left_nano : int
        In whole units of one coordinate of the accountant.
    threshold_paid : bool
        Whether there is a noisy threshold that was paid for and has not answered "above". Its noise is a secret that is
        kept elsewhere (`ptklib.mechanisms.DrawnThreshold`).
    retired : bool
        A retired block answers nothing. Its secret is to be destroyed.
    """

    number: int
    capacity_nano: int
    left_nano: int
    threshold_paid: bool = False
    retired: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.left_nano <= self.capacity_nano or self.capacity_nano == 0:
            raise InvalidRequest("a block has between nothing and its capacity left")
        if self.retired and self.threshold_paid:
            raise InvalidRequest("a retired block has no noisy threshold")

    @property
    def consumed(self) -> float:
        """z: the share of the capacity that was charged."""
        return 1 - self.left_nano / self.capacity_nano

    def less(self, nano: int) -> BudgetedBlock:
        """Return the block after a charge.

        Raises
        ------
        Unaffordable
            It has less left.
        """
        if nano > self.left_nano:
            raise Unaffordable(self.number)
        return replace(self, left_nano=self.left_nano - nano)

    def retired_below(self, least_nano: int) -> BudgetedBlock:
        """Return the block, retired if it has less left than the least that any query costs."""
        if self.retired or self.left_nano >= least_nano:
            return self
        return replace(self, retired=True, threshold_paid=False)


@dataclass(frozen=True, slots=True)
class Query:
    """A PTK that asks for blocks, in public numbers.

    Parameters
    ----------
    ptk_id : str
        Names the PTK.
    cost_nano : int
        epsilon_j: the loss of its training on one block.
    most_blocks : int
        c_j: how many blocks it may have.
    epsilon_nano : int or None
        epsilon_j itself, where the accountant counts the cost in other units; `cost_nano` by default.
    """

    ptk_id: str
    cost_nano: int
    most_blocks: int
    epsilon_nano: int | None = None

    def __post_init__(self) -> None:
        if self.cost_nano <= 0 or self.most_blocks < 1 or (self.epsilon_nano or 1) <= 0:
            raise InvalidRequest("a query costs something and asks for at least one block")

    @property
    def loss_nano(self) -> int:
        """epsilon_j, which significance is compared with."""
        return self.cost_nano if self.epsilon_nano is None else self.epsilon_nano
