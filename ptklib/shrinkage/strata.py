"""Groups of similar size: the shift and the strength of one level of shrinkage."""

import math
from dataclasses import dataclass

import numpy as np

from ptklib.arrays import Floats
from ptklib.shrinkage.ratios import NoisyRatios

_STANDS_OUT = 1.06
"""Times ln(groups), in standard deviations of a size: 1.5 Laplace scales, where 1 has one empty group in two."""

_STEPS, _PER_OCTAVE = 256, 6
"""Strata of groups of similar size, for either sign."""
_STRENGTHS = np.concatenate([np.geomspace(1.0, 1e8, 57), [np.inf]])
"""Strengths of shrinkage that are tried, in the least: that for means which are uniform over their bounds."""

_BETTER = 0.5
"""Standard errors by which an estimated risk must be lower to be believed."""

_KURTOSIS = 5.0
"""Variance of the square of Laplace noise, in squared variances."""

_CLEAR = 2.0
"""Standard deviations of noise that a sum of sizes must have to be divided by."""


@dataclass(frozen=True, eq=False)
class Strata:
    """Groups of similar size added up: all that the shift and the strength of a level depend on."""

    many: Floats
    sizes: Floats
    squares: Floats
    """Number of groups, sum and sum of squares of their noisy sizes. Shape (n_strata,)."""
    sums: Floats
    products: Floats
    """Of the sums of groups, and of sums times sizes. Shape (n_strata, n_columns)."""
    energy: Floats
    """Of squared sums, their mean over columns. Shape (n_strata,)."""
    variance: Floats
    """Shape (n_strata,)."""
    covariance: Floats
    """Shape (n_strata, n_columns)."""
    size_variance: float
    reach: float

    @classmethod
    def of(cls, level: NoisyRatios) -> "Strata":
        """Add up groups by size: those within the noise, then a sixth of an octave each, either sign apart."""
        n, floor = level.sizes, math.sqrt(level.size_variance)
        octaves = np.log2(np.maximum(np.abs(n), floor) / floor)
        octaves *= _PER_OCTAVE
        steps = np.minimum(octaves.astype(np.int64) + 1, _STEPS)
        place = np.where(n > 0, _STEPS + steps, np.where(n < 0, _STEPS - steps, _STEPS))
        first = int(place.min(initial=_STEPS))
        place -= first

        def added(weights: Floats) -> Floats:
            return np.bincount(place, weights).astype(np.float64, copy=False)

        def column_sums(columns: Floats) -> Floats:
            return np.column_stack([added(column) for column in columns.T])

        many = np.bincount(place).astype(np.float64)
        occupied = np.flatnonzero(many)
        energy = np.einsum("gk,gk->g", level.sums, level.sums) / level.sums.shape[1]
        return cls(
            many[occupied],
            added(n)[occupied],
            added(n * n)[occupied],
            column_sums(level.sums)[occupied],
            column_sums(level.sums * n[:, None])[occupied],
            added(energy)[occupied],
            added(level.variance)[occupied],
            column_sums(level.covariance)[occupied],
            level.size_variance,
            level.reach,
        )

    def deviations(self, shift: Floats) -> Floats:
        """Return the sums of squares of ``sums - shift * sizes``, their mean over columns."""
        square = float(shift @ shift)
        total = self.energy - (2 * (self.products @ shift) - square * self.squares) / len(shift)
        return np.asarray(np.maximum(total, 0.0))

    def noise(self, shift: Floats) -> Floats:
        """Return the sums of the variances of the noise of ``sums - shift * sizes``."""
        size_noise = float(shift @ shift) * self.size_variance * self.many
        return np.asarray(self.variance + (size_noise - 2 * (self.covariance @ shift)) / len(shift))

    def common_mean(self) -> tuple[Floats, float]:
        """Estimate the mean of all groups and how much group means differ.

        Returns
        -------
        common : ndarray of shape (n_columns,)
        prior : float
            Variance of group means around it.

        Notes
        -----
        A group of n rows has a sum ``n (common + d) + noise`` with a deviation d of variance `prior`. Two
        means are available. One is that of all groups, whose noise grows with the size of the domain. The
        other is that of the groups whose size is so far above noise that hardly any empty group of the domain
        reaches it, weighted by ``n / (n**2 prior + noise)``. The one of less estimated variance is taken, and
        drawn to 0 as far as it is uncertain. `prior` solves its likelihood equation on these large groups:
        among the others the noise of a size moves size and deviation together. The two equations are solved
        in turns.
        """
        most, n_groups = self.reach**2 / 3, float(self.many.sum())
        least = _STANDS_OUT * math.sqrt(self.size_variance) * math.log(max(n_groups, 2.0))
        mean = self.sizes / self.many
        squares = np.maximum(self.squares - self.many * self.size_variance, 0.0) * (mean > least)
        each = squares / self.many
        total, n_total = self.sums.sum(axis=0), float(self.sizes.sum())
        common, prior = np.zeros_like(total), self._moment_prior(np.zeros_like(total))
        for _ in range(6):
            noise = self.noise(common)
            spread = each * prior + noise / self.many
            weights = np.where(squares > 0, mean / spread, 0.0)
            choices = [
                (total, n_total, float(noise.sum() + squares.sum() * prior)),
                (weights @ self.sums, float(weights @ self.sizes), float(weights**2 @ (self.many * spread))),
            ]
            estimates = [(v / n**2, s / n) for s, n, v in choices if n > 0]
            uncertainty, ratio = min(estimates, key=lambda e: e[0], default=(1.0, np.zeros_like(total)))
            common = np.clip(ratio / (1 + uncertainty / most), -self.reach, self.reach)
            before = prior
            if squares.any():
                noise = self.noise(common)
                weights = each / (each * prior + noise / self.many) ** 2
                likely = float(weights @ (self.deviations(common) - noise)) / float(weights @ squares)
                prior = float(np.clip(likely, most * 1e-4, most))
            else:
                prior = self._moment_prior(common)
            if abs(prior - before) <= 1e-3 * before:
                break
        return common, prior

    def _moment_prior(self, common: Floats) -> float:
        most = self.reach**2 / 3
        scale = float(np.sum(self.squares - self.many * self.size_variance))
        signal = float(np.sum(self.deviations(common) - self.noise(common)))
        return float(np.clip(signal / scale, most * 1e-4, most)) if min(signal, scale) > 0 else most * 1e-4

    def best_strength(self, shift: Floats, prior: float) -> float:
        """Return the strength of least estimated risk, when it is clearly less than that of the usual one."""
        n, floor = np.maximum(self.sizes / self.many, 0.0), math.sqrt(self.size_variance)
        noise, scale = self.noise(shift), float(self.variance.sum() / self.many.sum())
        strengths = _STRENGTHS * (scale * 3 / self.reach**2)
        usual = int(np.argmin(np.abs(strengths * prior - scale)))
        weights = 1 / np.maximum(n, floor)
        kept = 1 - (n * n)[:, None] / ((n * n)[:, None] + strengths)
        squares = kept * kept
        risk = (weights * self.deviations(shift)) @ squares + (weights * noise) @ (1 - 2 * kept)
        best = int(np.argmin(risk))
        moved = squares[:, best] - squares[:, usual]
        unclear = _KURTOSIS * float((weights * moved * noise) ** 2 @ (1 / self.many))
        clear = risk[usual] - risk[best] > _BETTER * math.sqrt(unclear)
        return float(strengths[best if clear else usual])

    def matched_shift(self, shift: Floats, strength: float) -> tuple[Floats, float]:
        """Return the shift that fits the groups which are shrunk, and its squared standard error.

        Notes
        -----
        Groups get weights ``h(C) = (1 - a)**2 C / max(|C|, c)``, by their noisy size ``C = n + e``. The
        denominator needs the mean of ``h(C) n = h(C) C - h(C) e``; by Stein's identity ``h(C) e`` has the
        mean of ``h'(C)`` times the variance. Its sign is turned where C is negative: as many empty groups are
        on either side, and they add nothing. The part of the noise of a sum that goes with the noise of its
        size is read in the same way. A denominator within its own noise tells nothing.
        """
        n, noise, least = self.sizes / self.many, self.size_variance, 3 * math.sqrt(self.size_variance)
        own = np.zeros_like(n) if math.isinf(strength) else n * n / (n * n + strength)
        scale = (1 - own) ** 2 / np.maximum(np.abs(n), least)
        slopes = self.many * scale * ((np.abs(n) < least) - 4 * own)
        weighted = scale * self.squares
        sizes = np.sign(n) * (weighted - noise * slopes)
        denominator = float(sizes.sum())
        unsure = scale**2 * (4 * self.squares + 5 * noise * self.many) * noise
        if denominator <= _CLEAR * math.sqrt(float(unsure.sum())):
            return shift, math.inf
        slope = self.covariance / (self.many * noise)[:, None]
        top = scale @ self.products - (weighted - sizes) @ slope
        matched = np.clip(top / denominator, -self.reach, self.reach)
        n_columns, square = len(shift), float(shift @ shift) / len(shift)
        power, each = scale**2 * self.squares / self.many, sizes / self.many
        cross = (self.sums @ shift) / n_columns
        misses = power * self.energy - 2 * scale * n * each * cross + each**2 * self.many * square
        shared = np.einsum("mk,mk->m", slope, self.covariance) / n_columns
        own_noise = power * (self.variance - shared)
        expected = own_noise + np.mean((shift - slope) ** 2, axis=1) * unsure
        return matched, max(float(misses.sum()), float(expected.sum())) / denominator**2
