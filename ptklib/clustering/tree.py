"""Noisy tree of halves: a first description of the rows, from which good starting centres are found."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.mechanisms.grid import count_by, sum_by
from ptklib.release import Component

SHARE = 0.15
"""Of the budget, where the noise is Gaussian. Means of leaves drown in Laplace noise: there the tree costs more than
it brings in most cases that were measured."""

_COUNTS = 0.3
"""Of the tree's budget, for the counts of all levels; the rest is for the sums of the leaves."""

_DEPTH = 14
_NODES = 512
"""Nodes that are divided on one level, at most."""

_LEAVES = 2048
_SUMS = "tree_sums"

_DIRECTION = 2**10
"""Length of a whole-numbered normal of a plane. 2**17 * 2**10 * 2**10 columns: products are exact in float64."""

_BATCH = 2**14

Draw = Callable[[Mapping[str, Ints]], Mapping[str, Ints]]


@dataclass(frozen=True, eq=False)
class Leaves:
    """Noisy means of the rows in each leaf, and noisy numbers of rows."""

    points: Floats
    weights: Floats


def components(dimension: int, offset: int) -> list[tuple[Component, float]]:
    """Return what the tree releases, and the share of the whole budget of each."""
    levels = [Component(_level(i), min(2 << i, 2 * _NODES), 1) for i in range(_DEPTH)]
    sums = Component(_SUMS, _LEAVES * dimension, offset)
    return [(level, SHARE * _COUNTS / _DEPTH) for level in levels] + [(sums, SHARE * (1 - _COUNTS))]


def grow(
    rows: Ints,
    middle: Ints,
    spread: Floats,
    n_rows: float,
    offset: int,
    draw: Draw,
    variance: Callable[[str], float],
) -> Leaves:
    """Divide rows by random planes through their middle while noise allows it, and release the mean of each part.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns), int64
    middle, spread, n_rows
        Released.
    offset : int
        Units in the longest offset of a row from the middle.
    draw : callable
        Adds the planned noise to exact vectors.
    variance : callable
        Returns the variance of the noise of a component.

    Notes
    -----
    :Sensitivity: on each level a row is in one cell, decided by exact integer products, and adds 1 there; it is
        in one leaf and adds an integer vector of L2 norm at most ``offset``. Cells that are counted on a level
        are those of nodes that the released counts before divided: adaptive composition. Vectors have one
        length whatever the rows are.

    Nearby rows are on the same side of most planes: locality-sensitive hashing, as in [1]_. A node is divided
    while its halves have rows enough for their means to exceed the noise.

    References
    ----------
    .. [1] Chang, Ghazi, Kumar, Manurangsi, "Locally Private k-Means in One Round", 2021.
    """
    dimension = rows.shape[1]
    radius = 1.2 * float(np.linalg.norm(spread)) / sqrt(3)  # spread is sqrt(3) standard deviations
    step = radius / offset
    # The noise of a mean of so many rows is half as long as the radius.
    enough = 2 * sqrt(variance(_SUMS) * dimension) / offset
    sides = _sides(rows, middle, _planes(spread))
    nodes, leaf_of = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), -1, dtype=np.int64)
    sizes, leaf_sizes = np.array([n_rows]), np.zeros(0)
    for i in range(_DEPTH):
        cells = min(2 << i, 2 * _NODES)
        inside = nodes >= 0
        children = np.where(inside, 2 * nodes + (sides >> i & 1), -1)
        counts = draw({_level(i): count_by(children[inside], cells)})[_level(i)].astype(np.float64)
        halves = counts[: 2 * len(sizes)].reshape(-1, 2)
        whole = (halves.min(axis=1) < enough) & (sizes < 4 * enough)
        ends = np.full(cells // 2, -1, dtype=np.int64)
        ends[np.flatnonzero(whole)] = len(leaf_sizes) + np.arange(int(whole.sum()))
        leaf_of = np.where(inside, np.maximum(leaf_of, ends[nodes]), leaf_of)
        leaf_sizes = np.append(leaf_sizes, sizes[whole])
        kept = np.flatnonzero((halves > enough / 2).ravel() & ~np.repeat(whole, 2))
        kept = np.sort(kept[np.argsort(-halves.ravel()[kept], kind="stable")][:_NODES])
        places = np.full(cells, -1, dtype=np.int64)
        places[kept] = np.arange(len(kept))
        nodes = np.where(inside, places[children], -1)
        sizes = halves.ravel()[kept]
    leaf_of = np.where(nodes >= 0, len(leaf_sizes) + nodes, leaf_of)
    leaf_sizes = np.append(leaf_sizes, sizes)[:_LEAVES]
    leaf_of[leaf_of >= _LEAVES] = -1
    sums = np.zeros((_LEAVES, dimension), dtype=np.int64)
    for part in _batches(len(rows)):
        chosen = np.flatnonzero(leaf_of[part] >= 0)
        offsets, places = rows[part][chosen] - middle, leaf_of[part][chosen]
        norm = np.sqrt((offsets * offsets).sum(axis=1))
        factor = offset / np.maximum(norm, radius) * (1 - 1e-9)
        clipped = np.trunc(offsets * factor[:, None]).astype(np.int64)
        for j in range(dimension):
            sums[:, j] += sum_by(places, clipped[:, j], _LEAVES)
    noisy = draw({_SUMS: sums.reshape(-1)})[_SUMS].reshape(sums.shape)[: len(leaf_sizes)]
    weights = np.maximum(leaf_sizes, max(enough / 2, 1.0))
    return Leaves(middle + noisy * step / weights[:, None], weights)


def _planes(spread: Floats) -> Ints:
    """Return whole-numbered normals of planes, by rows: public turns of the columns, stretched as rows are."""
    random, dimension = np.random.default_rng(0), len(spread)
    turns = [
        np.linalg.qr(random.standard_normal((dimension, dimension)))[0]
        for _ in range(-(-_DEPTH // dimension))
    ]
    normals: Floats = np.concatenate(turns)[:_DEPTH] * spread
    whole: Ints = np.rint(normals / np.abs(normals).max() * _DIRECTION).astype(np.int64)
    return whole


def _sides(rows: Ints, middle: Ints, planes: Ints) -> Ints:
    """Return one bit per plane: the side of it on which a row is; exact."""
    normals, powers = planes.T.astype(np.float64), 1 << np.arange(len(planes))
    sides = np.zeros(len(rows), dtype=np.int64)
    for part in _batches(len(rows)):
        above = (rows[part] - middle).astype(np.float64) @ normals > 0
        np.matmul(above.astype(np.int64), powers, out=sides[part])
    return sides


def _batches(n_rows: int) -> Iterator[slice]:
    return (slice(start, start + _BATCH) for start in range(0, n_rows, _BATCH))


def _level(i: int) -> str:
    return f"tree_count_{i}"
