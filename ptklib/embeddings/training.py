"""One fit: popularity, directions of taste, rounds of stochastic variational inference, a last comparison."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from ptklib.arrays import Floats
from ptklib.embeddings import factors
from ptklib.embeddings.measure import Counts, Measurements
from ptklib.embeddings.plan import CANDIDATES, DIRECTIONS, UNIT, FitPlan
from ptklib.embeddings.poisson import ACTIVITY_MEAN, ACTIVITY_SHAPE, FACTOR_SHAPE, Items
from ptklib.embeddings.spectrum import hidden_below, largest_of_noise
from ptklib.embeddings.users import Users

_FADING = 0.7
"""Round t, from 1, has a step of ``t**-0.7``: later rounds know better factors."""

_RARE = 0.2
"""Added to popularity, in shares of the mean, before its power tells what an entry weighs."""

_POWER = 0.25
_SURE = 2.0
"""Standard deviations of noise by which factors must beat popularity: factors of noise lose by more than that.

Factors that are continued are given up when they lose by as many.
"""


@dataclass(frozen=True, eq=False)
class Trained:
    """Noisy counts with the deviation of their noise, and item factors."""

    counts: Floats
    """Shape (n_items,)."""
    counts_deviation: float
    factors: Floats
    """Blended with popularity, as far as to popularity alone. Shape (n_items, k)."""


def train(
    users: Users, n_items: int, k: int, plan: FitPlan, heaviest: float, max_rows: int, previous: Floats | None
) -> Trained:
    """Return released item factors.

    Parameters
    ----------
    heaviest : float
        Largest weight of one row.
    previous : ndarray of shape (n_items, k), optional
        Released factors to start from.
    """
    measured = Measurements(users, n_items, plan)
    fit = _Fit(measured, plan, k, heaviest, max_rows)
    prior = None if previous is None or factors.alike(previous) else previous
    visible = fit.tastes_visible()
    items, unused = None, DIRECTIONS
    if prior is not None:
        items, unused = Items.known(prior), 0
        for _ in range(DIRECTIONS):
            items = fit.round(items, prior, sampled=False)
    elif visible:
        items, unused = fit.search()
    if items is None:
        fit.count_more(unused)
    else:
        for _ in range(plan.rounds.count):
            items = fit.round(items, prior, sampled=True)
    counts, share = fit.popularity()
    alike = Items.known(np.outer(share, np.ones(k)), share)
    blends = [_blend(items or alike, share, (i + 1) / CANDIDATES) for i in range(CANDIDATES)]
    gains, noise = measured.gains(blends, share)
    return Trained(counts.items, sqrt(counts.variance), _chosen(blends, gains / noise, share, prior))


def _chosen(blends: list[Items], gains: Floats, share: Floats, prior: Floats | None) -> Floats:
    """Return the factors to release; `gains` are in standard deviations of their noise."""
    best = int(gains.argmax())
    if gains[best] > _SURE:
        return blends[best].mean
    if prior is not None and gains[best] > -_SURE:
        return prior
    return _blend(blends[-1], share, 0.0).mean


def _blend(items: Items, share: Floats, weight: float) -> Items:
    return Items.known(factors.blended(items.mean, share, weight), share)


class _Fit:
    """The rounds of one fit, and what they add up to."""

    def __init__(self, measured: Measurements, plan: FitPlan, k: int, heaviest: float, max_rows: int) -> None:
        self._full = heaviest * sqrt(max_rows)
        counts = measured.counts(self._full)
        self._measured, self._plan, self._k = measured, plan, k
        self._n_users = max(counts.users, 1.0)
        self._least = self._n_users * heaviest
        self._weight = max(float(counts.items.sum()), self._least)
        usual = min(self._weight / self._n_users, heaviest * max_rows)
        self._longest = min(0.8 * sqrt(usual * heaviest), self._full)
        self._counts = self._joined(counts, measured.usual_counts(self._longest))
        self._share = factors.popularity(self._counts.items, sqrt(self._counts.variance))
        self._scale = (self._share * len(self._share) + _RARE) ** -_POWER
        self._sums, self._rates, self._variance = np.zeros((len(self._share), k)), np.zeros(k), 0.0
        self._rounds = 0

    def tastes_visible(self) -> bool:
        """Return whether the common tastes of users may exceed the noise of directions."""
        n, k = len(self._share), self._k
        common, deviation = self._measured.common_taste(self._share, self._scale, k)
        if common < _SURE * deviation:
            return False
        # Lengths are cut to what these eigenvalues, if all alike, would make them.
        longest = self._clipping(sqrt(k) * common)
        return common / sqrt(k) > hidden_below(n, k) * self._plan.directions.scale / UNIT * longest

    def count_more(self, unused: int) -> None:
        """Spend all of the rest on popularity: `unused` measurements of directions and the rounds."""
        self._measured.no_comparison()
        more = [self._measured.more_counts(self._longest, sampled=False) for _ in range(unused)]
        more += [
            self._measured.more_counts(self._longest, sampled=True) for _ in range(self._plan.rounds.count)
        ]
        together = more[0]
        for other in more[1:]:
            together += other
        self._counts = self._joined(self._counts, together)

    def _joined(self, counts: Counts, cut: Counts) -> Counts:
        """Add counts of users cut to a usual length, scaled up to the total there is without.

        Notes
        -----
        Cutting takes away more noise than it takes of the counts. A user is cut by at most ``full / longest``.
        """
        ratio = max(float(counts.items.sum()), self._least) / max(float(cut.items.sum()), self._least)
        return counts + cut.times(float(np.clip(ratio, 1.0, self._full / self._longest)))

    def popularity(self) -> tuple[Counts, Floats]:
        """Return the counts, and the share of each item from them and from what the rounds tell of it."""
        counts = self._counts
        if self._rounds:
            sums = self._sums.sum(axis=1)
            scale = max(float(counts.items.sum()), self._least) / max(float(sums.sum()), self._least)
            counts += Counts(sums * scale, self._k * self._variance * scale**2)
        return self._counts, factors.popularity(counts.items, sqrt(counts.variance))

    def search(self) -> tuple[Items | None, int]:
        """Return first factors: sparse directions in which users differ from popularity; and measurements left.

        If the second measurement or the last shows no direction that noise alone would not show, there are no
        factors.
        """
        n, k, share, scale = len(self._share), self._k, self._share, self._scale
        usual = share * scale
        usual /= np.linalg.norm(usual)
        basis = factors.first_basis(usual, k)
        longest = min(1.5 * sqrt(k / n), 1.0)
        for left in reversed(range(DIRECTIONS)):
            noisy = factors.without(self._measured.directions(basis, scale, longest), usual)
            basis, values, _ = np.linalg.svd(noisy, full_matrices=False)
            deviation = self._plan.directions.scale / UNIT * longest
            if left < DIRECTIONS - 1 and values[0] < largest_of_noise(n, k) * deviation:
                return None, left
            signal = np.sqrt(np.maximum(values**2 - n * deviation**2, 0.0)).sum()
            longest = self._clipping(signal)
        return Items.known(factors.first_loadings(basis, scale, share)), 0

    def _clipping(self, signal: float) -> float:
        """Return the length to cut projections of users to, when their squares add up to `signal`."""
        n, k = len(self._share), self._k
        return float(np.clip(1.25 * sqrt(signal / self._n_users), sqrt(k / n) / 2, 1.0))

    def round(self, items: Items, prior: Floats | None, sampled: bool) -> Items:
        """Return the factors after one noisy step along the natural gradient.

        Notes
        -----
        The posterior is of the exponential family: a step of length r replaces a share r of the statistics so far.
        """
        sums, rates, deviation = self._measured.statistics(items, self._longest, sampled)
        self._rounds += 1
        step = self._rounds**-_FADING
        self._sums = (1 - step) * self._sums + step * sums
        self._rates = (1 - step) * self._rates + step * rates
        self._variance = (1 - step) ** 2 * self._variance + (step * deviation) ** 2
        total = np.maximum(self._sums.sum(axis=0), self._weight / self._k * 1e-3)
        expected = np.outer(self._share, total) if prior is None else prior / prior.sum(axis=0) * total
        shape = FACTOR_SHAPE + factors.shrunken(self._sums, expected, sqrt(self._variance))
        rates = np.maximum(self._rates, total * 0.1)
        activity = (ACTIVITY_SHAPE + self._k * FACTOR_SHAPE) / (
            ACTIVITY_SHAPE / ACTIVITY_MEAN + items.mean.sum(axis=1)
        )
        return Items.posterior(shape, rates + activity[:, None])
