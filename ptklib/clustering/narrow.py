"""Regions that hold narrow clusters, by noisy counts of the finest cells alone (post-processing)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import asinh, log, sqrt

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.clustering.grid import Noisy, as_table

CLUSTERS_MOST = 4
"""Clusters that one region may hold: of 64 clusters that lie anywhere, a few are neighbours."""

_SIDES = (1, 2, 3)
"""Cells a side of the windows that are looked at: a cluster may lie across the border of cells."""

_SIDE_MOST = 4
"""Cells a side of a region. Wider clusters, and clusters some cells apart, are seen well enough by counts."""

_NOISE_WINDOWS = 0.02
"""Windows that noise alone is expected to bring up in one table."""

_DOUBTFUL = 7.0
"""A region may be noise while its evidence is at most this much above that of a clear window: noise is seldom clearer,
in one table of 50,000."""

_EMPTY_TABLE_ALARM = 1e-6
"""Probability that noise alone makes regions of an empty table."""

_ALIKE = 0.6
"""Least rows of a cluster, over those of an average one: with fewer, clusters elsewhere may have been missed."""

_ELSEWHERE = 0.01
"""Share of rows that are allowed neither in a region nor next to it, where each cluster has a region."""

_ELSEWHERE_SHARED = 0.05
"""Share that could be there at most, where regions hold several clusters: a cluster may have been missed."""

_SURE = 2.0
"""Standard deviations of the noise of the rows elsewhere: that many are not counted, or counted on top."""

_SEEN = 5.0
"""Standard deviations of the noise of a region's rows above which a release is said to have some there."""


@dataclass(frozen=True, eq=False)
class Region:
    """A box of finest cells, from `low` up to, but without, `high`."""

    low: Ints
    high: Ints
    """Cells. Shape (n_columns,)."""
    rows: float
    """Its noisy number of rows."""
    evidence: float
    """Minus the log of the probability that noise alone brings its clearest window up, at one place."""
    n_clusters: int = 1
    """How many clusters it is taken to hold."""

    def joined(self, other: "Region") -> "Region":
        """Return the box around both."""
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Region(low, high, self.rows + other.rows, max(self.evidence, other.evidence))

    def recounted(self, finest: Noisy, dimension: int) -> "Region":
        """Return the region with its rows in some other counts, 0 for those within the noise."""
        inside = as_table(finest.values, dimension)[box_of(self.low, self.high)]
        rows = float(inside.sum())
        seen = rows > _SEEN * sqrt(finest.variance * inside.size)
        return replace(self, rows=rows if seen else 0.0)

    @property
    def side(self) -> int:
        """Its longest side, in cells."""
        return int((self.high - self.low).max())


def narrow_regions(finest: Noisy, total: Noisy, dimension: int, k: int) -> list[Region] | None:
    """Return regions that hold k narrow clusters and nearly all rows, or None where rows are not like that.

    Parameters
    ----------
    finest : Noisy
        Counts of the finest cells.
    total : Noisy
        One number, that of all rows.
    k : int
        Number of clusters.

    Notes
    -----
    The clearest window of one to three cells a side is taken and its cells are set to zero, again and again,
    until noise could explain the next. Chernoff bounds the tail of a sum of Laplace noise. Windows that touch
    make one region. If fewer regions than clusters are found, those with most rows contain several. Then none
    may have much fewer rows for each of its clusters than an average cluster has: otherwise others may be
    unseen elsewhere. A region of so few rows that may be noise is no cluster either. Rows elsewhere are far
    from all centres, and cost more than precise centres save.
    """
    counts, n_rows = as_table(finest.values, dimension), float(total.values[0])
    candidates = _clear_regions(counts, _scale(finest.variance), k)
    regions, others, sure = candidates[:k], candidates[k:], _least(counts) + _DOUBTFUL
    if not regions or any(region.evidence > sure for region in others):
        return None
    rows, n_clusters = np.array([region.rows for region in regions]), np.ones(len(regions), dtype=np.int64)
    for _ in range(k - len(regions)):
        n_clusters[(rows / (n_clusters + 1)).argmax()] += 1
    few = rows / n_clusters < _ALIKE * n_rows / k
    noise = any(small and region.evidence <= sure for small, region in zip(few, regions, strict=True))
    missed = noise or (len(regions) < k and bool(few.any()))
    expected = log(_n_windows(counts)) - min(region.evidence for region in regions)  # its logarithm
    by_noise = len(regions) * (1 + expected - log(len(regions)))
    elsewhere, noise_elsewhere = _elsewhere(regions, counts, finest.variance, total)
    far = elsewhere - _SURE * noise_elsewhere > _ELSEWHERE * n_rows
    if len(regions) < k:
        far = elsewhere + _SURE * noise_elsewhere > _ELSEWHERE_SHARED * n_rows
    if by_noise > log(_EMPTY_TABLE_ALARM) or n_clusters.max() > CLUSTERS_MOST or missed or far:
        return None
    return [replace(region, n_clusters=int(n)) for region, n in zip(regions, n_clusters, strict=True)]


