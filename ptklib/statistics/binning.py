"""Public bins of one value: which bin a row is in, and the noisy levels its counts are released on."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import Bounds
from ptklib.scalars import finite_number, is_integer

BINS_MAX = 1024


@dataclass(frozen=True, eq=False)
class Binning:
    """Bins between public edges, half open but the last; flat, or with a coarse level of `branch` bins a node.

    Notes
    -----
    A quantile needs sums of bins from one end. Over `b` nodes whose sum is known, the mean variance of such a
    sum is ``(b**2 - 1) / (6 b)`` times that of a node. With two levels each node has four times the variance
    (half the epsilon), but a sum crosses about ``sqrt(B)`` nodes instead of ``B``; the smaller total is taken.
    """

    edges: Floats
    branch: int
    even: bool

    @classmethod
    def of(cls, given: object, bounds: Bounds, column: str) -> Self:
        """Read a number of bins of equal width, or edges from one bound to the other."""
        edges = _even_edges(given, bounds, column) if is_integer(given) else _edges(given, bounds, column)
        n_bins = len(edges) - 1
        branch = round(math.sqrt(n_bins))
        two_levels = 4 * (_prefix_variance(math.ceil(n_bins / branch)) + _prefix_variance(branch))
        return cls(edges, branch if two_levels < _prefix_variance(n_bins) else 1, is_integer(given))

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    @property
    def levels(self) -> tuple[int, ...]:
        """Number of nodes of each released level, the bins last."""
        return (self.n_bins,) if self.branch == 1 else (len(self.starts), self.n_bins)

    @property
    def starts(self) -> Ints:
        """The first bin of each node of the coarse level."""
        return np.arange(0, self.n_bins, self.branch)

    @property
    def prefix_variance(self) -> float:
        """Mean variance of a sum of bins from one end, counted in variances of one noisy node."""
        return sum(
            map(_prefix_variance, (self.n_bins,) if self.branch == 1 else (self.levels[0], self.branch))
        )

    def codes(self, values: Floats) -> Ints:
        """Return the bin of each finite value; values beyond the bounds are in the first or last bin."""
        if not self.even:
            return np.searchsorted(self.edges[1:-1], values, side="right").astype(np.int64, copy=False)
        low, high = self.edges[0], self.edges[-1]
        places = np.clip(values, low, high) - low
        places *= self.n_bins / 2.0**11  # the power of two keeps wide bounds from overflowing
        places /= (high - low) / 2.0**11
        return np.asarray(np.minimum(places.astype(np.int64), self.n_bins - 1))

    def collect(self, bins: Ints) -> list[Ints]:
        """Return counts on each released level from those of bins, of shape (n_groups * n_bins,)."""
        if self.branch == 1:
            return [bins]
        coarse = np.add.reduceat(bins.reshape(-1, self.n_bins), self.starts, axis=1)
        return [coarse.reshape(-1), bins]

    def consistent(self, levels: list[Floats]) -> Floats:
        """Return the best linear estimate of the bins, of shape (n_groups, n_bins), from equally noisy levels.

        Notes
        -----
        A node and the sum of its ``b`` bins are two measurements of one number, of variance 1 and b: each bin takes
        ``1 / (b + 1)`` of the difference. The map is the same in every window, so that the estimates add up.
        """
        bins = levels[-1].reshape(-1, self.n_bins)
        if self.branch == 1:
            return bins
        miss = levels[0].reshape(len(bins), -1) - np.add.reduceat(bins, self.starts, axis=1)
        sizes = self._sizes()
        return bins + np.repeat(miss / (sizes + 1), sizes, axis=1)

    def bin_variance(self, variance: float) -> Floats:
        """Return the variance of each consistent bin when each released node has this one."""
        if self.branch == 1:
            return np.full(self.n_bins, variance)
        sizes = self._sizes()
        return np.repeat(variance * sizes / (sizes + 1), sizes)

    def total_variance(self, variance: float) -> float:
        """Return the variance of the sum of all consistent bins."""
        if self.branch == 1:
            return self.n_bins * variance
        sizes = self._sizes()
        return float(np.sum(variance * sizes / (sizes + 1)))

    def _sizes(self) -> Ints:
        return np.diff(self.starts, append=self.n_bins)


def binnings(given: object, bounds: Mapping[str, Bounds]) -> dict[str, Binning]:
    """Read the parameter `bins` for each value column."""
    if isinstance(given, Mapping):
        if set(given) != set(bounds):
            raise InvalidParameterError("bins must declare exactly the columns of values")
        return {name: Binning.of(given[name], bound, name) for name, bound in bounds.items()}
    return {name: Binning.of(given, bound, name) for name, bound in bounds.items()}


def _prefix_variance(n_nodes: int) -> float:
    return (n_nodes * n_nodes - 1) / (6 * n_nodes)


def _even_edges(given: Any, bounds: Bounds, column: str) -> Floats:
    if not 2 <= given <= BINS_MAX:
        raise InvalidParameterError(f"bins of {column!r} must be 2 to {BINS_MAX} bins, or their edges")
    parts = np.arange(int(given) + 1) / int(given)
    edges = bounds.low + (bounds.high - bounds.low) * parts
    edges[-1] = bounds.high
    return _increasing(edges, column)


def _edges(given: Any, bounds: Bounds, column: str) -> Floats:
    if not isinstance(given, list | tuple | range | np.ndarray) or not 3 <= len(given) <= BINS_MAX + 1:
        raise InvalidParameterError(f"bins of {column!r} must be 2 to {BINS_MAX} bins, or their edges")
    edges = np.array([finite_number(edge, f"an edge of {column!r}") for edge in given])
    if edges[0] != bounds.low or edges[-1] != bounds.high:
        raise InvalidParameterError(f"the edges of {column!r} must run from the lower to the upper bound")
    return _increasing(edges, column)


def _increasing(edges: Floats, column: str) -> Floats:
    if not np.all(np.diff(edges) > 0):
        raise InvalidParameterError(f"the edges of {column!r} must increase")
    return edges
