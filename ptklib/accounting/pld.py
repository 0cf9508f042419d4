"""Privacy loss distributions: the tightest figure we can prove for a list of releases, for reports.

Each event is replaced by its privacy profile (`profiles`), and the profile by a pair of laws on a grid whose
profile is above it ("connect the dots" [1]_). The pairs are composed by FFT; both by dp-accounting. The
figure never decides an admission. It is valid for a list of events that was fixed beforehand, not for one
chosen in the light of its outputs.

References
----------
.. [1] Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, "Connect the Dots: Tighter Discrete Approximations of Privacy Loss
   Distributions", 2022.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ptklib.accounting.composition import epsilon_of
from ptklib.accounting.curves import event_delta
from ptklib.accounting.profiles import Gaussian, Laplace, Leaf, Parallel, Parts, Pure, lawful, parts_of
from ptklib.arrays import Floats, Ints
from ptklib.events import EpsilonDelta
from ptklib.exceptions import PrivacyParameterError
from ptklib.privacy import DELTA_LIMIT, PrivacyLoss

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf

GROUPS_MAX = 64
"""Different mechanisms that are composed; more than that are replaced by the worst of those near each other."""

_EPSILON_MAX = 60.0
"""Above this there is nothing to report, and float64 comes to its end."""

_STEPS = 2048
"""Points of the grid below the figure that is to be improved."""

_TRUNCATED = 1e-15
"""Mass that each composition may move to an infinite loss."""

_FFT = 1e-14
"""What rounding takes off delta at most, per composed mechanism; beside exact binomials it was below 1e-16."""

_DISCRETE = 1e-15
"""What rounding to integers adds to epsilon per Gaussian release (docs/proofs/discrete-gaussian.md)."""

Leaves = tuple[tuple[Leaf, int], ...]


def pld_epsilon(losses: Sequence[PrivacyLoss], delta: float) -> float:
    """Return an epsilon of all `losses` together at `delta`, never above that of `epsilon_of`, or infinity; rounded up.

    Parameters
    ----------
    losses : sequence of PrivacyLoss
        A loss whose event is unknown counts as any mechanism of its epsilon and delta.
    delta : float
        At 0 the figure is that of `epsilon_of`; above `DELTA_LIMIT` the limit is taken.

    Notes
    -----
    Valid for a fixed list of losses, however adaptively their queries were chosen. Up to `GROUPS_MAX` kinds of
    mechanisms are kept apart, whatever their counts; time grows with that and not with the number of losses.
    """
    delta = min(delta, math.nextafter(DELTA_LIMIT, 0.0))
    distinct = _merged([_composable(loss) for loss in losses])
    plain = epsilon_of(distinct, delta)
    if not 0 < plain <= _EPSILON_MAX or delta == 0:
        return plain
    parts, composed = _together(distinct, delta)
    target = (delta - parts.delta) * (1 - 1e-9) - _FFT * (composed + 100)
    if target <= 0 or not parts.leaves:
        return plain
    finer = min(8.0, max(1.0, math.sqrt(composed / 1000)))  # errors of the grid add up
    step = 2.0 ** math.floor(math.log2(plain / (_STEPS * finer)))
    top = math.ceil((4 * plain + 1) / step)
    improved = _composed(_grouped(parts.leaves), step, top).epsilon(target)
    return min(plain, improved * (1 + 1e-12) + _DISCRETE * 4 * composed)


def pld_advantage(loss: PrivacyLoss) -> float:
    """Return the delta of a loss at epsilon 0: how much better than blindly anybody can guess whether a unit was in.

    A fair coin decides whether it is; ``(1 + advantage) / 2`` of all guesses are right at most. Rounded up.
    """
    distinct = _merged([_composable(loss)])
    parts, composed = _together(distinct, 1e-9)
    if not parts.leaves:
        return min(parts.delta, 1.0)
    reach = max(sum(leaf.reach * count for leaf, count in parts.leaves), 1e-9)
    if reach > _EPSILON_MAX:
        return 1.0
    step = 2.0 ** math.floor(math.log2(reach / _STEPS))
    top = math.ceil((4 * reach + 1) / step)
    removed, added = _composed(_grouped(parts.leaves), step, top).deltas(np.zeros(1))
    return min(float(max(removed[0], added[0])) * (1 + 1e-9) + parts.delta + _FFT * (composed + 100), 1.0)


def _composable(loss: PrivacyLoss) -> PrivacyLoss:
    """Return a loss with an event that can be composed: where it cannot, that of any mechanism of its size."""
    try:
        parts_of(loss.event)
    except PrivacyParameterError:
        return replace(loss, event=EpsilonDelta(epsilon=loss.epsilon, delta=loss.delta))
    return loss


def _merged(losses: Sequence[PrivacyLoss]) -> list[PrivacyLoss]:
    """Equal losses as one with a count."""
    return [
        PrivacyLoss(
            count * loss.epsilon,
            min(count * loss.delta, 1 - 1e-9),
            replace(loss.event, count=loss.event.times * count),
        )
        for loss, count in Counter(losses).items()
    ]


def _together(losses: Sequence[PrivacyLoss], delta: float) -> tuple[Parts, int]:
    """All mechanisms of the losses, and how many they are; Gaussians on all rows are added up to one."""
    composed = 0
    counts: Counter[Leaf] = Counter()
    inverse_squares: list[float] = []
    failing: list[float] = []
    for loss in losses:
        parts = parts_of(loss.event) or _by_its_curve(loss, delta / (1000 * len(losses)))
        failing.append(parts.delta)
        composed += _size(parts.leaves)
        for leaf, count in parts.leaves:
            if isinstance(leaf, Gaussian) and leaf.rate == 1:
                inverse_squares.append(count / leaf.multiplier**2)
            else:
                counts[leaf] += count
    if inverse_squares:
        counts[Gaussian(1 / math.sqrt(math.fsum(inverse_squares) * (1 + 1e-12)))] += 1
    return Parts(tuple(counts.items()), math.fsum(failing) * (1 + 1e-12)), composed


def _size(leaves: Leaves) -> int:
    lists = (leaf.lists if isinstance(leaf, Parallel) else () for leaf, _ in leaves)
    return sum(
        count * max(map(_size, inner), default=1) for inner, (_, count) in zip(lists, leaves, strict=True)
    )


def _by_its_curve(loss: PrivacyLoss, delta: float) -> Parts:
    """Count a loss without a profile, as any mechanism of the epsilon that its curve proves at a small delta more."""
    spent = event_delta(loss.event) + delta
    return Parts(((Pure(epsilon_of([loss], spent)), 1),), spent)


def _grouped(leaves: Leaves) -> Leaves:
    """At most `GROUPS_MAX` mechanisms: where there are more, those of like reach become the worst of them."""
    width = 0.01
    groups = [[one] for one in leaves]
    while len(groups) > GROUPS_MAX:
        near: dict[tuple[str, int], list[tuple[Leaf, int]]] = {}
        for leaf, count in leaves:
            place = math.floor(math.log(leaf.reach) / math.log1p(width))
            near.setdefault((_kind(leaf), place), []).append((leaf, count))
        groups, width = list(near.values()), 2 * width
    return tuple((_worst([leaf for leaf, _ in group]), sum(n for _, n in group)) for group in groups)


def _kind(leaf: Leaf) -> str:
    if isinstance(leaf, Parallel):
        return ""  # these are of several kinds already
    return "Additive" if isinstance(leaf, Pure | Laplace) else type(leaf).__name__


def _worst(leaves: Sequence[Leaf]) -> Leaf:
    if len(leaves) == 1:
        return leaves[0]
    if all(isinstance(leaf, Pure) for leaf in leaves):
        return max(leaves, key=lambda leaf: leaf.reach)
    return Parallel(tuple(((leaf, 1),) for leaf in leaves))


@dataclass(frozen=True)
class _Pairs:
    """Two privacy loss distributions: a unit is removed, a unit is added. One and the same where they are equal."""

    removed: PLDPmf
    added: PLDPmf

    def self_composed(self, count: int) -> _Pairs:
        with np.errstate(over="ignore"):  # of its many bounds on the tails, those that overflow are left out
            return self._each(lambda pmf: pmf.self_compose(count, _TRUNCATED) if count > 1 else pmf)

    def composed(self, other: _Pairs) -> _Pairs:
        from dp_accounting.pld.pld_pmf import compose_pmfs

        removed = compose_pmfs(self.removed, other.removed, _TRUNCATED)
        if self.removed is self.added and other.removed is other.added:
            return _Pairs(removed, removed)
        return _Pairs(removed, compose_pmfs(self.added, other.added, _TRUNCATED))

    def epsilon(self, delta: float) -> float:
        return max(float(pmf.get_epsilon_for_delta(delta)) for pmf in {self.removed, self.added})

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        removed = np.asarray(self.removed.get_delta_for_epsilon(epsilons))
        if self.removed is self.added:
            return removed, removed
        return removed, np.asarray(self.added.get_delta_for_epsilon(epsilons))

    def _each(self, change: Callable[[PLDPmf], PLDPmf]) -> _Pairs:
        removed = change(self.removed)
        return _Pairs(removed, removed if self.removed is self.added else change(self.added))


def _composed(leaves: Leaves, step: float, top: int) -> _Pairs:
    parts = [_single(leaf, step, top).self_composed(count) for leaf, count in leaves]
    total = parts[0]
    for part in parts[1:]:
        total = total.composed(part)
    return total


@lru_cache(maxsize=64)
def _single(leaf: Leaf, step: float, top: int) -> _Pairs:
    """Return a pair on the grid of `step`, from ``-top`` to `top` of its steps, whose profile is above the leaf's."""
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots  # takes seconds to import

    places = _places(leaf, step, top)
    removed, added = _deltas(leaf, np.asarray(places * step, dtype=np.float64), step, top)
    first = create_pmf_pessimistic_connect_dots(step, places, removed)
    if removed is added:
        return _Pairs(first, first)
    return _Pairs(first, create_pmf_pessimistic_connect_dots(step, places, added))


