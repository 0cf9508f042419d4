"""Centres from released or public points only: weighted k-means, and centres without any data."""

from collections.abc import Sequence
from functools import cache, lru_cache
from math import log
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.cluster import KMeans
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from ptklib.arrays import Floats, Ints

_FLAT_POINTS = 2**14
_EXCHANGES = 16
"""Centres that may move past others; most fits need none, and with it one start is as good as three."""

_CANDIDATES = 32
_PUBLIC_SEED = 0
"""Chosen once, for everybody: starting points depend on released numbers and on nothing else."""


def weighted_centres(
    points: Floats, weights: Floats, k: int, coarse: Floats, coarse_weights: Floats
) -> tuple[Floats, Ints]:
    """Return k centres of weighted points, and the centre of each point.

    They are looked for on `coarse`, fewer points that describe the same rows.

    Parameters
    ----------
    points, weights : ndarray of shape (n_points, dimension) and (n_points,)
    coarse, coarse_weights : ndarray
        Of the same form.
    """
    with one_thread():
        start = _lloyd(_spread_seeds(coarse, coarse_weights, k), coarse, coarse_weights)
        best = _lloyd(_exchanged(start, coarse, coarse_weights), points, weights)
    return np.asarray(best.cluster_centers_), np.asarray(best.labels_, dtype=np.int64)


def nearest(points: Floats, centres: Floats) -> tuple[Ints, Floats]:
    """Return the nearest centre of each point, and the square of its distance."""
    distances, places = cKDTree(centres).query(points)
    return np.asarray(places, dtype=np.int64), np.asarray(distances**2)


def _exchanged(means: KMeans, points: Floats, weights: Floats) -> Floats:
    """Return centres of which some moved to where they save more: Lloyd alone never moves one past another.

    A centre that two clusters share, while two centres share another cluster, is a local optimum of Lloyd.

    References
    ----------
    .. [1] Lattanzi, Sohler, "A Better k-means++ Algorithm via Local Search", ICML 2019.
    """
    random, k = np.random.default_rng(_PUBLIC_SEED), len(means.cluster_centers_)
    if not 2 <= k < len(points):
        return np.asarray(means.cluster_centers_)
    for _ in range(_EXCHANGES):
        centres = np.asarray(means.cluster_centers_)
        distances, places = cKDTree(centres).query(points, k=2)
        squares = distances**2
        # What is lost without each centre, when its points join their second nearest.
        losses = np.bincount(places[:, 0], weights=weights * (squares[:, 1] - squares[:, 0]), minlength=k)
        mass = (weights * squares[:, 0]).cumsum()
        picks = np.minimum(np.searchsorted(mass, random.random(_CANDIDATES) * mass[-1]), len(points) - 1)
        nearer = ((points[picks][:, None, :] - points[None, :, :]) ** 2).sum(axis=2)
        savings = np.maximum(squares[:, 0] - nearer, 0.0) @ weights
        if savings.max() <= losses.min():
            break
        moved = centres.copy()
        moved[losses.argmin()] = points[picks[savings.argmax()]]
        better = _lloyd(moved, points, weights)
        if better.inertia_ >= means.inertia_:
            break
        means = better
    return np.asarray(means.cluster_centers_)


def _lloyd(start: Floats, points: Floats, weights: Floats) -> KMeans:
    means = KMeans(len(start), init=start, n_init=1, max_iter=100)
    return means.fit(points, sample_weight=weights * (len(weights) / weights.sum()))


def _spread_seeds(points: Floats, weights: Floats, k: int) -> Floats:
    """Return k of some weighted points, by greedy k-means++.

    scikit-learn's own takes several times as long for points this few.

    References
    ----------
    .. [1] Arthur, Vassilvitskii, "k-means++: The Advantages of Careful Seeding", SODA 2007.
    """
    random, tries = np.random.default_rng(_PUBLIC_SEED), 2 + int(log(k))
    # float32 is half the work and precise enough for a choice of points; shares of their box keep it so.
    reach = float(np.ptp(points, axis=0).max()) or 1.0
    columns = ((points - points.mean(axis=0)) / reach).T.astype(np.float32)
    masses = (weights / weights.sum()).astype(np.float32)
    chosen = np.empty((k, points.shape[1]))
    gaps = np.ones(len(points), dtype=np.float32)
    for i in range(k):
        mass = (gaps * masses).cumsum(dtype=np.float64)
        mass /= max(float(mass[-1]), np.finfo(np.float64).tiny)  # all points may be chosen already
        picks = np.minimum(np.searchsorted(mass, random.random(tries)), len(points) - 1)
        nearer = (columns[0][picks][:, None] - columns[0]) ** 2
        for column in columns[1:]:
            nearer += (column[picks][:, None] - column) ** 2
        if i:
            np.minimum(nearer, gaps, out=nearer)
        best = int((nearer @ masses).argmin())
        chosen[i], gaps = points[picks[best]], nearer[best]
    return chosen


def flat_centres(k: int, extents: Sequence[float]) -> Floats:
    """Return the k-means centres of a flat box, as shares of it: the best centres when nothing is known.

    Parameters
    ----------
    extents : sequence of float
        Sides of the box, in any unit.

    References
    ----------
    .. [1] Su, Cao, Li, Bertino, Jin, "Differentially Private K-Means Clustering", CODASPY 2016: centres without
       data should be spread evenly.
    """
    longest = max(extents)
    return _flat_centres(k, tuple(float(extent) / longest for extent in extents))


@lru_cache(maxsize=256)
def _flat_centres(k: int, sides: tuple[float, ...]) -> Floats:
    n_points, dimension = min(max(256 * k, 2048), _FLAT_POINTS), len(sides)
    points = np.random.default_rng(_PUBLIC_SEED).random((n_points, dimension)) * sides
    means = KMeans(k, n_init=2, max_iter=50, random_state=_PUBLIC_SEED)
    with one_thread():
        means.fit(points)
    centres: Floats = np.asarray(means.cluster_centers_ / sides)
    centres.setflags(write=False)
    return centres


def unit_directions(k: int, dimension: int) -> Floats:
    """Return k public unit vectors."""
    vectors = np.random.default_rng(_PUBLIC_SEED + 1).standard_normal((k, dimension))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def one_thread() -> Any:
    """Keep BLAS and scikit-learn to one thread: threads add in varying order, and wait for each other on busy cores.

    On two busy cores the same fit took ten times as long with two threads as with one.
    """
    return _threads().limit(limits=1)


@cache
def _threads() -> Any:
    return ThreadpoolController()  # looks through all loaded libraries, once
