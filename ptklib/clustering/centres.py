"""Centres from released or public points only: weighted k-means, and centres without any data."""

from functools import cache
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_STARTS = 4
_FLAT_POINTS = 2**14
_PUBLIC_SEED = 0
"""Chosen once, for everybody: starting points depend on released numbers and on nothing else."""


def weighted_centres(
    points: Floats, weights: Floats, k: int, coarse: Floats, coarse_weights: Floats
) -> tuple[Floats, Ints]:
    """Return k centres of weighted points, and the centre of each point.

    The best of several starts is found on `coarse`, fewer points that describe the same rows.
    """
    random, best = np.random.default_rng(_PUBLIC_SEED), None
    with _one_thread():
        for _ in range(_STARTS):
            start = _spread_seeds(coarse, coarse_weights, k, random)
            means = _lloyd(start, coarse, coarse_weights)
            if best is None or means.inertia_ < best.inertia_:
                best = means
        assert best is not None
        best = _lloyd(best.cluster_centers_, points, weights)
    return np.asarray(best.cluster_centers_), np.asarray(best.labels_, dtype=np.int64)


def _lloyd(start: Floats, points: Floats, weights: Floats) -> KMeans:
    means = KMeans(len(start), init=start, n_init=1, max_iter=100)
    return means.fit(points, sample_weight=weights * (len(weights) / weights.sum()))


def _spread_seeds(points: Floats, weights: Floats, k: int, random: np.random.Generator) -> Floats:
    """Return k of some weighted points by greedy k-means++.

    scikit-learn's own takes six times as long for points this few.

    References
    ----------
    .. [1] Arthur, Vassilvitskii, "k-means++: The Advantages of Careful Seeding", SODA 2007.
    """
    tries, columns = 2 + int(log(k)), points.T
    chosen = np.empty((k, points.shape[1]))
    gaps = np.ones(len(points))
    for i in range(k):
        mass = (gaps * weights).cumsum()
        picks = np.minimum(np.searchsorted(mass, random.random(tries) * mass[-1]), len(points) - 1)
        squares = sum((column[picks][:, None] - column) ** 2 for column in columns)
        nearer = np.asarray(squares) if i == 0 else np.minimum(squares, gaps)
        pick = int((nearer @ weights).argmin())
        chosen[i], gaps = points[picks[pick]], nearer[pick]
    return chosen


@cache
def flat_centres(k: int, dimension: int) -> Floats:
    """Return the k-means centres of a flat unit cube: the best centres when nothing is known.

    References
    ----------
    .. [1] Su, Cao, Li, Bertino, Jin, "Differentially Private K-Means Clustering", CODASPY 2016: centres without
       data should be spread evenly.
    """
    points = np.random.default_rng(_PUBLIC_SEED).random((min(max(256 * k, 2048), _FLAT_POINTS), dimension))
    means = KMeans(k, n_init=2, max_iter=50, random_state=_PUBLIC_SEED)
    with _one_thread():
        means.fit(points)
    centres: Floats = np.asarray(means.cluster_centers_)
    centres.setflags(write=False)
    return centres


def unit_directions(k: int, dimension: int) -> Floats:
    """Return k public unit vectors."""
    vectors = np.random.default_rng(_PUBLIC_SEED + 1).standard_normal((k, dimension))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _one_thread() -> Any:
    """Keep scikit-learn to one thread: threads add in varying order, and on busy cores they wait for each other.

    On two busy cores the same fit took ten times as long with two threads as with one.
    """
    return _threads().limit(limits=1)


@cache
def _threads() -> Any:
    return ThreadpoolController()  # looks through all loaded libraries, once
