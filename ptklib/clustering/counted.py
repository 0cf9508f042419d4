"""A release by counts of cells: what is drawn, in which order, and what it says of the centres (d <= 3)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.clustering import grid, zoom
from ptklib.clustering.centres import nearest
from ptklib.clustering.grid import OFFSETS, Noisy
from ptklib.clustering.narrow import narrow_regions
from ptklib.clustering.space import Box
from ptklib.clustering.wide import wide_centres
from ptklib.clustering.zoom import TOTAL
from ptklib.release import ReleasePlan


@dataclass(frozen=True, eq=False)
class Counted:
    """The release of all rows so far."""

    centres: Floats
    """Within the bounds. Shape (k, n_columns)."""
    weights: Floats
    """Noisy numbers of their rows. Shape (k,)."""
    counts: Mapping[str, Noisy]
    """Of each level and, after a zoom, `TOTAL`, the number of rows."""


@dataclass(frozen=True, eq=False)
class CountedRelease:
    """One release."""

    box: Box
    """The columns and their bounds."""
    k: int
    """Number of centres."""
    wide: ReleasePlan
    """Of the counts and the offsets."""
    narrow: ReleasePlan | None = None
    """Of intervals and means, for a zoom."""
    previous: Counted | None = None
    """What the release continues."""

    def of_cells(self, cells: Ints, offsets: Ints) -> Counted:
        """Count all levels; the arguments are those that `ptklib.clustering.grid.cells` returns."""
        return self._wide(self._drawn(grid.nested(cells, self._dimension)), cells, offsets)

    def of_positions(self, positions: Ints) -> Counted:
        """Count the finest cells; what they show decides whether the other levels or narrow clusters come next."""
        cells, offsets = zoom.cells(positions)
        *coarse, finest = grid.names(self._dimension)
        first = self._drawn({TOTAL: np.array([len(positions)], dtype=np.int64), finest: cells})
        zoomed = self._narrow(positions, first)
        if zoomed is not None:
            return zoomed
        exact = grid.nested(cells, self._dimension)
        return self._wide({**first, **self._drawn({name: exact[name] for name in coarse})}, cells, offsets)

    def _wide(self, noisy: Mapping[str, Noisy], cells: Ints, offsets: Ints) -> Counted:
        """Go on with the offsets of each centre's rows in their finest cells."""
        box, names, counts = self.box, grid.names(self._dimension), self._with_previous(noisy)
        wide = wide_centres([counts[name] for name in names], box, self.k)
        centres = wide.places
        moved = self._noisy_offsets(cells, offsets, centres)
        if wide.from_rows:
            # Offsets are those of the rows of this release alone; counts include those before.
            added = max(float(noisy[names[0]].values.sum()), 0.0) * wide.shares
            shifts = grid.shifts(moved, added, counts[names[-1]].variance, self._dimension)
            centres = centres + shifts * box.width * box.factor
        return self._counted(box.clip(centres / box.factor), wide.shares, counts)

    def _narrow(self, positions: Ints, noisy: Mapping[str, Noisy]) -> Counted | None:
        """Go on with boxes and means of narrow clusters, unless the finest counts show anything else."""
        assert self.narrow is not None
        dimension, finest = self._dimension, noisy[grid.names(self._dimension)[-1]]
        counts = self._with_previous({**noisy, **grid.summed(finest, dimension)})
        total = counts[TOTAL]
        regions = narrow_regions(counts[grid.names(dimension)[-1]], total, dimension, self.k)
        if regions is None:
            return None
        rows = np.array(
            [region.rows / region.n_clusters for region in regions for _ in range(region.n_clusters)]
        )
        if self.previous is None:
            clusters = zoom.narrow_clusters(positions, regions, self.narrow)
        else:
            now = [region.recounted(finest, dimension) for region in regions]
            earlier = zoom.positions_of(self.box.shares(self.previous.centres))
            latest = zoom.narrow_clusters(positions, now, self.narrow)
            clusters = zoom.continued(latest, earlier, self.previous.weights)
        centres = self.box.at(zoom.middles(np.array([cluster.middle for cluster in clusters])))
        return self._counted(centres, rows / rows.sum(), counts)

    @property
    def _dimension(self) -> int:
        return len(self.box.names)

    def _drawn(self, exact: Mapping[str, Ints]) -> dict[str, Noisy]:
        noisy = self.wide.only(exact).draw(exact)
        return {
            name: Noisy(units.astype(np.float64), self.wide.noise_variance(name))
            for name, units in noisy.items()
        }

    def _with_previous(self, noisy: Mapping[str, Noisy]) -> dict[str, Noisy]:
        if self.previous is None:
            return dict(noisy)
        return {name: now + self.previous.counts[name] for name, now in noisy.items()}

    def _counted(self, centres: Floats, shares: Floats, counts: Mapping[str, Noisy]) -> Counted:
        of_all = counts[grid.names(self._dimension)[0] if self.narrow is None else TOTAL]
        return Counted(centres, max(float(of_all.values.sum()), 0.0) * shares, counts)

    def _noisy_offsets(self, cells: Ints, offsets: Ints, centres: Floats) -> Noisy:
        """Release the summed offsets of the rows of each centre from the middles of their cells."""
        occupied = np.flatnonzero(cells)
        middles = grid.middles(occupied, grid.LEVELS[self._dimension][-1], self._dimension)
        owners = nearest(self.box.places(middles), centres)[0]
        sums = grid.offsets_of(owners, occupied, offsets, self.k, self._dimension)
        return self._drawn({OFFSETS: sums})[OFFSETS]
