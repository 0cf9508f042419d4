"""Narrow clusters where counts have shown them: an interval for each column, then the mean of its rows (d <= 3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.clustering import grid
from ptklib.clustering.grid import LEVELS, OFFSET, OFFSETS
from ptklib.clustering.narrow import CLUSTERS_MOST, Region, box_of
from ptklib.events import Composed, Event, OneOf
from ptklib.mechanisms.selection import report_noisy_max, selection_event
from ptklib.privacy import PrivacyLoss
from ptklib.release import Component, ReleasePlan, plan_shares

TOTAL = "rows"
"""The name of the noisy number of rows."""

BITS = 20
"""A position is a whole number of so many bits in each column."""

_TOTAL, _FINEST = Fraction(1, 20), Fraction(1, 4)
"""Shares of the budget for the number of rows and for the finest counts, which decide what the rest is for.

From .22 to .35 for the finest counts, and .03 to .05 for the number, drawn tables differ by less than their error."""

_HALVINGS = range(1, 9)
"""An interval is half as long as its region, or half of that, and so on."""

_CANDIDATES = sum(2 ** (halving + 1) for halving in _HALVINGS)
"""Intervals that a selection chooses from, 1020: neighbours of one length overlap by half of it. `_selections` divides
k times this by the clusters of a region, so 12 has to divide it."""

_NARROWER = 0.07
"""What a halving is worth, as a share of the rows of a cluster. Halving an interval of eight standard deviations of a
normal cluster loses 5 % of its rows, which pays. Halving one of four loses 27 % more, which does not."""

_SCORE = 2**6
"""Units of a score that are worth one row."""

_LITTLE, _WIDER = 0.05, 1.5
"""Where a mean has noise below so many half lengths, intervals are made wider by this factor: they cut off tails. The
shortest stay, for their cluster may be narrower still."""

_SLACK = 1.5
"""Rows this many half lengths from the middle of an interval are looked at in the next column."""

_CLEARED = 4 / 3
"""Rows this many half lengths from the middle of a cluster are left out when its region is searched for another."""

_INTERVALS = "intervals"


@dataclass(frozen=True, eq=False)
class ZoomPlan:
    """The noise of both ways, known before any data are read."""

    wide: ReleasePlan
    """The number of rows, the finest counts, then the other counts and the offsets."""
    narrow: ReleasePlan
    """The same number and counts, then intervals and means."""
    loss: PrivacyLoss
    """Of both."""


def plan_zoom(dimension: int, k: int, epsilon: object, rows_per_unit: int = 1) -> ZoomPlan:
    """Return the whole release before any data are read.

    Parameters
    ----------
    dimension, k : int
        Columns and clusters.
    rows_per_unit : int
        Every sensitivity is multiplied with it.

    Notes
    -----
    :Sensitivity: as `ptklib.clustering.grid.plan_counts`. The number of rows moves by 1. A row is in one
    region. In
        each selection of its region it moves the scores in one direction, by ``_SCORE`` at most; a region has one
        selection for each of its clusters and columns. A row adds to one mean.

    The released counts decide which of the two ways is taken, and both lose the same epsilon: adaptive composition.
    """
    coarse, finest = grid.components(dimension)[:-1], grid.components(dimension)[-1]
    offsets = Component(OFFSETS, k * dimension, dimension * OFFSET)
    share = Fraction(grid.OFFSET_SHARES[dimension])
    level = (1 - _TOTAL - _FINEST - share) / len(coarse)
    first, shares = [Component(TOTAL, 1, 1), finest], [_TOTAL, _FINEST]

    def plan(parts: list[Component], more: list[Fraction]) -> ReleasePlan:
        return plan_shares([*first, *parts], [*shares, *more], epsilon, 0, rows_per_unit)

    wide = plan([*coarse, offsets], [*[level] * len(coarse), share])
    intervals = Component(_INTERVALS, k * dimension, _SCORE)
    means = level  # as much as one level of counts has the other way
    narrow = plan([intervals, offsets], [1 - _TOTAL - _FINEST - means, means])
    ways: list[Sequence[Event]] = [wide.loss.event.parts()[len(first) :]]
    ways += [
        [_selections(narrow, dimension, k, shared), narrow.loss.event.parts()[-1]]
        for shared in range(1, CLUSTERS_MOST + 1)
    ]
    choice = OneOf(events=tuple(Composed(events=tuple(way)) for way in ways))
    event = Composed(events=(*wide.loss.event.parts()[: len(first)], choice))
    return ZoomPlan(wide, narrow, PrivacyLoss(wide.loss.epsilon, 0.0, event))


def _selections(narrow: ReleasePlan, dimension: int, k: int, shared: int) -> Event:
    """Return the event of all intervals, if no region has more than `shared` clusters.

    There are ``k * dimension`` selections, of which a row meets at most ``shared * dimension``.
    """
    event = selection_event(
        "PermuteAndFlip",
        n_candidates=k * _CANDIDATES // shared,
        sensitivity=_sensitivity(narrow),
        epsilon=_selection_epsilon(narrow, dimension, shared),
        monotonic=True,
    )
    return replace(event, count=shared * dimension)


def _sensitivity(narrow: ReleasePlan) -> int:
    return next(c.sensitivity for c in narrow.components if c.name == _INTERVALS)


def _selection_epsilon(narrow: ReleasePlan, dimension: int, shared: int) -> Fraction:
    assert narrow.epsilons is not None
    return narrow.epsilons[_INTERVALS] / (shared * dimension)


def positions_of(shares: Floats) -> Ints:
    """Return shares of the box as positions, in units of ``2**-BITS``."""
    return np.asarray(np.minimum((shares * (1 << BITS)).astype(np.int64), (1 << BITS) - 1))


def middles(positions: Floats | Ints) -> Floats:
    """Return positions as shares of the box."""
    return np.asarray((positions + 0.5) / (1 << BITS))


def cells(positions: Ints) -> tuple[Ints, Ints]:
    """Count rows in the finest cells and add their offsets, as `ptklib.clustering.grid.cells` does."""
    side, columns = _cell(positions.shape[1]), np.ascontiguousarray(positions.T)
    bits = side.bit_length() - 1  # a side is a power of two, and shifting is faster than dividing
    return grid.totals(columns >> bits, (2 * (columns & side - 1) + 1 - side) * OFFSET >> bits)


@dataclass(frozen=True, eq=False)
class NarrowCluster:
    """A box of intervals, one for each column, around a cluster."""

    middle: Floats
    half: Floats
    """Where it is and half its sides, in positions. Shape (n_columns,)."""
    rows: float
    """Noisy number of its rows."""

    def offsets(self, positions: Ints) -> Floats:
        """Return how far rows are from the middle, in half sides."""
        return np.asarray((positions - self.middle) / self.half)


def narrow_clusters(positions: Ints, regions: Sequence[Region], narrow: ReleasePlan) -> list[NarrowCluster]:
    """Release the box and the mean of each cluster; the mean becomes the middle.

    Parameters
    ----------
    positions : ndarray of shape (n_rows, n_columns)
        As `positions_of` returns them.
    regions : sequence of Region
        As `narrow_regions` returns them, with no rows where this release has none.
    narrow : ReleasePlan
        As `plan_zoom` returns it.
    """
    dimension = positions.shape[1]
    epsilon = _selection_epsilon(narrow, dimension, max(region.n_clusters for region in regions))
    noise = narrow.noise_variance(OFFSETS) ** 0.5 / OFFSET
    clusters: list[NarrowCluster] = []
    sums: list[Ints] = []
    for region, inside in zip(regions, _divided(positions, regions), strict=True):
        boxes = _boxes(inside, region, epsilon, _sensitivity(narrow))
        if noise < _LITTLE * region.rows / region.n_clusters:
            least = (region.high - region.low + 2) * _cell(dimension) / 2 ** (_HALVINGS[-1] + 1)
            boxes = [replace(c, half=np.where(c.half > least, _WIDER * c.half, c.half)) for c in boxes]
        sums += _sums_of_offsets(inside, boxes)
        clusters += boxes
    noisy = narrow.only([OFFSETS]).draw({OFFSETS: np.concatenate(sums)})[OFFSETS]
    rows = np.array([[cluster.rows] for cluster in clusters])
    shifts = np.where(
        rows > 0, np.clip(noisy.reshape(-1, dimension) / OFFSET / np.maximum(rows, 1.0), -1.0, 1.0), 0.0
    )
    return [
        replace(cluster, middle=cluster.middle + shift * cluster.half)
        for cluster, shift in zip(clusters, shifts, strict=True)
    ]


def continued(clusters: Sequence[NarrowCluster], earlier: Ints, weights: Floats) -> list[NarrowCluster]:
    """Average each cluster with the earlier centre in its box, weighted by rows.

    Parameters
    ----------
    earlier : ndarray of shape (k, n_columns)
        Places of the earlier centres.
    weights : ndarray of shape (k,)
        Noisy numbers of their rows.
    """
    joined, free = [], np.ones(len(earlier), dtype=np.bool_)
    for cluster in clusters:
        far = np.where(free, np.abs(cluster.offsets(earlier)).max(axis=1), np.inf)
        before = int(far.argmin())
        if far[before] <= 1:
            free[before] = False
            share = weights[before] / max(weights[before] + cluster.rows, 1.0)
            cluster = replace(cluster, middle=cluster.middle + share * (earlier[before] - cluster.middle))
        joined.append(cluster)
    return joined


def _cell(dimension: int) -> int:
    """Return the side of a finest cell, in positions."""
    return (1 << BITS) // LEVELS[dimension][-1]


def _divided(positions: Ints, regions: Sequence[Region]) -> list[Ints]:
    """Return the rows of each region: those in its cells, and next to them where no other region is."""
    dimension = positions.shape[1]
    shape = (LEVELS[dimension][-1],) * dimension
    owners = np.full(shape, len(regions))
    for number, region in reversed(list(enumerate(regions))):
        owners[box_of(np.maximum(region.low - 1, 0), region.high + 1)] = number
    for number, region in enumerate(regions):
        owners[box_of(region.low, region.high)] = number
    of_rows = owners[tuple((positions // _cell(dimension)).T)]
    order = np.argsort(of_rows, kind="stable")
    ends = np.searchsorted(of_rows[order], np.arange(len(regions) + 1))
    return [positions[order[first:last]] for first, last in pairwise(ends)]


def _boxes(positions: Ints, region: Region, epsilon: Fraction, sensitivity: int) -> list[NarrowCluster]:
    """Select the intervals of each cluster of a region, column by column."""
    dimension, rows = positions.shape[1], region.rows / region.n_clusters
    everywhere = (
        (region.low + region.high) / 2 * _cell(dimension),
        (region.high - region.low) / 2 * _cell(dimension),
    )
    lows = (region.low - 1) * _cell(dimension)
    sides = (region.high - region.low + 2) * _cell(dimension)
    boxes: list[NarrowCluster] = []
    for _ in range(region.n_clusters):
        inside = positions
        middle, half = np.empty(dimension), np.empty(dimension)
        for column, (low, side) in enumerate(zip(lows, sides, strict=True)):
            start, length = _interval(inside[:, column], int(low), int(side), rows, epsilon, sensitivity)
            middle[column], half[column] = start + (length - 1) / 2, length / 2
            inside = inside[np.abs(inside[:, column] - middle[column]) <= _SLACK * half[column]]
        box = (middle, half) if rows else everywhere  # no rows in this release, which a released count says
        boxes.append(NarrowCluster(*box, rows))
        positions = positions[np.abs(boxes[-1].offsets(positions)).max(axis=1) > _CLEARED]
    return boxes


def _interval(
    values: Ints, low: int, side: int, rows: float, epsilon: Fraction, sensitivity: int
) -> tuple[int, int]:
    """Select a short interval with the rows of a cluster; return its start and length."""
    starts, lengths, worth = [], [], []
    for halving in _HALVINGS:
        n = 2 ** (halving + 1)
        starts.append(low + (np.arange(n) - 1) * side // n)
        lengths.append(np.full(n, max(side >> halving, 1)))
        worth.append(np.full(n, halving * _NARROWER))
    first, length = np.concatenate(starts), np.concatenate(lengths)
    ordered, most = np.sort(values), round(max(rows, 1.0) * _SCORE)
    counts = np.searchsorted(ordered, first + length) - np.searchsorted(ordered, first)
    scores = np.minimum(counts * _SCORE, most) + np.rint(np.concatenate(worth) * most).astype(np.int64)
    chosen = report_noisy_max(scores, sensitivity=sensitivity, epsilon=epsilon, monotonic=True)
    return int(first[chosen]), int(length[chosen])


def _sums_of_offsets(positions: Ints, clusters: Sequence[NarrowCluster]) -> list[Ints]:
    """Return the summed offsets of the rows of each box; a row counts in the box whose middle it is nearest to."""
    offsets = np.array([cluster.offsets(positions) for cluster in clusters])
    far = np.abs(offsets).max(axis=2)
    owners = np.where(far.min(axis=0) <= 1, far.argmin(axis=0), -1)
    units = np.rint(offsets * OFFSET).astype(np.int64)
    return [units[i][owners == i].sum(axis=0) for i in range(len(clusters))]
