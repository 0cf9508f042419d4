"""Models that learn from noisy sums of one block after the other, each block charged once.

Noise is that of `ptklib.mechanisms`. The sums of a row have L1 norm 2 at most, since its features have 1:

| task | sums | model |
|---|---|---|
| classes | features of rows inside and outside a class, and the two counts | direction between the two means |
| numbers | products of features, and features times the target | least squares with a small ridge |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from _common.budget_pools import Pool
from _common.online_budgeting.replay import Grant
from ptklib.arrays import Floats, Ints
from ptklib.mechanisms import laplace
from ptkstore.domain.accounting.losses import NANO
from ptkstore.domain.budgeting.significance import Recency

STEP = 2**20
L1 = 2 * STEP
"""What one row moves, apart from rounding, which adds less than a step in each entry."""


@dataclass(frozen=True)
class Blocks:
    """Blocks that were drawn from a pool: for each, the places of its rows."""

    pool: Pool
    rows: Sequence[Ints]
    groups: Ints
    """Of blocks in time: the span of each, otherwise the commonest group."""

    @classmethod
    def drawn(cls, pool: Pool, n_blocks: int, n_rows: int, seed: int, spread: float = 0.3) -> Blocks:
        """Draw blocks with replacement.

        Blocks in time have rows of one span each, the oldest first. Others have groups by a Dirichlet distribution: the
        smaller `spread`, the more blocks differ.
        """
        draws = np.random.default_rng([seed, n_blocks, n_rows])
        places = [np.flatnonzero(pool.groups == g) for g in range(pool.n_groups)]
        found, most = [], []
        for i in range(n_blocks):
            if pool.in_time:
                span = i * pool.n_groups // n_blocks
                found.append(draws.choice(places[span], n_rows))
                most.append(span)
                continue
            shares = draws.dirichlet(np.full(pool.n_groups, spread))
            counts = draws.multinomial(n_rows, shares)
            found.append(np.concatenate([draws.choice(places[g], n) for g, n in enumerate(counts) if n]))
            most.append(int(np.argmax(counts)))
        return cls(pool, found, np.array(most))

    def significance(self, task: int) -> Floats:
        """Return the exact loss of a version that says "no" to every row: how many rows of the class a block has."""
        return np.array([self.pool.targets[rows, task].sum() for rows in self.rows])

    def recency(self) -> Floats:
        """Return the declared recency of blocks in time, from 1 for the newest down to 1 / n."""
        declared = Recency(len(self.rows))
        return np.array([declared.of(age) for age in reversed(range(len(self.rows)))])


@dataclass
class Learner:
    """Models of queries on some blocks. A query has a task; each block that it is given adds its noisy sums, once.

    Sums of blocks with less epsilon count less, in proportion to it. That needs no budget.
    """

    blocks: Blocks
    exact: bool = False
    _sums: dict[tuple[int, int], Floats] = field(default_factory=dict)
    _released: dict[tuple[int, int], Floats] = field(default_factory=dict)

    def quality(self, query: int, task: int, grants: Sequence[Grant]) -> float:
        """Return the true quality of a query's model: balanced accuracy, or mean squared error.

        Notes
        -----
        It is read off the population: the paper assumes public validation data (`differences.md` B8).
        """
        pool = self.blocks.pool
        width = pool.rows.shape[1]
        most = max((grant.nano for grant in grants), default=1)
        total = np.zeros(width * (width + 3) // 2 if pool.in_time else 2 * width + 2)
        for grant in grants:
            total += self._noisy(query, task, grant) * (grant.nano / most)
        if pool.in_time:
            # Each block adds noise of one scale, 2 / most.
            deviation = 0.0 if self.exact else 2 * (2 * len(grants)) ** 0.5 * NANO / most
            return squared_error(pool, task, least_squares(total, width, ridge=deviation * width**0.5))
        return balanced_accuracy(pool, task, total)

    def _noisy(self, query: int, task: int, grant: Grant) -> Floats:
        if self.exact:
            return self._exact(task, grant.block)
        key = query, grant.block
        if key not in self._released:
            units = np.rint(self._exact(task, grant.block) * STEP).astype(np.int64)
            noisy = laplace(units, l1_sensitivity=L1 + len(units), epsilon=grant.nano / NANO)
            self._released[key] = np.asarray(noisy / STEP)
        return self._released[key]

    def _exact(self, task: int, block: int) -> Floats:
        key = task, block
        if key not in self._sums:
            pool, places = self.blocks.pool, self.blocks.rows[block]
            self._sums[key] = sums_of(pool, pool.rows[places], pool.targets[places, task])
        return self._sums[key]


def balanced_accuracy(pool: Pool, task: int, total: Floats) -> float:
    """Return the mean of the accuracies inside and outside a class, on the population."""
    width = pool.rows.shape[1]
    counts = np.maximum(total[2 * width :], 1.0)
    means = total[:width] / counts[0], total[width : 2 * width] / counts[1]
    direction = means[0] - means[1]
    said = pool.rows @ direction > direction @ (means[0] + means[1]) / 2
    positive = pool.targets[:, task] > 0.5
    return float((said[positive].mean() + (~said[~positive]).mean()) / 2)


def squared_error(pool: Pool, task: int, weights: Floats) -> float:
    """Return the mean squared error on the last span of time."""
    predicted = np.clip(pool.rows[pool.judged] @ weights, -0.5, 0.5)
    return float(np.mean((predicted - pool.targets[pool.judged, task]) ** 2))


def sums_of(pool: Pool, rows: Floats, target: Floats) -> Floats:
    """Return the sums of a block that a model is made of."""
    if pool.in_time:
        gram = rows.T @ rows
        return np.concatenate([gram[np.triu_indices(rows.shape[1])], rows.T @ target])
    counts = [target.sum(), len(target) - target.sum()]
    return np.concatenate([target @ rows, (1 - target) @ rows, counts])


def least_squares(total: Floats, width: int, ridge: float) -> Floats:
    """Return the weights of a ridge regression; a matrix that noise made negative is raised to the ridge."""
    upper = total[: width * (width + 1) // 2]
    gram = np.zeros((width, width))
    gram[np.triu_indices(width)] = upper
    gram = gram + np.triu(gram, 1).T
    values, vectors = np.linalg.eigh(gram)
    inverse = vectors @ np.diag(1 / (np.maximum(values, 0) + max(ridge, 1e-6))) @ vectors.T
    return np.asarray(inverse @ total[width * (width + 1) // 2 :])


def without_privacy(pool: Pool, task: int) -> float:
    """Return the quality of the model from exact sums of the rows that quality is about."""
    learner = Learner(Blocks(pool, [pool.judged], np.zeros(1, dtype=np.int64)), exact=True)
    return learner.quality(0, task, [Grant(0, NANO)])
