"""The request to the allocator and its answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from ptkstore.domain.accounting.losses import Loss
from ptkstore.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to train a PTK to its target: this loss, on this expected number of rows.

    `amount` is what the choice takes of the scalar capacity where that is not epsilon, for example its Rényi loss at
    the order the caller plans with.
    """

    loss: Loss
    n_rows: int
    amount: int | None = None

    @property
    def cost(self) -> int:
        """The whole number that partitions add up."""
        return self.loss.epsilon_nano if self.amount is None else self.amount


@dataclass(frozen=True, slots=True)
class Demand:
    """The ways in which one PTK can be trained; at least one. `partition` pins it to one train partition."""

    ptk_id: str
    menu: tuple[Choice, ...]
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Allotment:
    """The allotment of one PTK: a loss and an expected number of rows in one train partition."""

    ptk_id: str
    loss: Loss
    n_rows: int
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a window: a capacity in each of at most `partitions` partitions, and rows for all of them.

    `amount` is the capacity in the unit of `Choice.amount`, where that is not epsilon. `partition_rows` are the rows
    that one partition can expect, where partitions are shares of a window that were fixed before.
    """

    capacity: Loss
    n_max: int
    partitions: int = 1
    amount: int | None = None
    partition_rows: int | None = None

    @property
    def cost(self) -> int:
        """The most that the costs in one partition may add up to."""
        return self.capacity.epsilon_nano if self.amount is None else self.amount

    @property
    def most_rows(self) -> int:
        """The most rows that one PTK may get."""
        return self.n_max if self.partition_rows is None else min(self.n_max, self.partition_rows)


class Reason(StrEnum):
    """The resource that is too small."""

    EPSILON = "epsilon"
    DELTA = "delta"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No plan fits.

    `needed` is the least total of the cheapest choices, to be compared with `partitions` times `capacity`. If no
    number of rows up to `n_max` is enough, `reason` is `ROWS` and `rows_needed` a number that no plan can go below.
    `ptk_ids` are those that would not even fit alone. `proven` is false if a plan was not found but may exist.
    """

    needed: Loss
    capacity: Loss
    reason: Reason = Reason.EPSILON
    ptk_ids: tuple[str, ...] = ()
    rows_needed: int | None = None
    n_max: int | None = field(default=None, compare=False)
    partitions: int = field(default=1, compare=False)
    partition_rows: int | None = field(default=None, compare=False)
    proven: bool = True

    def __str__(self) -> str:
        who = f" {', '.join(self.ptk_ids)} would not fit alone." if self.ptk_ids else ""
        if self.reason is Reason.ROWS:
            least = "" if self.rows_needed is None else f"at least {self.rows_needed} rows are needed, "
            bound = f"{self.n_max} is the planning bound"
            if self.partition_rows is not None:
                bound += f" and {self.partition_rows} are expected in a partition"
            return f"rows: {least}{bound}.{who}"
        parts = "" if self.partitions == 1 else f" in each of {self.partitions} partitions"
        return f"{self.reason.value}: the cheapest choices need {self.needed}, there is {self.capacity}{parts}.{who}"


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """Allotments in the order of the demands, and how good they are.

    `caps` are the rows opened in each partition, the largest n in it, zero for one that is not used. `bound` is a
    number of rows that no plan can go below.
    """

    allotments: tuple[Allotment, ...]
    caps: tuple[int, ...]
    bound: int

    @property
    def total_rows(self) -> int:
        """The rows that all partitions together open: what is minimised."""
        return sum(self.caps)

    @property
    def is_optimal(self) -> bool:
        """Whether this is known to be the best plan."""
        return self.bound == self.total_rows

    @property
    def partitions_used(self) -> int:
        """K: how many partitions hold a PTK."""
        return sum(cap > 0 for cap in self.caps)


def pruned(menu: Iterable[Choice]) -> tuple[Choice, ...]:
    """Return the choices that no other one beats in cost, delta and rows; fewest rows first."""
    kept: list[Choice] = []
    for choice in sorted(menu, key=lambda c: (c.n_rows, c.cost, c.loss.delta_atto)):
        if choice.n_rows < 1 or choice.cost < 0:
            raise InvalidRequest("a choice needs at least one row and a cost that is not negative")
        if not any(k.cost <= choice.cost and k.loss.delta_atto <= choice.loss.delta_atto for k in kept):
            kept.append(choice)
    return tuple(kept)