def _places(leaf: Leaf, step: float, top: int) -> Ints:
    if not isinstance(leaf, Parallel) and (knots := leaf.knots) is not None:
        # straight between its kinks: nothing is lost by leaving the rest of the grid out
        near = np.concatenate([np.floor(knots / step), np.ceil(knots / step)])
        return np.unique(np.clip(near, -top, top).astype(np.int64))
    end = min(top, math.ceil(leaf.reach / step))
    return np.arange(-end, end + 1, dtype=np.int64)


def _deltas(leaf: Leaf, epsilons: Floats, step: float, top: int) -> tuple[Floats, Floats]:
    if not isinstance(leaf, Parallel):
        return leaf.deltas(epsilons)
    pairs = [_deltas_of_list(leaves, epsilons, step, top) for leaves in leaf.lists]
    removed = np.maximum.reduce([one for one, _ in pairs])
    if all(one is other for one, other in pairs):
        return removed, removed
    return removed, np.maximum.reduce([other for _, other in pairs])


def _deltas_of_list(leaves: Leaves, epsilons: Floats, step: float, top: int) -> tuple[Floats, Floats]:
    if len(leaves) == 1 and leaves[0][1] == 1:
        return _deltas(leaves[0][0], epsilons, step, top)
    slack = _FFT * (_size(leaves) + 100)
    removed, added = _composed(_grouped(leaves), step, top).deltas(epsilons)
    first = lawful(removed + slack, epsilons)
    return first, first if removed is added else lawful(added + slack, epsilons)
