"""Lower bounds of a privacy loss from what an observer guesses right."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from ptklib.accounting import (
    ORDERS,
    event_delta,
    joint_multiplier,
    profile_epsilon,
    renyi_curve,
    renyi_epsilon,
)
from ptklib.arrays import Bools, Floats
from ptklib.checks.profile import Bound, ProfileTest
from ptklib.checks.rules import (
    Chances,
    Rule,
    cuts,
    guesses,
    likely_chances,
    likely_rule,
    share_bounds,
    tallies,
    two_sided,
)
from ptklib.events import EpsilonDelta
from ptklib.privacy import PrivacyLoss

_LEAST_RENYI = 1e-7
_LEAST_SHIFT = 1e-3
_SAME = 1 + 1e-6
_HIGH_ORDER = 1e9
"""Where a Rényi divergence is the epsilon at delta 0."""

_FEW_PARTS = 2.5


class LossTest(Protocol):
    """Turns guesses into a bound."""

    def strength(self, scores: Floats, inside: Chances, rule: Rule, level: float | None) -> float:
        """Return how much `rule` shows on these scores, at least; it is too much with probability `level` at most."""

    def bound(self, strength: float) -> Bound:
        """Return what a strength says of epsilon."""

    def rule(self, scores: Floats, inside: Bools) -> Rule:
        """Return the rule for all `scores` that shows most for the first ones, whose coins are given."""


def tests_of(loss: PrivacyLoss) -> list[LossTest]:
    """Return the tests there are here against a declared loss; which one shows most depends on what leaks."""
    tests: list[LossTest] = [choose_test(loss)]
    if not isinstance(loss.event, EpsilonDelta):
        tests.append(ProfileTest(loss))
    return tests


def choose_test(loss: PrivacyLoss) -> LossTest:
    """Return the most powerful test of outputs that are seldom and tell much."""
    if loss.delta == 0:
        return RenyiTest(loss) if _many_parts(loss) else PureTest(loss.epsilon)
    if event_delta(loss.event) > 0:
        return ApproximateTest(loss.epsilon, loss.delta)
    multiplier = joint_multiplier([loss.event])
    if multiplier is not None and profile_epsilon(multiplier, loss.delta) <= loss.epsilon * _SAME:
        return GaussianTest(1 / multiplier, loss.delta)
    return RenyiTest(loss)


@dataclass(frozen=True, slots=True)
class PureTest(LossTest):
    """Against epsilon-DP: of all guesses made, a share of ``1 / (1 + exp(-epsilon))`` can be right, no more.

    Notes
    -----
    In each trial a fair coin decides whether the row is in. Given all scores, epsilon-DP bounds the odds of
    either side of each coin by ``exp(epsilon)``. So the number of right guesses among those made is at most
    binomial [1]_, however the scores decide which guesses are made. Clopper-Pearson bounds its share from
    below, and the logit of that is the bound.

    References
    ----------
    .. [1] Steinke, Nasr, Jagielski, "Privacy Auditing with One (1) Training Run", 2023, Theorem 5.2; with one row
       per run it needs no independence between rows.
    """

    epsilon: float

    def strength(self, scores: Floats, inside: Chances, rule: Rule, level: float | None) -> float:
        """Return the logit of the least share of right guesses."""
        share = share_bounds(*guesses(scores, inside, rule), level)[0]
        return math.log(share / (1 - share)) if share > 0 else -math.inf

    def bound(self, strength: float) -> Bound:
        return Bound(max(strength, 0.0), strength > self.epsilon)

    def rule(self, scores: Floats, inside: Bools) -> Rule:
        """Return a symmetric rule; all scores may choose it, since only coins are counted."""
        return likely_rule(scores, scores[: len(inside)], inside)


@dataclass(frozen=True, slots=True)
class ApproximateTest(LossTest):
    """Against (epsilon, delta)-DP: right guesses are at most ``exp(epsilon)`` times the wrong ones, and delta more.

    Notes
    -----
    For the event "yes" and the event "no" the guarantee says ``p <= exp(epsilon) q + delta``. Half of both,
    by the fair coin: let g be the share of trials in which a guess is made and s the share of right ones
    among them. Then ``g s <= exp(epsilon) g (1 - s) + delta``, so
    ``exp(epsilon) >= (s - delta / g) / (1 - s)``, which grows with both shares.
    """

    epsilon: float
    delta: float

    def strength(self, scores: Floats, inside: Chances, rule: Rule, level: float | None) -> float:
        """Return the least log of ``(s - delta / g) / (1 - s)``."""
        share, guessed = _right_and_guessed(scores, inside, rule, level)
        left = share - self.delta / guessed if guessed > 0 else 0.0
        return math.log(left / (1 - share)) if left > 0 else -math.inf

    def bound(self, strength: float) -> Bound:
        return Bound(max(strength, 0.0), strength > self.epsilon)

    def rule(self, scores: Floats, inside: Bools) -> Rule:
        """Return a symmetric rule."""
        seen = scores[: len(inside)]
        return likely_rule(seen, seen, inside)


@dataclass(frozen=True, slots=True)
class GaussianTest(LossTest):
    """Against Gaussian noise: with the row no output is further away than a normal variable moved by `shift`.

    Notes
    -----
    For Gaussian noise the promised epsilon at a small delta is far above what any event that can be observed
    shows. A test of (epsilon, delta) would not even find noise of half the scale. The promise is stronger:
    ``z(p) - z(q) <= shift`` for every event of probability p with the row and q without, z being the normal
    quantile [1]_. docs/proofs/discrete-gaussian.md makes the discrete noise no less than continuous noise of
    the given shift. The bound is the epsilon, at the declared delta, of the shift that was found.

    References
    ----------
    .. [1] Dong, Roth, Su, "Gaussian Differential Privacy", 2022, Theorem 2.7.
    """

    shift: float
    delta: float

    def strength(self, scores: Floats, inside: Chances, rule: Rule, level: float | None) -> float:
        """Return the greatest shift of a normal variable that the shares need."""
        events = _event_bounds(scores, inside, rule, _part(level, 4))
        return max(float(ndtri(low) - ndtri(high)) for low, high in events)

    def bound(self, strength: float) -> Bound:
        if not strength > _LEAST_SHIFT:
            return Bound(0.0, False)
        return Bound(profile_epsilon(1 / strength, self.delta), strength > self.shift)

    def rule(self, scores: Floats, inside: Bools) -> Rule:
        """Return a one-sided rule."""
        rules = [Rule(cut, -math.inf) for cut in cuts(scores[: len(inside)])]
        return _strongest(self, rules, scores, inside)


class RenyiTest(LossTest):
    """Against any event whose Rényi curve covers all of its delta.

    Notes
    -----
    ``D_a(p || q) <= curve(a)`` at each order for the shares of what can be guessed with the row and without, by
    data processing. The bound is the epsilon, at the declared delta, of the curve multiplied by the least
    factor f that explains them.

    Many parts of a small epsilon each, at delta 0, hardly ever lose all of it at once. So no number of
    trainings would find half the noise by the sum of their epsilons; by their curve it is found. The bound is
    then the declared epsilon times the least number c that the noise of all parts must be divided by.
    Dividing by c multiplies the curve by ``c**2`` at most, and by c at most where it is below 1.

    A rule that guesses for both sides needs two shares alone: g of trials in which a guess is made, s of
    right ones among them. By the fair coin ``(g s, 1 - g, g (1 - s))`` is the mean of the law of (yes,
    neither, no) with the row and of that of (no, neither, yes) without. The same numbers in reverse order are
    the mean of the other two. Rényi divergences are jointly quasi-convex [1]_ and the curve is valid in both
    directions, so it is valid between the means. Their divergence grows with g, and with s above 1/2.

    References
    ----------
    .. [1] van Erven, Harremoës, "Rényi Divergence and Kullback-Leibler Divergence", 2014, Theorem 13.
    """

    def __init__(self, loss: PrivacyLoss) -> None:
        self._loss = loss
        self._orders = np.asarray([order for order in ORDERS if order <= 64])
        self._curve = renyi_curve(loss.event, tuple(self._orders))

    def strength(self, scores: Floats, inside: Chances, rule: Rule, level: float | None) -> float:
        """Return the least factor of the curve that explains the shares."""
        if rule.two_sided:
            share, guessed = _right_and_guessed(scores, inside, rule, level)
            if share <= 0.5:
                return 0.0
            p = (guessed * share, 1 - guessed, guessed * (1 - share))
            return float(np.max(_renyi(p, p[::-1], self._orders) / self._curve))
        shares = _least_apart(scores, inside, rule, _part(level, 4))
        return max(float(np.max(_renyi(p, q, self._orders) / self._curve)) for p, q in (shares, shares[::-1]))

    def bound(self, strength: float) -> Bound:
        if strength * float(self._curve[0]) < _LEAST_RENYI:
            return Bound(0.0, False)
        if self._loss.delta == 0:
            return Bound(self._loss.epsilon * min(strength, math.sqrt(strength)), strength > 1)
        curve = renyi_curve(self._loss.event, ORDERS)
        declared, shown = (renyi_epsilon(ORDERS, f * curve, self._loss.delta) for f in (1.0, strength))
        # The declared epsilon may come from a finer conversion than the one on these orders.
        return Bound(shown * min(self._loss.epsilon / declared, 1.0), strength > 1)

    def rule(self, scores: Floats, inside: Bools) -> Rule:
        """Return a symmetric or a one-sided rule."""
        return _strongest(self, two_sided(scores[: len(inside)]), scores, inside)


def _many_parts(loss: PrivacyLoss) -> bool:
    """Whether the loss of an event at delta 0 is divided over three parts or so, as their squares count them."""
    parts = [(float(renyi_curve(part, (_HIGH_ORDER,))[0]), n) for part, n in loss.event.leaves()]
    return sum(n * e for e, n in parts) ** 2 > _FEW_PARTS * sum(n * e * e for e, n in parts)


def epsilon_lower_bound(
    scores: Floats, inside: Bools, loss: PrivacyLoss, *, confidence: float = 0.999, explore: float = 0.2
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
        Probability, at least, that the bound is right.
    explore : float
        Share of the trials, the first ones, on which the rule is chosen; the coins of the others alone give the bound.
    """
    split = int(len(scores) * explore)
    coins = inside[:split]
    rules = [(test, test.rule(scores, coins)) for test in tests_of(loss)]
    some, likely = _what_is_left(scores, coins)
    test, rule = max(
        rules, key=lambda entry: entry[0].bound(entry[0].strength(some, likely, entry[1], None)).epsilon
    )
    return test.bound(test.strength(scores[split:], inside[split:], rule, 1 - confidence))


