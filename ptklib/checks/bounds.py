"""Lower bounds of a privacy loss from what an observer guesses right."""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import ndtri

from ptklib.accounting import (
    ORDERS,
    event_delta,
    joint_multiplier,
    profile_epsilon,
    renyi_curve,
    renyi_epsilon,
)
from ptklib.privacy import PrivacyLoss

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_CUTS = 40
_RANKING = 3.0
_LEAST_RENYI = 1e-7
_LEAST_SHIFT = 1e-3
_SAME = 1 + 1e-6


@dataclass(frozen=True, slots=True)
class Rule:
    """Guess "the row is in" for scores above `above`, "it is not" for scores below `below`."""

    above: float
    below: float


@dataclass(frozen=True, slots=True)
class Bound:
    """An epsilon that the mechanism loses at least, with the confidence of the test that found it."""

    epsilon: float
    exceeds: bool
    """Whether it contradicts the declared loss."""


class LossTest(Protocol):
    """Turns guesses into a bound."""

    def strength(self, scores: Floats, inside: Bools, rule: Rule, level: float | None) -> float:
        """Return how much `rule` shows on these scores, each share being wrong with probability `level`."""

    def bound(self, strength: float) -> Bound:
        """Return what a strength says of epsilon."""

    n_shares: ClassVar[int]
    """Shares that are bounded from counts, all of which have to hold."""

    def rules(self, scores: Floats) -> list[Rule]:
        """Return rules to choose from."""


def choose_test(loss: PrivacyLoss) -> LossTest:
    """Return the most powerful test there is here against a declared loss."""
    if loss.delta == 0:
        return PureTest(loss.epsilon)
    if event_delta(loss.event) > 0:
        return ApproximateTest(loss.epsilon, loss.delta)
    multiplier = joint_multiplier([loss.event])
    if multiplier is not None and profile_epsilon(multiplier, loss.delta) <= loss.epsilon * _SAME:
        return GaussianTest(1 / multiplier, loss.delta)
    return RenyiTest(loss)


@dataclass(frozen=True, slots=True)
class PureTest:
    """Against epsilon-DP: of all guesses made, a share of ``1 / (1 + exp(-epsilon))`` can be right, no more.

    Notes
    -----
    In each trial a fair coin decides whether the row is in. Given a score that leads to a guess, epsilon-DP
    bounds the odds of either answer by ``exp(epsilon)``, so the number of right guesses among those made is at
    most binomial [1]_. Clopper-Pearson bounds its share from below, and the logit of that is the bound.

    References
    ----------
    .. [1] Steinke, Nasr, Jagielski, "Privacy Auditing with One (1) Training Run", 2023, Theorem 5.2; with one row
       per run it needs no independence between rows.
    """

    epsilon: float

    n_shares: ClassVar[int] = 1

    def strength(self, scores: Floats, inside: Bools, rule: Rule, level: float | None) -> float:
        """Return the logit of the least share of right guesses."""
        yes, no = scores > rule.above, scores < rule.below
        right = int(np.count_nonzero(yes & inside) + np.count_nonzero(no & ~inside))
        share = share_bounds(right, int(np.count_nonzero(yes | no)), level)[0]
        return math.log(share / (1 - share)) if share > 0 else -math.inf

    def bound(self, strength: float) -> Bound:
        """Return what a strength says of epsilon."""
        return Bound(max(strength, 0.0), strength > self.epsilon)

    def rules(self, scores: Floats) -> list[Rule]:
        """Return symmetric and one-sided rules."""
        return _two_sided(scores)


@dataclass(frozen=True, slots=True)
class ApproximateTest:
    """Against (epsilon, delta)-DP: ``p <= exp(epsilon) q + delta`` for every event."""

    epsilon: float
    delta: float

    n_shares: ClassVar[int] = 4

    def strength(self, scores: Floats, inside: Bools, rule: Rule, level: float | None) -> float:
        """Return the greatest log of ``(p - delta) / q``."""
        events = _event_bounds(scores, inside, rule, level)
        return max(
            math.log((low - self.delta) / high) if low > self.delta else -math.inf for low, high in events
        )

    def bound(self, strength: float) -> Bound:
        """Return what a strength says of epsilon."""
        return Bound(max(strength, 0.0), strength > self.epsilon)

    def rules(self, scores: Floats) -> list[Rule]:
        """Return one-sided rules."""
        return [Rule(cut, -math.inf) for cut in _cuts(scores)]


