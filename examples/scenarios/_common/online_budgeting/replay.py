"""Simulation only: queries arrive and ask blocks in random order, under a policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

from ptklib.arrays import Floats
from ptkstore.domain.budgeting.blocks import BudgetedBlock, Query
from ptkstore.domain.budgeting.looks import PUBLIC, Looks


@dataclass(frozen=True, slots=True)
class Grant:
    """A block that serves a query, and the loss that the training may have there."""

    block: int
    nano: int


@dataclass(frozen=True, slots=True)
class Asking:
    """A query with its exact significance on each block, by the number of the block.

    `is_public` if the significance is declared, and may be compared without noise.
    """

    query: Query
    significance: Floats
    is_public: bool = False


class Policy(Protocol):
    """Decides which blocks serve a query, and charges them."""

    blocks: dict[int, BudgetedBlock]

    def ask(self, asking: Asking, candidates: Sequence[int], most: int) -> tuple[list[Grant], int]:
        """Ask blocks in turn until `most` serve the query. Return grants and how many blocks were asked."""
        ...


@dataclass(slots=True)
class Served:
    """What a query got, and whether its model was accepted."""

    grants: list[Grant] = field(default_factory=list)
    accepted: bool = False


Accepted = Callable[[int, Sequence[Grant]], bool]
"""Trains the query of a number on its blocks, and says whether the model passes."""


def replay(
    askings: Iterable[Asking],
    policy: Policy,
    *,
    seed: int,
    accepted: Accepted | None = None,
    looks: Looks = PUBLIC,
    least_nano: int = 1,
) -> list[Served]:
    """Serve queries one after the other.

    Parameters
    ----------
    accepted : callable, optional
        Called after each block that a query is given; True ends the query. Without it, each query gets as many blocks
        as it may have.
    looks : Looks
        What the validation data of each query has left. A query that cannot pay for a look asks for no block.
    least_nano : int
        Blocks with less left retire.
    """
    found: list[Served] = []
    for number, asking in enumerate(askings):
        served, left = Served(), looks
        for block in policy.blocks:
            policy.blocks[block] = policy.blocks[block].retired_below(least_nano)
        candidates = _in_random_order(policy.blocks, f"{seed}/{number}")
        while candidates and len(served.grants) < asking.query.most_blocks:
            if accepted is not None and not left.affordable:
                break
            most = asking.query.most_blocks - len(served.grants) if accepted is None else 1
            grants, asked = policy.ask(asking, candidates, most)
            served.grants += grants
            candidates = candidates[asked:]
            if grants and accepted is not None:
                left = left.after_one()
                served.accepted = accepted(number, served.grants)
                if served.accepted:
                    break
        found.append(served)
    return found


def _in_random_order(blocks: Iterable[int], name: str) -> list[int]:
    """Blocks in an order that follows from the hash of a public name. It is no noise and protects nobody."""
    return sorted(blocks, key=lambda block: sha256(f"{name}/{block}".encode()).digest())


def warm(numbers: Iterable[int], capacity_nano: int, consumed: float) -> dict[int, BudgetedBlock]:
    """Return blocks of which earlier queries have consumed a share."""
    left = capacity_nano - math.ceil(consumed * capacity_nano)
    return {number: BudgetedBlock(number, capacity_nano, left) for number in numbers}
