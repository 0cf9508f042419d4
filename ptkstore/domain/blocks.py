"""Blocks: the partitions of a window, numbered so that contiguous partitions are one range."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from ptkstore.domain.streams import Policy
from ptkstore.domain.windows import WindowId
from ptkstore.errors import InvalidRequest

STRIDE = 128  # block numbers kept for one window; more than any policy can use
PROFILE = 0
TEST = 1
FIRST_TRAIN = 2
HASH_RANGE = 2**64


class BlockState(StrEnum):
    """An active block may be charged; a retired one never again; an erased one has no rows left."""

    ACTIVE = "active"
    RETIRED = "retired"
    ERASED = "erased"


@dataclass(frozen=True, slots=True, order=True)
class BlockRange:
    """Blocks `lo` to `hi - 1` of one stream."""

    lo: int
    hi: int

    def __post_init__(self) -> None:
        if not 0 <= self.lo < self.hi:
            raise InvalidRequest(f"a block range needs 0 <= lo < hi, not [{self.lo}, {self.hi})")

    def numbers(self) -> range:
        """The block numbers of the range."""
        return range(self.lo, self.hi)


def block_number(window: WindowId, part: int) -> int:
    """The number of a part of a window within its stream."""
    if not 0 <= part < STRIDE:
        raise InvalidRequest(f"there is no part {part}")
    return window.index * STRIDE + part


def blocks_of(window: WindowId, policy: Policy) -> BlockRange:
    """All blocks of a window: profile set, test set and the train partitions. They exist whatever the rows are."""
    return BlockRange(block_number(window, 0), block_number(window, 0) + parts_of(policy))


def train_block(window: WindowId, partition: int) -> BlockRange:
    """The block of one train partition."""
    number = block_number(window, FIRST_TRAIN + partition)
    return BlockRange(number, number + 1)


def parts_of(policy: Policy) -> int:
    """How many parts a window of this policy has."""
    return FIRST_TRAIN + policy.train_partitions


def part_bounds(policy: Policy) -> tuple[int, ...]:
    """Upper bounds, exclusive, of each part's share of the keyed hash's range [0, 2**64) (PAPERS P7).

    A privacy unit belongs to the first part whose bound lies above its hash: so exactly one part changes when one
    unit is added or removed.
    """
    profile = int(policy.profile_share * HASH_RANGE)
    test = profile + int(policy.test_share * HASH_RANGE)
    rest = HASH_RANGE - test
    train = [test + rest * (k + 1) // policy.train_partitions for k in range(policy.train_partitions)]
    return (profile, test, *train)


def share_of(policy: Policy, part: int) -> Decimal:
    """The public share of a window's privacy units that a part holds in expectation."""
    bounds = (0, *part_bounds(policy))
    return Decimal(bounds[part + 1] - bounds[part]) / HASH_RANGE