@dataclass(frozen=True, slots=True)
class GaussianTest:
    """Against Gaussian noise: with the row no output is further away than a normal variable moved by `shift`.

    Notes
    -----
    For Gaussian noise the promised epsilon at a small delta is far above what any event that can be observed
    shows; a test of (epsilon, delta) would not even find noise of half the scale. What is promised is
    stronger: ``z(p) - z(q) <= shift`` for every event of probability p with the row and q without, z being the
    normal quantile [1]_. docs/proofs/discrete-gaussian.md makes the discrete noise no less than continuous
    noise of the given shift. The bound is the epsilon, at the declared delta, of the shift that was found.

    References
    ----------
    .. [1] Dong, Roth, Su, "Gaussian Differential Privacy", 2022, Theorem 2.7.
    """

    shift: float
    delta: float

    n_shares: ClassVar[int] = 4

    def strength(self, scores: Floats, inside: Bools, rule: Rule, level: float | None) -> float:
        """Return the greatest shift of a normal variable that the shares need."""
        events = _event_bounds(scores, inside, rule, level)
        return max(float(ndtri(low) - ndtri(high)) for low, high in events)

    def bound(self, strength: float) -> Bound:
        """Return what a strength says of epsilon."""
        if not strength > _LEAST_SHIFT:
            return Bound(0.0, False)
        return Bound(profile_epsilon(1 / strength, self.delta), strength > self.shift)

    def rules(self, scores: Floats) -> list[Rule]:
        """Return one-sided rules."""
        return [Rule(cut, -math.inf) for cut in _cuts(scores)]


class RenyiTest:
    """Against any event whose Rényi curve covers all of its delta.

    Notes
    -----
    ``D_a(p || q) <= curve(a)`` at each order for the shares of what can be guessed with the row and without, by
    data processing. The bound is the epsilon, at the declared delta, of the curve multiplied by the least
    factor that explains them.
    """

    n_shares: ClassVar[int] = 4

    def __init__(self, loss: PrivacyLoss) -> None:
        self._loss = loss
        self._orders = np.asarray([order for order in ORDERS if order <= 64])
        self._curve = renyi_curve(loss.event, tuple(self._orders))

    def strength(self, scores: Floats, inside: Bools, rule: Rule, level: float | None) -> float:
        """Return the least factor of the curve that explains the shares."""
        shares = _least_apart(scores, inside, rule, level)
        return max(float(np.max(_renyi(p, q, self._orders) / self._curve)) for p, q in (shares, shares[::-1]))

    def bound(self, strength: float) -> Bound:
        """Return what a strength says of epsilon."""
        if strength * float(self._curve[0]) < _LEAST_RENYI:
            return Bound(0.0, False)
        curve = renyi_curve(self._loss.event, ORDERS)
        declared, found = (renyi_epsilon(ORDERS, f * curve, self._loss.delta) for f in (1.0, strength))
        # The declared epsilon may come from a finer conversion than the one on these orders.
        return Bound(found * min(self._loss.epsilon / declared, 1.0), strength > 1)

    def rules(self, scores: Floats) -> list[Rule]:
        """Return symmetric and one-sided rules."""
        return _two_sided(scores)


def share_bounds(hits: int, n: int, level: float | None) -> tuple[float, float]:
    """Return bounds of a probability, by Clopper and Pearson: each is wrong with probability `level` at most.

    Without a level, Wilson's approximation at three deviations: it only ranks rules, many times over.
    """
    if level is None:
        if not n:
            return 0.0, 1.0
        share, z = hits / n, _RANKING
        middle, width = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        return max((middle - width) / (1 + z * z / n), 0.0), min((middle + width) / (1 + z * z / n), 1.0)
    low = float(stats.beta.ppf(level, hits, n - hits + 1)) if hits else 0.0
    high = float(stats.beta.ppf(1 - level, hits + 1, n - hits)) if hits < n else 1.0
    return low, high


