"""Regions that hold narrow clusters, by noisy counts of the finest cells alone (post-processing)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
import numpy.typing as npt

from ptklib.clustering.grid import Noisy, as_table

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SHARED_MOST = 4
"""Clusters that one region may hold."""

_SIDES = (1, 2, 3)
"""Cells a side of the windows that are looked at: a cluster may lie across the border of cells."""

_REGION_MOST = 4
"""Cells a side of a region, for each of its clusters. Wider clusters are seen well enough by counts."""

_NOISE_WINDOWS = 0.1
"""Windows that noise alone is expected to bring up in one table."""

_BY_CHANCE = 7.0
"""More evidence than a clear window needs, up to which one beyond k may still be noise: once in 10,000 tables."""

_FALSE_ALARM = 1e-6
"""Probability that noise alone makes regions of an empty table."""

_ALIKE = 0.6
"""Least rows of a cluster, over those of an average one: with fewer, clusters elsewhere may have been missed."""

_OUTSIDE = 0.3
"""Largest share of rows outside of all regions: the tails of clusters that are as wide as a cell."""

_SURE = 2.0
"""Standard deviations of the noise of the number of rows that are added to it."""


_SEEN = 5.0
"""Standard deviations of the noise of a region's rows above which a release is said to have some there."""


@dataclass(frozen=True, eq=False)
class Region:
    """A box of finest cells, from `low` up to, but without, `high`.

    Parameters
    ----------
    low, high : ndarray of shape (n_columns,)
        Cells.
    rows : float
        Its noisy number of rows.
    evidence : float
        Minus the log of the probability that noise alone brings its clearest window up, at one place.
    n_clusters : int
    """

    low: Ints
    high: Ints
    rows: float
    evidence: float
    n_clusters: int = 1

    def joined(self, other: "Region") -> "Region":
        """Return the box around both."""
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Region(low, high, self.rows + other.rows, max(self.evidence, other.evidence))

    def touches(self, other: "Region") -> bool:
        """Return whether no cell lies between both."""
        return bool((self.low <= other.high).all() and (other.low <= self.high).all())

    def counted(self, finest: Noisy, dimension: int) -> "Region":
        """Return the region with its rows in some other counts, 0 where they do not stand out of the noise."""
        inside = as_table(finest.values, dimension)[_box(self.low, self.high)]
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
    dimension : int
    k : int
        Number of clusters.

    Notes
    -----
    Windows of one to three cells a side are taken where noise is least likely to bring their sum up, one after the
    other, while that is unlikely anywhere. Chernoff bounds the tail of a sum of Laplace noise. Windows that touch make
    one region. Where fewer regions than clusters are found, those with most rows hold two. Then none may have much
    fewer rows for each of its clusters than an average cluster has: otherwise others may lie unseen elsewhere.
    """
    counts, n_rows = as_table(finest.values, dimension), float(total.values[0])
    found = _clear_regions(counts, sqrt(finest.variance / 2), k)
    regions, others = found[:k], found[k:]
    if not regions or any(region.evidence > _least(counts) + _BY_CHANCE for region in others):
        return None
    rows, shares = np.array([region.rows for region in regions]), np.ones(len(regions), dtype=np.int64)
    for _ in range(k - len(regions)):
        shares[(rows / (shares + 1)).argmax()] += 1
    expected = log(_places(counts)) - min(region.evidence for region in regions)  # its logarithm
    by_noise = len(regions) * (1 + expected - log(len(regions)))
    missed = len(regions) < k and (rows / shares).min() < _ALIKE * n_rows / k
    outside = n_rows - rows.sum() > _OUTSIDE * n_rows + _SURE * sqrt(total.variance)
    wide = any(r.side > _REGION_MOST * n for r, n in zip(regions, shares, strict=True))
    if by_noise > log(_FALSE_ALARM) or shares.max() > SHARED_MOST or missed or outside or wide:
        return None
    return [replace(region, n_clusters=int(n)) for region, n in zip(regions, shares, strict=True)]


def _clear_regions(counts: Floats, scale: float, k: int) -> list[Region]:
    """Return the regions of clear windows, the clearest first, or none where one is wider than any narrow cluster."""
    left, least = counts.copy(), _least(counts)
    evidence = {side: _evidence(_sums(left, side), side**left.ndim, scale) for side in _SIDES}
    regions: list[Region] = []
    while True:
        best = max(_SIDES, key=lambda side: float(evidence[side].max()))
        place = np.unravel_index(evidence[best].argmax(), evidence[best].shape)
        value = float(evidence[best][place])
        if value < least:
            return sorted(regions, key=lambda region: -region.evidence)
        low = np.array(place, dtype=np.int64)
        window = _box(low, low + best)
        found = Region(low, low + best, float(left[window].sum()), value)
        left[window] = 0.0
        _look_again(evidence, left, found, scale)
        regions = _with(regions, found)
        if len(regions) > 2 * k or any(r.side > _REGION_MOST * SHARED_MOST for r in regions):
            return []


def _look_again(evidence: dict[int, Floats], left: Floats, found: Region, scale: float) -> None:
    """Judge anew the windows that share cells with a region that was taken."""
    for side, values in evidence.items():
        first = np.maximum(found.low - side + 1, 0)
        last = np.minimum(found.high, np.array(values.shape))
        sums = _sums(left[_box(first, last + side - 1)], side)
        values[_box(first, last)] = _evidence(sums, side**left.ndim, scale)


def _with(regions: Sequence[Region], found: Region) -> list[Region]:
    apart = list(regions)
    while touching := [region for region in apart if region.touches(found)]:
        apart = [region for region in apart if not region.touches(found)]
        for region in touching:
            found = found.joined(region)
    return [*apart, found]


def _least(counts: Floats) -> float:
    """Return the evidence of a clear window."""
    return log(_places(counts) / _NOISE_WINDOWS)


def _places(counts: Floats) -> int:
    return len(_SIDES) * counts.size


def _box(low: Ints, high: Ints) -> tuple[slice, ...]:
    return tuple(slice(int(a), int(b)) for a, b in zip(low, high, strict=True))


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
