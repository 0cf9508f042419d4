"""Simulation only: the best assignment if all exact significances were known (budgeting paper, section V).

It reads significances without noise and pays for no comparison. So it is a bound for what is possible, and no policy:
an assignment that is computed from exact significances would publish them (`differences.md` B6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ptklib.arrays import Bools, Floats, Ints
from ptkstore.domain.budgeting.rule import ThresholdRule
from ptkstore.errors import InvalidRequest

_ROUNDS = {True: 200, False: 20}
"""Steps of the dual ascent, at the root and below it."""
_NEARLY = 1e-9


@dataclass(frozen=True, slots=True)
class ExactInstance:
    """Problem (5) of the paper, with exact significances.

    Parameters
    ----------
    significance : ndarray of shape (n_blocks, n_queries)
        p_ij, not negative.
    costs : ndarray of shape (n_queries,), int64
        What a query costs on each block that it is given.
    left : ndarray of shape (n_blocks,), int64
        What each block has left, in the same unit.
    limits : ndarray of shape (n_queries,), int64
        c_j: how many blocks a query may have.
    """

    significance: Floats
    costs: Ints
    left: Ints
    limits: Ints

    def __post_init__(self) -> None:
        shape = (len(self.left), len(self.costs))
        if self.significance.shape != shape or len(self.limits) != shape[1]:
            raise InvalidRequest(
                "an instance has a significance for each block and query, a cost and a limit each"
            )
        if np.any(self.significance < 0) or np.any(self.costs <= 0):
            raise InvalidRequest("significances are not negative, and costs are positive")

    def admits(self, given: Bools) -> bool:
        """Return whether an assignment keeps to all costs and limits."""
        within = given @ self.costs <= self.left
        return bool(np.all(within) and np.all(given.sum(axis=0) <= self.limits))

    def value(self, given: Bools) -> float:
        """Return the sum of significances of an assignment."""
        return float(self.significance[given].sum())


@dataclass(frozen=True, slots=True)
class ExactOptimum:
    """An assignment, its value, and a bound that no assignment exceeds. `proven` if they agree."""

    given: Bools
    value: float
    bound: float
    nodes: int

    @property
    def proven(self) -> bool:
        """Whether nothing better exists."""
        return self.bound <= self.value * (1 + 1e-6) + _NEARLY


def noise_free_bound(rule: ThresholdRule) -> float:
    """Return 1 + ln(U / L): by which factor the offline optimum may be better than Algorithm 2, without noise.

    It holds for exact comparisons, costs that are small against a block, and queries that may have every block
    (docs/proofs/budgeting.md). With noise, or where limits bind, it is no bound (`differences.md` B7).
    """
    return rule.span


def best_with_exact_significance(instance: ExactInstance, max_nodes: int = 2000) -> ExactOptimum:
    """Return the best assignment by Lagrangian branch and bound, or the best one found within `max_nodes`.

    Limits of queries are relaxed with a multiplier each. Then each block is a knapsack of its own, which is solved by
    branch and bound as well. The multipliers follow a subgradient.
    """
    search = _Search(instance)
    n_blocks, n_queries = instance.significance.shape
    undecided = np.full((n_blocks, n_queries), -1, dtype=np.int64)
    todo = [(math.inf, undecided, np.zeros(n_queries))]
    open_bound = 0.0
    while todo:
        bound, fixed, multipliers = todo.pop()
        if bound <= search.value * (1 + 1e-7) + _NEARLY:
            continue
        if search.nodes >= max_nodes:
            open_bound = max(open_bound, bound)
            continue
        search.nodes += 1
        bound, multipliers, chosen = search.relaxed(fixed, multipliers, root=search.nodes == 1)
        if bound <= search.value * (1 + 1e-7) + _NEARLY:
            continue
        place = _branch_at(instance, fixed, chosen, multipliers)
        if place is None:
            continue
        for decided in (0, 1):  # the last is taken first
            child = fixed.copy()
            child[place] = decided
            todo.append((bound, child, multipliers))
    return ExactOptimum(search.best, search.value, max(search.value, open_bound), search.nodes)


class _Search:
    """The best assignment so far, and the relaxation of a node."""

    def __init__(self, instance: ExactInstance) -> None:
        self.instance = instance
        self.best: Bools = np.zeros(instance.significance.shape, dtype=bool)
        self.value = 0.0
        self.nodes = 0
        self._offer(_completed(instance, self.best))

    def relaxed(self, fixed: Ints, start: Floats, *, root: bool) -> tuple[float, Floats, Bools]:
        """Return the least bound found, its multipliers and the assignment that belongs to them."""
        instance, multipliers = self.instance, start.copy()
        best: tuple[float, Floats, Bools] = (math.inf, multipliers, self.best)
        pace = 1.0
        for _ in range(_ROUNDS[root]):
            chosen = self._of_blocks(fixed, multipliers)
            if chosen is None:
                return -math.inf, multipliers, self.best
            bound = float((instance.significance - multipliers)[chosen].sum() + multipliers @ instance.limits)
            if bound < best[0] - _NEARLY:
                best = (bound, multipliers.copy(), chosen)
            else:
                pace *= 0.9
            self._offer(_completed(instance, chosen))
            over = chosen.sum(axis=0) - instance.limits
            slope = np.where((multipliers <= 0) & (over < 0), 0, over)
            if not slope.any() or best[0] <= self.value + _NEARLY:
                break
            step = pace * max(bound - self.value, _NEARLY) / float(slope @ slope)
            multipliers = np.maximum(0.0, multipliers + step * slope)
        return best

    def _of_blocks(self, fixed: Ints, multipliers: Floats) -> Bools | None:
        """Return the best choice of each block by itself; None if what is fixed does not fit."""
        instance = self.instance
        worth = instance.significance - multipliers
        chosen: Bools = np.equal(fixed, 1)
        for i, row in enumerate(fixed):
            left = int(instance.left[i] - instance.costs[row == 1].sum())
            if left < 0:
                return None
            free = np.flatnonzero((row == -1) & (worth[i] > 0) & (instance.costs <= left))
            chosen[i, free[knapsack(worth[i, free], instance.costs[free], left)]] = True
        return chosen

    def _offer(self, given: Bools) -> None:
        value = self.instance.value(given)
        if value > self.value:
            self.best, self.value = given, value


def knapsack(worth: Floats, costs: Ints, capacity: int) -> Ints:
    """Return the places of items with the most worth in a capacity, by branch and bound.

    Parameters
    ----------
    worth : ndarray of shape (n_items,)
        Positive.
    costs : ndarray of shape (n_items,), int64
        Positive.
    """
    if int(costs.sum()) <= capacity:
        return np.arange(len(costs))
    turn = np.argsort(-worth / costs, kind="stable")
    gains, weights = worth[turn].tolist(), costs[turn].tolist()
    best = -1.0
    best_items: tuple[int, ...] = ()
    todo: list[tuple[int, int, float, tuple[int, ...]]] = [(0, capacity, 0.0, ())]
    while todo:
        at, left, gain, items = todo.pop()
        if gain > best:
            best, best_items = gain, items
        room, bound = left, gain
        for k in range(at, len(gains)):  # the fractional bound
            if weights[k] > room:
                bound += gains[k] * room / weights[k]
                break
            room, bound = room - weights[k], bound + gains[k]
        if at == len(gains) or bound <= best + _NEARLY:
            continue
        todo.append((at + 1, left, gain, items))
        if weights[at] <= left:
            todo.append((at + 1, left - weights[at], gain + gains[at], (*items, at)))
    return np.sort(turn[list(best_items)]).astype(np.int64)


def _completed(instance: ExactInstance, chosen: Bools) -> Bools:
    """Keep the best blocks of each query that has too many, and then add whatever still fits, the best first."""
    given = chosen.copy()
    for j, limit in enumerate(instance.limits):
        places = np.flatnonzero(given[:, j])
        if len(places) > limit:
            turn = np.argsort(-instance.significance[places, j], kind="stable")
            given[places[turn[limit:]], j] = False
    left = instance.left - given @ instance.costs
    room = instance.limits - given.sum(axis=0)
    ratio = instance.significance / instance.costs
    for flat in np.argsort(-ratio, axis=None, kind="stable"):
        i, j = divmod(int(flat), len(instance.costs))
        if not given[i, j] and room[j] > 0 and instance.costs[j] <= left[i]:
            given[i, j] = True
            left[i] -= instance.costs[j]
            room[j] -= 1
    return given


def _branch_at(
    instance: ExactInstance, fixed: Ints, chosen: Bools, multipliers: Floats
) -> tuple[int, int] | None:
    """The undecided pair whose choice is the least clear, of queries with a multiplier or too many blocks first."""
    open_pairs = fixed == -1
    if not open_pairs.any():
        return None
    clear = np.abs(instance.significance - multipliers)
    tense = (multipliers > 0) | (chosen.sum(axis=0) > instance.limits)
    clear = np.where(open_pairs, clear + np.where(tense, 0.0, clear.max() + 1), np.inf)
    i, j = np.unravel_index(int(np.argmin(clear)), clear.shape)
    return int(i), int(j)
