"""Whether PTKs fit two partitions with fixed caps: an exact decision by a knapsack over undominated states."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ptklib.arrays import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class Effort:
    """How many states are kept at once and how many PTKs are decided before a "no" is not proven but UNKNOWN."""

    states: int
    steps: int


PROVE = Effort(states=20_000, steps=10**6)
GLANCE = Effort(states=256, steps=24)
_SAFE = 1e-9
"""Floats only ever discard states that miss the goal by more than this share of it; sums are integers."""


class Verdict(Enum):
    """Answers that are no split."""

    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Pair:
    """Costs of PTKs in a first and a second partition, and the deltas they take in either.

    A cost above `capacity` forbids the place. `deltas` may be None where all of them fit one partition.
    """

    first: Ints
    second: Ints
    capacity: int
    deltas: Ints | None = None
    delta_capacity: int = 0


def split(pair: Pair, effort: Effort = PROVE) -> Bools | Verdict:
    """Say who goes to the second partition so that both hold their PTKs; NONE if nobody can tell them apart.

    The first partition has room for its PTKs exactly if those sent to the second take away at least what is too much.
    That is a knapsack with the second partition's capacity as its size. The linear relaxation decides nearly always;
    what it leaves open is searched around the relaxation's break, keeping undominated states only (Pisinger's
    expanding core).
    """
    to_second = pair.first > pair.capacity
    to_first = pair.second > pair.capacity
    if (to_second & to_first).any():
        return Verdict.NONE
    free = np.flatnonzero(~(to_second | to_first))
    room_first = pair.capacity - int(pair.first[to_first].sum())
    room_second = pair.capacity - int(pair.second[to_second].sum())
    if room_first < 0 or room_second < 0:
        return Verdict.NONE
    worth, size = pair.first[free], pair.second[free]
    need = int(worth.sum()) - room_first
    order = np.argsort(-_ratio(worth, size), kind="stable")
    worth, size = worth[order], size[order]
    worth_sum, size_sum = np.cumsum(worth), np.cumsum(size)
    taken = int(np.searchsorted(size_sum, room_second, side="right"))
    got = int(worth_sum[taken - 1]) if taken else 0
    used = int(size_sum[taken - 1]) if taken else 0
    if taken < len(free):
        relaxed = got + (room_second - used) * int(worth[taken]) / int(size[taken])
        if relaxed < need - _SAFE * abs(need):
            return Verdict.NONE
    elif got < need:
        return Verdict.NONE
    result = to_second.copy()
    chosen: Bools | Verdict | None
    if pair.deltas is None:
        chosen = _greedily(worth, size, room_second, need, taken)
        if chosen is None:
            chosen = _search(_Knapsack(worth, size, room_second, need), taken, effort)
    else:
        limit = pair.delta_capacity
        spare = limit - int(pair.deltas[to_second].sum())
        rest = int(pair.deltas[to_first].sum() + pair.deltas[free].sum()) - limit
        if spare < 0 or spare < rest:
            return Verdict.NONE
        knapsack = _Knapsack(worth, size, room_second, need, pair.deltas[free][order], rest, spare)
        chosen = _search(knapsack, taken, effort)
    if isinstance(chosen, Verdict):
        return chosen
    result[free[order]] = chosen
    return result


def _ratio(worth: Ints, size: Ints) -> Floats:
    """Worth per unit of size; infinite for what takes no room."""
    return np.where(size > 0, worth / np.maximum(size, 1), np.inf)


def _greedily(worth: Ints, size: Ints, room: int, need: int, taken: int) -> Bools | None:
    """The best first PTKs, then whatever still fits."""
    chosen = np.zeros(len(worth), dtype=np.bool_)
    if need <= 0:
        return chosen
    chosen[:taken] = True
    got, left = int(worth[:taken].sum()), room - int(size[:taken].sum())
    for place in range(taken, len(worth)):
        if got >= need:
            break
        if size[place] <= left:
            chosen[place] = True
            got += int(worth[place])
            left -= int(size[place])
    return chosen if got >= need else None


@dataclass(frozen=True, slots=True)
class _Knapsack:
    """PTKs by falling worth / size: choose some of size at most `room`, worth at least `need`, delta in a range."""

    worth: Ints
    size: Ints
    room: int
    need: int
    deltas: Ints | None = None
    least_delta: int = 0
    most_delta: int = 0

    def solved_by(self, worth: Ints, size: Ints, delta: Ints | None) -> int | None:
        """The first state that is a solution."""
        good = (size <= self.room) & (worth >= self.need)
        if delta is not None:
            good &= (delta >= self.least_delta) & (delta <= self.most_delta)
        place = int(good.argmax()) if len(good) else 0
        return place if len(good) and good[place] else None


def _search(knapsack: _Knapsack, taken: int, effort: Effort) -> Bools | Verdict:
    """Start with the first `taken`, then decide one PTK after the other, outwards from there."""
    worth, size, deltas = knapsack.worth, knapsack.size, knapsack.deltas
    count = len(worth)
    ratio = _ratio(worth, size)
    w = np.array([worth[:taken].sum()], dtype=np.int64)
    s = np.array([size[:taken].sum()], dtype=np.int64)
    d = None if deltas is None else np.array([deltas[:taken].sum()], dtype=np.int64)
    history: list[tuple[int, Ints, Bools]] = []
    complete = True
    left, right = taken - 1, taken
    while True:
        place = knapsack.solved_by(w, s, d)
        if place is not None:
            return _traced(history, place, taken, count)
        if left < 0 and right >= count:
            return Verdict.NONE if complete else Verdict.UNKNOWN
        if len(history) >= effort.steps:
            return Verdict.UNKNOWN
        # outwards, a step to either side in turn
        go_right = right < count and (left < 0 or right - taken <= taken - 1 - left)
        item, sign = (right, 1) if go_right else (left, -1)
        right, left = (right + 1, left) if go_right else (right, left - 1)
        parents = np.concatenate([np.arange(len(w)), np.arange(len(w))])
        turned = np.repeat([False, True], len(w))
        w = np.concatenate([w, w + sign * worth[item]])
        s = np.concatenate([s, s + sign * size[item]])
        if d is not None and deltas is not None:
            d = np.concatenate([d, d + sign * deltas[item]])
        keep = _promising(knapsack, w, s, ratio, left, right)
        keep = keep[_undominated(w[keep], s[keep], None if d is None else d[keep])]
        if len(keep) > effort.states:
            complete = False
            keep = keep[
                np.argsort(np.maximum(knapsack.need - w[keep], s[keep] - knapsack.room))[: effort.states]
            ]
        w, s, d = w[keep], s[keep], None if d is None else d[keep]
        history.append((item, parents[keep], turned[keep]))
        if not len(w):
            return Verdict.NONE if complete else Verdict.UNKNOWN


def _promising(knapsack: _Knapsack, w: Ints, s: Ints, ratio: Floats, left: int, right: int) -> Ints:
    """States whose linear relaxation over the undecided PTKs can still reach the need."""
    gain = ratio[right] if right < len(ratio) else 0.0
    loss = ratio[left] if left >= 0 else np.inf
    spare = knapsack.room - s
    with np.errstate(invalid="ignore"):
        reach = w + np.where(spare >= 0, spare * gain, spare * loss)
    return np.flatnonzero(reach >= knapsack.need - _SAFE * max(abs(knapsack.need), 1))


def _undominated(w: Ints, s: Ints, d: Ints | None) -> Ints:
    """States that no other one beats: smaller and worth more, with the same delta."""
    if d is None:
        order = np.lexsort((-w, s))
        best = np.maximum.accumulate(w[order])
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = w[order][1:] > best[:-1]
        return order[first]
    kept = [np.flatnonzero(d == value) for value in np.unique(d)]
    return np.concatenate([group[_undominated(w[group], s[group], None)] for group in kept] or [np.arange(0)])


def _traced(history: list[tuple[int, Ints, Bools]], place: int, taken: int, count: int) -> Bools:
    """The choice that leads to a state: what was turned over on its way."""
    chosen = np.arange(count) < taken
    for item, parents, turned in reversed(history):
        if turned[place]:
            chosen[item] = ~chosen[item]
        place = int(parents[place])
    return chosen