def epsilon_lower_bound(
    scores: Floats, inside: Bools, loss: PrivacyLoss, *, confidence: float = 0.999, explore: float = 0.3
) -> Bound:
    """Return a lower bound of epsilon from scores of outputs with and without a row.

    Parameters
    ----------
    scores : ndarray of shape (n_trials,)
        High when the row seems to be in. Trials are independent.
    inside : ndarray of bool of shape (n_trials,)
        Whether it was, by a fair coin.
    loss : PrivacyLoss
        What is declared.
    confidence : float
        Chance, at least, that the bound holds.
    explore : float
        Share of the trials, the first ones, on which the rule is chosen; the others alone give the bound.
    """
    test, split = choose_test(loss), int(len(scores) * explore)
    seen, coins = scores[:split], inside[:split]
    best = max(test.rules(seen), key=lambda rule: test.strength(seen, coins, rule, None))
    level = (1 - confidence) / test.n_shares
    return test.bound(test.strength(scores[split:], inside[split:], best, level))


def _event_bounds(
    scores: Floats, inside: Bools, rule: Rule, level: float | None
) -> list[tuple[float, float]]:
    """Return (least p, most q) of the event of `rule` and of its complement, for either order of datasets."""
    event = scores > rule.above if math.isfinite(rule.above) else scores < rule.below
    with_row = share_bounds(int(np.count_nonzero(event & inside)), int(inside.sum()), level)
    without = share_bounds(int(np.count_nonzero(event & ~inside)), int((~inside).sum()), level)
    return [
        (with_row[0], without[1]),
        (without[0], with_row[1]),
        (1 - with_row[1], 1 - without[0]),
        (1 - without[1], 1 - with_row[0]),
    ]


def _least_apart(
    scores: Floats, inside: Bools, rule: Rule, level: float | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return shares of (yes, neither, no) with the row and without, as near to each other as the counts allow.

    Notes
    -----
    A divergence falls when the share with the greatest ratio loses mass with the row and gains it without, so
    within the four bounds of shares it is least at their corner, as long as ratios stay in order there.
    """
    yes, no = scores > rule.above, scores < rule.below
    n_with, n_without = int(inside.sum()), int((~inside).sum())
    p_yes = share_bounds(int(np.count_nonzero(yes & inside)), n_with, level)[0]
    p_no = share_bounds(int(np.count_nonzero(no & inside)), n_with, level)[1]
    q_yes = share_bounds(int(np.count_nonzero(yes & ~inside)), n_without, level)[1]
    q_no = share_bounds(int(np.count_nonzero(no & ~inside)), n_without, level)[0]
    if not math.isfinite(rule.below):
        p_no = q_no = 0.0
    if not math.isfinite(rule.above):
        p_yes = q_yes = 0.0
    p, q = (p_yes, 1 - p_yes - p_no, p_no), (q_yes, 1 - q_yes - q_no, q_no)
    in_order = min(*p, *q) >= 0 and p[0] * q[1] >= p[1] * q[0] and p[1] * q[2] >= p[2] * q[1]
    return (p, q) if in_order else ((0.0, 1.0, 0.0), (0.0, 1.0, 0.0))


def _renyi(p: tuple[float, ...], q: tuple[float, ...], orders: Floats) -> Floats:
    """Return the Rényi divergence of p from q at each order."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [
            orders * np.log(a) + (1 - orders) * np.log(b) if b > 0 else np.full_like(orders, np.inf)
            for a, b in zip(p, q, strict=True)
            if a > 0
        ]
    return np.asarray(np.logaddexp.reduce(terms, axis=0) / (orders - 1))


def _cuts(scores: Floats) -> list[float]:
    """Return places to cut at: between scores, so that equal scores fall on the same side in every run."""
    values = np.unique(scores)
    if len(values) < 2:
        return [float(values[0])] if len(values) else [0.0]
    middles = (values[1:] + values[:-1]) / 2
    by_value = np.linspace(0, len(middles) - 1, min(_CUTS, len(middles))).astype(np.int64)
    by_share = np.searchsorted(values, np.quantile(scores, np.linspace(0, 1, _CUTS), method="lower"))
    chosen = np.unique(np.concatenate([by_value, by_share, by_share - 1]))
    return [float(middles[i]) for i in chosen if 0 <= i < len(middles)]


def _two_sided(scores: Floats) -> list[Rule]:
    cuts = _cuts(scores)
    one = [Rule(cut, -math.inf) for cut in cuts] + [Rule(math.inf, cut) for cut in cuts]
    return one + [Rule(high, low) for low, high in zip(cuts, cuts[::-1], strict=True) if low <= high]
