"""Noisy measurements of bounded users: each user adds an integer vector of bounded length."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.sparse import csr_array

from ptklib.arrays import Floats, Ints
from ptklib.embeddings.plan import CANDIDATES, UNIT, FitPlan, Measurement
from ptklib.embeddings.poisson import Items, local_step, predicted
from ptklib.embeddings.recommend import batches, cutoff_of, recall
from ptklib.embeddings.spectrum import GRID, ITEMS_SEEN, common_taste
from ptklib.embeddings.users import Users
from ptklib.mechanisms import additive
from ptklib.mechanisms.coins import tossed

HELD_OUT = 0.1
"""Share of users that learn nothing and only compare the result with popularity."""

USER_CELL = 0.2
"""What a user adds to the number of users, in lengths of its longest vector of counts."""

TOTAL_WEIGHT = 0.1
"""How much a user's factors count beside the division of its entries, when both are measured together."""

KNOWN = 0.75
"""Share of the entries of these users that is known of them when the rest is to be recommended."""

LARGEST_GAIN = 0.5
"""Differences of recall are clipped to this: larger ones are rare, and the noise is proportional."""

_BOTH = sqrt(1 + USER_CELL**2)
"""Length of a user's counts and of its cell together, in lengths of the former."""

_WHOLE = 1 - 1e-9
"""Outweighs the rounding of float64 in a clipped length."""


@dataclass(frozen=True, eq=False)
class Counts:
    """Noisy sums of weights per item, the variance of their noise, and the noisy number of users where measured."""

    items: Floats
    variance: float
    users: float = 0.0

    def __add__(self, other: "Counts") -> "Counts":
        """Return both measurements together, weighted by their precision."""
        mine = other.variance / (self.variance + other.variance)
        items = mine * self.items + (1 - mine) * other.items
        return Counts(items, mine * self.variance, self.users)

    def times(self, factor: float) -> "Counts":
        """Return the same shares on another scale."""
        return Counts(self.items * factor, self.variance * factor**2, self.users)


