"""Blocks: the parts of a window, or of the users of a stream, numbered so that what a window is charged is one range.

A window has a part for profiling, one for tests and K to train on. A part has a group for each value of the public
attribute, or a single one without an attribute. Number = window * stride + part * groups + group.

Under the privacy unit `user` a block belongs to no window. It is a shard of the users of a part, for the stream's life,
and each training on any window charges it again. Number = part * shards + shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from itertools import chain, pairwise
from typing import Any

from ptkstore.domain.streams.policies import Policy, PrivacyUnit
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import InvalidRequest

STRIDE_MIN = 128  # block numbers kept for one window, at least
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
        """Return the block numbers of the range."""
        return range(self.lo, self.hi)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers())


@dataclass(frozen=True, slots=True, order=True)
class BlockSet:
    """Blocks of one stream that are charged together, as ranges that rise and leave gaps: one for each window.

    Attributes
    ----------
    edges : tuple of int
        The ranges one after the other, as lo, hi, lo, hi, ...; each number is greater than the one before.
    """

    edges: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.edges or len(self.edges) % 2 or self.edges[0] < 0:
            raise InvalidRequest("a set of blocks needs at least one range of block numbers from 0 on")
        if any(one >= other for one, other in pairwise(self.edges)):
            raise InvalidRequest("the ranges of a set of blocks rise and leave gaps")

    @classmethod
    def of(cls, *ranges: BlockRange) -> BlockSet:
        """Return the blocks of all these ranges."""
        edges: list[int] = []
        for one in sorted(ranges):
            if edges and one.lo <= edges[-1]:
                edges[-1] = max(edges[-1], one.hi)
            else:
                edges += (one.lo, one.hi)
        return cls(tuple(edges))

    @property
    def ranges(self) -> tuple[BlockRange, ...]:
        """The ranges, in order."""
        return tuple(map(BlockRange, self.edges[::2], self.edges[1::2]))

    @property
    def first(self) -> BlockRange:
        """The range with the lowest numbers."""
        return BlockRange(*self.edges[:2])

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(map(range, self.edges[::2], self.edges[1::2]))

    def __len__(self) -> int:
        return sum(self.edges[1::2]) - sum(self.edges[::2])


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """The meaning of a block number: a part of a window or of all users, with its group or its shard."""

    window: int | None
    part: int
    group: int = 0
    shard: int = 0


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows behind blocks: those files of a window's part, and in them the keyed hashes in [`low`, `high`)."""

    part: int
    files: tuple[int, ...]
    low: int
    high: int

    def split(self, n: int) -> tuple[Rows, ...]:
        """Return `n` ranges of hashes that follow each other; all rows of a privacy unit are in one of them."""
        edges = [self.low + (self.high - self.low) * i // n for i in range(n + 1)]
        return tuple(replace(self, low=low, high=high) for low, high in pairwise(edges))


# numbers


def parts_of(policy: Policy) -> int:
    """Return how many parts a window of this policy has."""
    return FIRST_TRAIN + policy.train_partitions


def part_name(part: int) -> str:
    """Return what a part of a window is called: `profile`, `test`, `train-0`, `train-1`, ..."""
    return {PROFILE: "profile", TEST: "test"}.get(part, f"train-{part - FIRST_TRAIN}")


def groups_of(policy: Policy) -> int:
    """Return how many groups a part has: values of the attribute, or one."""
    return max(1, len(policy.attribute_values))


def stride_of(policy: Policy) -> int:
    """Block numbers kept for one window: a power of two that is enough for all."""
    return max(STRIDE_MIN, 1 << (parts_of(policy) * groups_of(policy) - 1).bit_length())


def files_of(policy: Policy) -> int:
    """Return how many files a prepared window has: one for each group of each part."""
    return parts_of(policy) * groups_of(policy)


def blocks_of(window: WindowId, policy: Policy) -> BlockRange:
    """Return all blocks that hold rows of a window. They exist whatever the rows are."""
    if policy.privacy_unit is PrivacyUnit.USER:
        return BlockRange(0, parts_of(policy) * policy.user_shards)
    first = window.index * stride_of(policy)
    return BlockRange(first, first + files_of(policy))


def created_with(window: WindowId, policy: Policy) -> BlockRange | None:
    """Return the blocks that come into being when a window closes; shards of users do so once, devices have none."""
    if policy.on_devices:
        return None
    if policy.privacy_unit is PrivacyUnit.USER and window.index > 0:
        return None
    return blocks_of(window, policy)


def blocks_below(window: int, policy: Policy) -> BlockRange | None:
    """Return all blocks that rows of windows below `window` may be in; shards of users have rows of every window."""
    if window < 1 or policy.on_devices:
        return None
    if policy.privacy_unit is PrivacyUnit.USER:
        return BlockRange(0, parts_of(policy) * policy.user_shards)
    return BlockRange(0, window * stride_of(policy))


def erased_with(window: WindowId, policy: Policy) -> BlockRange | None:
    """Return the blocks that have no rows left once a window has expired; shards of users live on."""
    return None if policy.privacy_unit is PrivacyUnit.USER else blocks_of(window, policy)


def place_of(number: int, policy: Policy) -> BlockPlace:
    """Return the meaning of a block number in a stream of this policy; `InvalidRequest` if it has none."""
    if policy.privacy_unit is PrivacyUnit.USER:
        part, shard = divmod(number, policy.user_shards)
        block = BlockPlace(None, part, shard=shard)
    else:
        window, place = divmod(number, stride_of(policy))
        part, group = divmod(place, groups_of(policy))
        block = BlockPlace(window, part, group=group)
    if number < 0 or part >= parts_of(policy):
        raise InvalidRequest(f"there is no block {number}")
    return block


def groups_where(policy: Policy, where: Mapping[str, Any] | None) -> range:
    """Return the groups that a PTK's `where` asks for; all of them without one.

    Raises
    ------
    InvalidRequest
        The column is not the one that the stream's blocks are by, a value is outside its domain, or values do not
        follow each other in it. A training charges one range of blocks.
    """
    if not where:
        return range(groups_of(policy))
    if policy.attribute is None or set(where) != {policy.attribute}:
        has = (
            "has no blocks by an attribute"
            if policy.attribute is None
            else f"has blocks by {policy.attribute!r}"
        )
        raise InvalidRequest(f"where can name the column of the stream's blocks alone; this stream {has}")
    wanted = where[policy.attribute]
    values = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    domain = [(type(value), value) for value in policy.attribute_values]
    try:
        places = sorted({domain.index((type(value), value)) for value in values})
    except ValueError:
        raise InvalidRequest(f"where names a value outside the domain of {policy.attribute!r}") from None
    if not places:
        raise InvalidRequest(f"where names no value of {policy.attribute!r}")
    if places[-1] - places[0] != len(places) - 1:
        raise InvalidRequest(
            f"the values that where names must follow each other in the domain of {policy.attribute!r}: a training "
            "charges one range of blocks. Register one PTK for each"
        )
    return range(places[0], places[-1] + 1)


def settled_where(policy: Policy, where: Mapping[str, Any] | None) -> dict[str, list[Any]] | None:
    """Return `where` in its one form, so that equal wishes are equal: in the domain's order; None for all blocks."""
    groups = groups_where(policy, where)
    if policy.attribute is None or len(groups) == groups_of(policy):
        return None
    return {policy.attribute: list(policy.attribute_values[groups.start : groups.stop])}


def groups_behind(policy: Policy, blocks: BlockRange) -> range:
    """Return the groups whose rows a training opens by the blocks that it charged in one window."""
    return range(place_of(blocks.lo, policy).group, place_of(blocks.hi - 1, policy).group + 1)


def windows_behind(policy: Policy, blocks: BlockSet, newest: int) -> tuple[int, ...]:
    """Return the windows whose rows are behind blocks, rising; behind shards of users are those of `newest`."""
    if policy.privacy_unit is PrivacyUnit.USER:
        return (newest,)
    return tuple(one.lo // stride_of(policy) for one in blocks.ranges)


def train_blocks(
    window: WindowId,
    policy: Policy,
    partition: int,
    *,
    n_rows: int | None = None,
    groups: range | None = None,
    turn: int = 0,
) -> BlockRange:
    """Return what a training on a train partition charges: its groups or, for the unit user, the shards it opens.

    Parameters
    ----------
    n_rows : int, optional
        The expected number of rows it asks for; all of them by default.
    turn : int
        Its turn. Trainings that open only some of the shards take turns: each starts where the one before ended.
    """
    part = FIRST_TRAIN + partition
    if not FIRST_TRAIN <= part < parts_of(policy):
        raise InvalidRequest(f"there is no train partition {partition}")
    if policy.privacy_unit is PrivacyUnit.USER:
        opened = _shards_for(policy, part, n_rows)
        start = turn % (policy.user_shards // opened) * opened
        first = part * policy.user_shards + start
        return BlockRange(first, first + opened)
    return part_blocks(part, window, policy, range(groups_of(policy)) if groups is None else groups)


def part_blocks(part: int, window: WindowId, policy: Policy, groups: range) -> BlockRange:
    """Return what a run on a whole part charges: these groups of it in a window, or all of its shards."""
    if policy.privacy_unit is PrivacyUnit.USER:
        return BlockRange(part * policy.user_shards, (part + 1) * policy.user_shards)
    first = window.index * stride_of(policy) + part * groups_of(policy)
    return BlockRange(first + groups.start, first + groups.stop)


def rows_behind(policy: Policy, blocks: BlockRange, n_rows: int, windows: int = 1) -> Rows:
    """Return the rows that a training opens of a window, as a Bernoulli sample of rate n / N (differences.md P7).

    It opens nothing outside these blocks. They name the part, and the files or the shards in it.

    Parameters
    ----------
    n_rows : int
        The expected number of rows of the whole training.
    windows : int
        How many windows it opens: the rate is the same in each.
    """
    first, last = place_of(blocks.lo, policy), place_of(blocks.hi - 1, policy)
    if (first.window, first.part) != (last.window, last.part):
        raise InvalidRequest("one training opens blocks of one part")
    files = tuple(
        range(first.part * groups_of(policy) + first.group, last.part * groups_of(policy) + last.group + 1)
    )
    low, _ = shard_bounds(policy, first.part, first.shard)
    _, high = shard_bounds(policy, first.part, last.shard)
    if n_rows < windows * int(share_of(policy, first.part) * policy.rows_per_window):
        high = min(high, low + n_rows * HASH_RANGE // (windows * policy.rows_per_window))
    return Rows(first.part, files, low, high)


def rows_by_window(policy: Policy, blocks: BlockSet, newest: int, n_rows: int | None) -> dict[int, Rows]:
    """Return the rows that a training opens of each of its windows, by its index, rising: the same share of each.

    Parameters
    ----------
    newest : int
        The newest window. Shards open its users' rows.
    n_rows : int or None
        The expected number of rows of all windows together; None for all that the blocks have.
    """
    windows = windows_behind(policy, blocks, newest)
    n_rows = len(windows) * policy.rows_per_window if n_rows is None else n_rows
    pairs = zip(windows, blocks.ranges, strict=True)
    return {window: rows_behind(policy, one, n_rows, len(windows)) for window, one in pairs}


# shares of the keyed hash


def part_bounds(policy: Policy) -> tuple[int, ...]:
    """Upper bounds, exclusive, of each part's share of the keyed hash's range [0, 2**64) (differences.md P7).

    A privacy unit belongs to the first part whose bound is above its hash. So exactly one part changes when one unit
    is added or removed.
    """
    profile = int(policy.profile_share * HASH_RANGE)
    test = profile + int(policy.test_share * HASH_RANGE)
    rest = HASH_RANGE - test
    train = [test + rest * (k + 1) // policy.train_partitions for k in range(policy.train_partitions)]
    return (profile, test, *train)


def shard_bounds(policy: Policy, part: int, shard: int) -> tuple[int, int]:
    """Return the hashes of a shard, half-open: one of `user_shards` equal ranges inside its part's."""
    bounds = (0, *part_bounds(policy))
    low, width = bounds[part], bounds[part + 1] - bounds[part]
    return low + width * shard // policy.user_shards, low + width * (shard + 1) // policy.user_shards


def share_of(policy: Policy, part: int) -> Decimal:
    """Return the public share of a window's privacy units that a part has in expectation."""
    bounds = (0, *part_bounds(policy))
    return Decimal(bounds[part + 1] - bounds[part]) / HASH_RANGE


def _shards_for(policy: Policy, part: int, n_rows: int | None) -> int:
    """How many shards hold so many rows in expectation; at least one."""
    low, _ = shard_bounds(policy, part, 0)
    _, high = shard_bounds(policy, part, policy.user_shards - 1)
    if n_rows is None or n_rows >= int(share_of(policy, part) * policy.rows_per_window):
        return policy.user_shards
    wanted = n_rows * HASH_RANGE // policy.rows_per_window
    return max(1, min(policy.user_shards, -(-wanted * policy.user_shards // (high - low))))
