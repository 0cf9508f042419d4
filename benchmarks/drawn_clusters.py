"""Drawn tables of narrow clusters: how often the default is near k-means, and a method that knows more."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.spatial import cKDTree
from sklearn.cluster import KMeans

from benchmarks.measuring import Row, measured
from ptklib import Clustering
from ptklib.arrays import Floats, Ints

RANGES = ((30, 100), (100, 300), (300, 1000), (1000, 3000), (3000, 10_000), (10_000, 30_000))
"""Rows per cluster, times epsilon."""

NEAR = 1.1
"""Largest loss over that of k-means that counts as near."""

MOST = 0.9
"""Share of layouts that are near where the default is said to be near: the goal of each range."""

LAYOUTS = 100
_ROWS = 200_000
_LEAST = 10
"""Rows of a cluster. With fewer, the mean of its rows is so far from its middle that only exact rows can be near."""

_APART = 8.0
"""Standard deviations between two clusters."""

_ANYWHERE = 0.6
"""Share of layouts whose clusters are placed anywhere; the others are on a lattice."""


@dataclass(frozen=True)
class Layout:
    """Rows in [0, 1] around `centres`, where each row belongs, and the loss of k-means."""

    rows: Floats
    owners: Ints
    centres: Floats
    deviation: float
    epsilon: float
    exact: float


@dataclass(frozen=True)
class Reached:
    """Shares of the layouts of one range.

    Parameters
    ----------
    near
        The default is near k-means.
    found
        Each cluster has a centre of its own, nearer than half way to the next cluster.
    informed
        A method that knows more than the default is near k-means: see `informed`.
    """

    low: int
    high: int
    near: float
    found: float
    informed: float


def layouts(low: float, high: float, n_layouts: int, seed: int = 4) -> Iterator[Layout]:
    """Draw tables with `low` to `high` rows per cluster and unit of 1 / epsilon.

    Everything is drawn evenly on a logarithmic scale: 4 to 64 clusters, of standard deviation .0001 to .05 of the box,
    epsilon .1 to 10. One to three columns.
    """
    random = np.random.default_rng((seed, int(low)))
    while n_layouts:
        dimension, k = int(random.integers(1, 4)), int(np.exp(random.uniform(np.log(4), np.log(65))))
        deviation, epsilon = 10 ** random.uniform(-4, np.log10(0.05)), 10 ** random.uniform(-1, 1)
        rows_each = np.exp(random.uniform(np.log(low), np.log(high))) / epsilon
        n = round(rows_each * k)
        if rows_each < _LEAST or n > _ROWS:
            continue
        drawn = _anywhere if random.random() < _ANYWHERE else _lattice
        centres = drawn(random, k, dimension, _APART * deviation)
        if centres is None:
            continue
        owners = random.integers(0, k, n)
        rows = np.clip(centres[owners] + random.normal(0, deviation, (n, dimension)), 0, 1)
        exact = _rmse(rows, KMeans(k, init=centres, n_init=1).fit(rows).cluster_centers_)
        yield Layout(rows, owners, centres, deviation, epsilon, exact)
        n_layouts -= 1


def _anywhere(random: np.random.Generator, k: int, dimension: int, gap: float) -> Floats | None:
    centres = np.zeros((0, dimension))
    for place in random.uniform(0.03, 0.97, (20 * k, dimension)):
        if not len(centres) or np.linalg.norm(centres - place, axis=1).min() >= gap:
            centres = np.vstack([centres, place])
        if len(centres) == k:
            return centres
    return None


def _lattice(random: np.random.Generator, k: int, dimension: int, gap: float) -> Floats | None:
    side = int(np.ceil(k ** (1 / dimension) - 1e-9))
    axis = 0.5 + random.uniform(0.3, 0.9) * np.linspace(-0.5, 0.5, side)
    points = np.asarray(list(product(axis, repeat=dimension)))
    return None if axis[1] - axis[0] < gap else points[random.permutation(len(points))[:k]]


def informed(layout: Layout, random: np.random.Generator) -> float:
    """Return the loss, over that of k-means, of a method that is told what the default has to find out.

    It bounds what one count of rows and one mean of each cluster can reach, not what every method can.

    Half of epsilon is for finding: the rows are counted once, with Laplace noise, in cells of four standard deviations.
    The cells are known to hold each cluster whole. Where noise in an empty cell exceeds the count of a cluster, that
    cluster is lost, and the loss is infinite.

    The other half is for the mean of each cluster, of rows clipped to its cell. Cluster and number of rows are known
    without loss. The noise is that of the K-norm mechanism: its density falls with the largest of the coordinates, and
    its variance is below that of Laplace noise.
    """
    epsilon, half, (k, dimension) = layout.epsilon / 2, 2 * layout.deviation, layout.centres.shape
    counts = np.maximum(np.bincount(layout.owners, minlength=k), 1)
    cells = (1 / (2 * half)) ** dimension
    largest = np.log(cells / 2 / random.exponential()) / epsilon  # of the noise in so many empty cells
    if (counts + random.laplace(0, 1 / epsilon, k)).min() < largest:
        return float("inf")
    offsets = np.clip(layout.rows - layout.centres[layout.owners], -half, half)
    sums = np.column_stack([np.bincount(layout.owners, weights=column, minlength=k) for column in offsets.T])
    noisy = sums + random.gamma(dimension + 1, half / epsilon, (k, 1)) * random.uniform(-1, 1, (k, dimension))
    means = layout.centres + np.clip(noisy / counts[:, None], -half, half)
    return _rmse(layout.rows, means) / layout.exact


def rows_any_method_needs(deviation: float, dimension: int, k: int) -> float:
    """Return a lower bound of the rows per cluster, times epsilon, for every method with delta 0 that is near k-means.

    One of the clusters may be at any of M places. One of k centres has to be near the right one, with probability
    `MOST`. A centre is near where its cluster's squared loss alone does not exceed what `NEAR` allows all k clusters.
    """
    near = deviation * np.sqrt((NEAR**2 - 1) * k * dimension)
    n_places = (1 / (2 * near)) ** dimension
    return float(np.log(MOST * n_places / k))


def _found(layout: Layout, centres: Floats) -> bool:
    places = cKDTree(layout.centres)
    gaps = places.query(layout.centres, k=2)[0][:, 1]
    distances, nearest = cKDTree(centres).query(layout.centres)
    return bool((distances < gaps / 2).all() and len(np.unique(nearest)) == len(nearest))


def reached(low: int, high: int, n_layouts: int = LAYOUTS) -> Reached:
    """Measure one range."""
    random, seen = np.random.default_rng(low), []
    for layout in layouts(low, high, n_layouts):
        k, dimension = layout.centres.shape
        model = Clustering(list("xyz"[:dimension]), k, bounds=(0, 1), epsilon=layout.epsilon)
        centres = model.fit(layout.rows).cluster_centers_
        ours = _rmse(layout.rows, centres) / layout.exact
        seen.append([ours <= NEAR, _found(layout, centres), informed(layout, random) <= NEAR])
    near, found, most = np.mean(seen, axis=0)
    return Reached(low, high, float(near), float(found), float(most))


def near_from(measurements: list[Reached]) -> float:
    """Return the rows per cluster, times epsilon, from which on the default is near in `MOST` layouts."""
    start = float("inf")
    for one in reversed(measurements):
        if one.near < MOST:
            break
        start = float(one.low)
    return start


def rows() -> list[Row]:
    """Return the share of drawn layouts near k-means in each range, and from where on most are."""
    measurements = [reached(low, high) for low, high in RANGES]
    found = [
        measured(
            f"clustering-drawn-{one.low}",
            f"drawn layouts, rows per cluster times epsilon {one.low} to {one.high}: within {NEAR} of k-means",
            unit="share",
            ours=one.near,
            theirs=one.informed,
            against="a method that knows the width of all clusters; judged: ours",
            goal=MOST,
            direction="max",
        )
        for one in measurements
    ]
    return [
        *found,
        measured(
            "clustering-drawn-near-from",
            f"drawn layouts: from where on {MOST:.0%} are within {NEAR} of k-means",
            unit="rows per cluster x epsilon",
            ours=near_from(measurements),
            goal=RANGES[0][0],
            direction="min",
        ),
    ]


def _rmse(rows: Floats, centres: Floats) -> float:
    distances, _ = cKDTree(centres).query(rows)
    return float(np.sqrt(np.mean(distances**2)))