class Measurements:
    """The only holder of exact rows in a fit: takes each measurement of the plan with its noise.

    Notes
    -----
    :Sensitivity: a user adds one vector, computed from its own entries and from released values, scaled down to a
        length of at most ``UNIT * (1 - 1e-9)`` and truncated towards zero, entry by entry: an integer vector of length
        at most UNIT. Sums of integers below 2**53 are exact in float64, so a sum moves by exactly that vector. A user
        whose vector has no finite length adds nothing, whatever the others are. Nothing warns: a warning would tell
        that there is such a user.
    """

    def __init__(self, users: Users, n_items: int, plan: FitPlan) -> None:
        self._all = users
        apart = users.coins(HELD_OUT)
        self._train = users.take(np.flatnonzero(~apart))
        self._apart = users.take(np.flatnonzero(apart))
        self._n_items, self._plan = n_items, plan

    def no_comparison(self) -> None:
        """Let everybody take part in the remaining directions and rounds, and nobody in the comparison.

        Notes
        -----
        Those kept apart have met neither directions nor rounds yet, and now meet no comparison: their loss is at
        most that of those who trained. Whether this is called follows from released values alone.
        """
        self._train, self._apart = self._all, self._all.take(np.zeros(0, dtype=np.int64))

    @np.errstate(all="ignore")
    def counts(self, longest: float) -> Counts:
        """Return the sum of weights of each item, and the number of users.

        Parameters
        ----------
        longest : float
            Length of a user's vector of weights above which it is scaled down.
        """
        users, last = self._all, self._n_items
        entries = np.append(users.weights, np.full(len(users), USER_CELL * longest))
        owners = np.append(users.owners, np.arange(len(users)))
        items = np.append(users.items, np.full(len(users), last))
        units = _clipped(entries[:, None], owners, len(users), longest * _BOTH)[0][:, 0]
        total = np.bincount(items, weights=units, minlength=last + 1).astype(np.float64)
        step = longest * _BOTH / UNIT
        noisy = self._draw(self._plan.counts, total) * step
        return Counts(
            noisy[:last], (self._plan.counts.scale * step) ** 2, float(noisy[last] / (USER_CELL * longest))
        )

    @np.errstate(all="ignore")
    def usual_counts(self, longest: float) -> Counts:
        """Return the sum of weights of each item from all users, each cut to a usual length."""
        return self._noisy_counts(self._plan.usual, self._all, longest)

    @np.errstate(all="ignore")
    def more_counts(self, longest: float, sampled: bool) -> Counts:
        """Return the sum of weights of each item once more, in place of directions or of a round of inference.

        Notes
        -----
        In a round all but a sample of users are missing: sums are scaled up to all of them. Everybody takes part,
        after `no_comparison`.
        """
        return self._noisy_counts(*self._takers(sampled), longest)

    def _noisy_counts(self, plan: Measurement, users: Users, longest: float) -> Counts:
        units = _clipped(users.weights[:, None], users.owners, len(users), longest)[0][:, 0]
        total = np.zeros(plan.size)
        total[: self._n_items] = np.bincount(users.items, weights=units, minlength=self._n_items)
        step = longest / UNIT / plan.sampling_rate
        noisy = self._draw(plan, total)[: self._n_items] * step
        return Counts(noisy, (plan.scale * step) ** 2)

    @np.errstate(all="ignore")
    def common_taste(self, share: Floats, scale: Floats, k: int) -> tuple[float, float]:
        """Return how much taste all users have in common, in users, and the deviation of its noise.

        Parameters
        ----------
        share : ndarray of shape (n_items,)
            Of all weight: among its largest, tastes are looked for.
        scale : ndarray of shape (n_items,)
            As in `directions`.

        Notes
        -----
        :Sensitivity: that of `spectrum.common_taste`, with the rounding the plan allows for.
        """
        plan, users = self._plan.spectrum, self._all
        seen = np.sort(np.argsort(-share, kind="stable")[:ITEMS_SEEN])
        place = np.full(self._n_items, -1)
        place[seen] = np.arange(len(seen))
        entries = users.weights * scale[users.items]
        length = np.sqrt(np.bincount(users.owners, weights=entries**2, minlength=len(users)))
        units = _clipped((entries / length[users.owners])[:, None], users.owners, len(users), 1.0)[0][:, 0]
        there = place[users.items] >= 0
        starts = np.append(0, np.cumsum(there))[users.starts]
        exact = common_taste(
            np.trunc(units[there] * (GRID / UNIT)).astype(np.int64),
            place[users.items[there]],
            starts,
            (share * scale)[seen],
            k,
        )
        noisy = self._draw(plan, np.trunc([exact * UNIT]))
        return float(noisy[0] / UNIT), plan.scale / UNIT

    @np.errstate(all="ignore")
    def directions(self, basis: Floats, scale: Floats, longest: float) -> Floats:
        """Return the noisy product of the Gram matrix of users with `basis`, (n_items, k).

        Parameters
        ----------
        basis : ndarray of shape (n_items, k)
        scale : ndarray of shape (n_items,)
            The factor of an entry of each item; then every user has length 1.
        longest : float
            Length of a user's projection above which it is scaled down.
        """
        total = np.zeros((self._n_items, basis.shape[1]))
        for users in self._train.chunks():
            owners, n = users.owners, len(users)
            entries = users.weights * scale[users.items]
            length = np.sqrt(np.bincount(owners, weights=entries**2, minlength=n))
            entries = entries / np.maximum(length, 1e-300)[owners]
            rows = csr_array((entries, users.items, users.starts), (n, self._n_items))
            parts = entries[:, None] * (rows @ basis)[owners]
            total += self._added(users, _clipped(parts, owners, n, longest)[0])
        zeros = np.zeros(basis.shape[1])
        noisy = self._draw(self._plan.directions, np.append(total.ravel(), zeros))
        return noisy[: total.size].reshape(total.shape) * (longest / UNIT)

    @np.errstate(all="ignore")
    def statistics(self, items: Items, longest: float, sampled: bool) -> tuple[Floats, Floats, float]:
        """Return the sums over users of ``y phi`` per item and of E[theta], and the deviation of the former's noise.

        Parameters
        ----------
        longest : float
            Length of a user's vector above which it is scaled down, like a user of a fractional number.
        sampled : bool
            Whether a fresh Poisson sample of users takes part, or all of them.
        """
        plan, train = self._takers(sampled)
        k = items.mean.shape[1]
        total, sums = np.zeros((self._n_items, k)), np.zeros(k)
        for users in train.chunks():
            local = local_step(users, items)
            units, own = _clipped(local.parts, users.owners, len(users), longest, local.mean * TOTAL_WEIGHT)
            total += self._added(users, units)
            sums += own.sum(axis=0)
        noisy = self._draw(plan, np.append(total.ravel(), sums))
        step = longest / UNIT / plan.sampling_rate
        return (
            noisy[: total.size].reshape(total.shape) * step,
            noisy[total.size :] * (step / TOTAL_WEIGHT),
            plan.scale * step,
        )

    @np.errstate(all="ignore")
    def gains(self, candidates: list[Items], popularity: Floats) -> tuple[Floats, float]:
        """Return how many of the users kept apart each candidate serves better than popularity, and the noise.

        Notes
        -----
        Most of a user's entries, by fresh coins, give its factors; the others are to be among the recommendations.
        A user adds the difference of its recall, clipped, for each candidate.
        """
        given = tossed(len(self._apart.items), KNOWN)
        cutoff = cutoff_of(self._n_items)
        total = np.zeros(CANDIDATES)
        longest = LARGEST_GAIN * CANDIDATES**0.5
        context, hidden = self._apart.keep(given), self._apart.keep(~given)
        for places in batches(len(self._apart), self._n_items):
            some, wanted = context.take(places), hidden.take(places)
            base = recall(np.tile(popularity, (len(places), 1)), some, wanted, cutoff)
            for i, items in enumerate(candidates):
                scores = predicted(local_step(some, items).mean, items.mean)
                gain = np.clip(recall(scores, some, wanted, cutoff) - base, -LARGEST_GAIN, LARGEST_GAIN)
                total[i] += np.trunc(gain * (UNIT / longest * _WHOLE)).sum()
        noisy = self._draw(self._plan.gain, total) * (longest / UNIT)
        return noisy, self._plan.gain.scale * longest / UNIT

    def _takers(self, sampled: bool) -> tuple[Measurement, Users]:
        plan = self._plan.rounds if sampled else self._plan.directions
        if plan.sampling_rate == 1:
            return plan, self._train
        return plan, self._train.take(np.flatnonzero(self._train.coins(plan.sampling_rate)))

    def _added(self, users: Users, units: Floats) -> Floats:
        ones = csr_array(
            (np.ones(len(units)), users.items, np.arange(len(units) + 1)), (len(units), self._n_items)
        )
        return np.asarray(ones.T @ units)

    def _draw(self, plan: Measurement, exact: Floats) -> Floats:
        return additive.gaussian(exact.astype(np.int64), scale=plan.scale).astype(np.float64)


def _clipped(
    parts: Floats, owners: Ints, n_users: int, longest: float, own: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the integers that users add for their entries, and for themselves: of length UNIT at most per user.

    Parameters
    ----------
    parts : ndarray of shape (n_entries, k)
    longest : float
        Length that becomes UNIT; longer vectors are scaled down to it.
    own : ndarray of shape (n_users, m), optional
        The rest of each user's vector.

    Notes
    -----
    Lengths are taken in shares of `longest`: what is too small to be squared is then too small to count. If a
    user's length is not finite, because one of its numbers is not or is too large to be squared, it adds
    zeros.
    """
    parts = parts / longest
    own = np.zeros((n_users, 0)) if own is None else own / longest
    squares = np.bincount(owners, weights=np.einsum("nk,nk->n", parts, parts), minlength=n_users)
    length = np.sqrt(squares + np.einsum("nk,nk->n", own, own))
    usable = np.isfinite(length)
    factor = UNIT * _WHOLE / np.maximum(length, 1.0)
    units = np.where(usable[owners][:, None], np.trunc(parts * factor[owners][:, None]), 0.0)
    return units, np.where(usable[:, None], np.trunc(own * factor[:, None]), 0.0)
