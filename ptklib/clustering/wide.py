"""Centres by noisy counts of nested cells alone, never worse than centres without data (post-processing)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptklib.arrays import Floats
from ptklib.clustering import grid
from ptklib.clustering.centres import flat_centres, nearest, weighted_centres
from ptklib.clustering.comparison import nearer
from ptklib.clustering.denoising import denoised
from ptklib.clustering.space import Box

_POINTS_PER_CENTRE = 8


@dataclass(frozen=True, eq=False)
class WideCentres:
    """Centres in the metric of the box."""

    places: Floats
    """Shape (k, n_columns)."""
    shares: Floats
    """Of the rows. Shape (k,)."""
    from_rows: bool
    """False where noise may explain what the counts say: these are the centres without data."""


def wide_centres(counts: Sequence[grid.Noisy], box: Box, k: int) -> WideCentres:
    """Return k centres, from the counts of each level, coarse to fine."""
    dimension = len(box.names)
    levels, variances = [level.values for level in counts], [level.variance for level in counts]
    cells = grid.weighted_points(levels, variances, dimension)
    points, weights = grid.divided(*cells, _POINTS_PER_CENTRE * k)
    there = box.places(points)
    starts = (there, weights) if len(cells[0]) < 2 * k else (box.places(cells[0]), cells[1])
    weighted, owners = weighted_centres(there, weights, k, *starts)
    centres = denoised(weighted, cells, levels, variances, dimension, box.places)
    flat = box.places(flat_centres(k, (box.width * box.factor).tolist()))

    def gain(shares: Floats) -> Floats:
        places = box.places(shares)
        return nearest(places, flat)[1] - nearest(places, centres)[1]

    from_rows = nearer(levels, variances, dimension, gain)
    if not from_rows:
        centres, owners = flat, nearest(there, flat)[0]
    shares = np.bincount(owners, weights=weights, minlength=k) / weights.sum()
    return WideCentres(centres, shares, from_rows)