def _strongest(test: LossTest, rules: list[Rule], scores: Floats, inside: Bools) -> Rule:
    """Return the rule that is likely to show most in the trials that are left, by those that were seen."""
    some, likely = _what_is_left(scores, inside)
    return max(rules, key=lambda rule: test.strength(some, likely, rule, None))


def _what_is_left(scores: Floats, inside: Bools) -> tuple[Floats, Floats]:
    """Return as many scores as are left, made of those that were seen, and how likely each says that the row is in."""
    seen = scores[: len(inside)]
    times = max(round(len(scores) / max(len(seen), 1)) - 1, 1)
    return np.tile(seen, times), np.tile(likely_chances(seen, inside), times)


def _right_and_guessed(
    scores: Floats, inside: Chances, rule: Rule, level: float | None
) -> tuple[float, float]:
    """Return the least share of right guesses among those made, and the least share of trials with a guess."""
    right, made = guesses(scores, inside, rule)
    level = _part(level, 2)
    return share_bounds(right, made, level)[0], share_bounds(made, len(scores), level)[0]


def _part(level: float | None, n_shares: int) -> float | None:
    """Return the level of each of so many shares, all of which have to hold."""
    return None if level is None else level / n_shares


def _event_bounds(
    scores: Floats, inside: Chances, rule: Rule, level: float | None
) -> list[tuple[float, float]]:
    """Return (least p, most q) of the event of `rule` and of its complement, for either order of datasets."""
    event = scores > rule.above if math.isfinite(rule.above) else scores < rule.below
    (n_with, hits_with), (n_without, hits_without) = tallies(inside, event)
    with_row, without = share_bounds(hits_with, n_with, level), share_bounds(hits_without, n_without, level)
    return [
        (with_row[0], without[1]),
        (without[0], with_row[1]),
        (1 - with_row[1], 1 - without[0]),
        (1 - without[1], 1 - with_row[0]),
    ]


def _least_apart(
    scores: Floats, inside: Chances, rule: Rule, level: float | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return shares of (yes, neither, no) with the row and without, as near to each other as the counts allow.

    Notes
    -----
    A divergence falls when the share with the greatest ratio loses mass with the row and gains it without. So
    within the four bounds of shares it is least at their corner, as long as ratios stay in order there.
    """
    yes, no = scores > rule.above, scores < rule.below
    (n_with, *hits_with), (n_without, *hits_without) = tallies(inside, yes, no)
    p_yes, p_no = share_bounds(hits_with[0], n_with, level)[0], share_bounds(hits_with[1], n_with, level)[1]
    q_yes = share_bounds(hits_without[0], n_without, level)[1]
    q_no = share_bounds(hits_without[1], n_without, level)[0]
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