def _elsewhere(
    regions: Sequence[Region], counts: Floats, variance: float, total: Noisy
) -> tuple[float, float]:
    """Return the number of rows neither in regions nor in cells next to them, and the deviation of its noise."""
    near = np.zeros(counts.shape, dtype=np.bool_)
    for region in regions:
        near[_around(region)] = True
    rows = float(total.values[0]) - float(counts[near].sum())
    return rows, sqrt(total.variance + variance * int(near.sum()))


def _clear_regions(counts: Floats, scale: float, k: int) -> list[Region]:
    """Return the regions of clear windows, the clearest first, or none where one is wider than any narrow cluster."""
    left, least = counts.copy(), _least(counts)
    evidence = {side: _evidence(_sums(left, side), side**left.ndim, scale) for side in _SIDES}
    regions: dict[int, Region] = {}
    owners = np.full(counts.shape, -1, dtype=np.int64)
    while True:
        best = max(_SIDES, key=lambda side: float(evidence[side].max()))
        place = np.unravel_index(evidence[best].argmax(), evidence[best].shape)
        value = float(evidence[best][place])
        if value < least:
            return sorted(regions.values(), key=lambda region: -region.evidence)
        low = np.array(place, dtype=np.int64)
        window = box_of(low, low + best)
        taken = Region(low, low + best, float(left[window].sum()), value)
        left[window] = 0.0
        _update_evidence(evidence, left, taken, scale)
        _joined_with(regions, owners, taken)
        if len(regions) > 2 * k or regions[int(owners[tuple(low)])].side > _SIDE_MOST:
            return []


def _update_evidence(evidence: dict[int, Floats], left: Floats, taken: Region, scale: float) -> None:
    """Judge anew the windows that share cells with a region that was taken."""
    for side, values in evidence.items():
        first = np.maximum(taken.low - side + 1, 0)
        last = np.minimum(taken.high, np.array(values.shape))
        sums = _sums(left[box_of(first, last + side - 1)], side)
        values[box_of(first, last)] = _evidence(sums, side**left.ndim, scale)


def _joined_with(regions: dict[int, Region], owners: Ints, region: Region) -> None:
    """Add a region, joined with those it touches; `owners` has the number of each cell's region, -1 for none."""
    while touching := set(np.unique(owners[_around(region)]).tolist()) - {-1}:
        for number in touching:
            old = regions.pop(number)
            owners[box_of(old.low, old.high)] = -1
            region = region.joined(old)
    number = max(regions, default=-1) + 1
    regions[number] = region
    owners[box_of(region.low, region.high)] = number


def _around(region: Region) -> tuple[slice, ...]:
    """Return the cells of a region and those next to it."""
    return box_of(np.maximum(region.low - 1, 0), region.high + 1)


def _least(counts: Floats) -> float:
    """Return the evidence of a clear window."""
    return log(_n_windows(counts) / _NOISE_WINDOWS)


def _n_windows(counts: Floats) -> int:
    return len(_SIDES) * counts.size


def box_of(low: Ints, high: Ints) -> tuple[slice, ...]:
    """Return the cells from `low` up to, but without, `high`."""
    return tuple(slice(int(a), int(b)) for a, b in zip(low, high, strict=True))


def _scale(variance: float) -> float:
    """Return the scale of discrete Laplace noise of a variance."""
    return 1 / (2 * asinh(1 / sqrt(2 * variance)))


def _sums(counts: Floats, side: int) -> Floats:
    """Return the sum of each window of `side` cells a side."""
    for axis in range(counts.ndim):
        counts = np.lib.stride_tricks.sliding_window_view(counts, side, axis=axis).sum(axis=-1)
    return counts


def _evidence(sums: Floats, n_cells: int, scale: float) -> Floats:
    """Return minus the log of a bound of the probability that noise alone in so many cells has such a sum."""
    height = np.maximum(sums / scale, 0.0)
    if n_cells == 1:
        return np.asarray(height + log(2))
    rate = (np.sqrt(n_cells**2 + height**2) - n_cells) / np.maximum(height, np.finfo(np.float64).tiny)
    return np.asarray(rate * height + n_cells * np.log1p(-(rate**2)))
