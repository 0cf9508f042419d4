"""Rules that turn scores into guesses, and the choice of one."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import expit

from ptklib.arrays import Bools, Floats

Chances = Floats | Bools
"""Coins or, where a rule is chosen, how likely each says that the row is in."""

_CUTS = 40
_RANKING = 3.0
_FITTED_STEPS = 30
_RIDGE = 1e-3
"""Keeps the slope finite where scores tell everything."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Guess "the row is in" for scores above `above`, "it is not" for scores below `below`."""

    above: float
    below: float

    @property
    def two_sided(self) -> bool:
        """Whether it guesses for both."""
        return math.isfinite(self.above) and math.isfinite(self.below)


def share_bounds(hits: float, n: float, level: float | None) -> tuple[float, float]:
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


def guesses(scores: Floats, inside: Chances, rule: Rule) -> tuple[float, float]:
    """Return how many guesses are right, and how many are made."""
    yes, no = scores > rule.above, scores < rule.below
    with_row, without = tallies(inside, yes, no)
    return with_row[1] + without[2], float(np.count_nonzero(yes | no))


def tallies(inside: Chances, *events: Bools) -> tuple[list[float], list[float]]:
    """Return the number of trials with the row, and those of them in each event; the same without it."""
    chances = np.asarray(inside, dtype=np.float64)
    with_row, without = (
        [float(w.sum()), *(float(w @ event) for event in events)] for w in (chances, 1 - chances)
    )
    return with_row, without


def likely_rule(scores: Floats, seen: Floats, inside: Bools) -> Rule:
    """Return the rule for `scores` that is likely to show most, from the coins of the scores that were `seen` alone.

    Notes
    -----
    A logistic law is fitted to the coins that were seen. It says how many of the guesses a rule makes are likely to be
    right, which varies less from sample to sample than counting them does.
    """
    offset, slope = _fitted(seen, inside)
    if slope <= 0:
        return Rule(math.inf, -math.inf)
    odds = np.abs(offset + slope * scores)
    ordered = np.sort(odds)[::-1]
    n = np.arange(1, len(ordered) + 1)
    right = np.cumsum(expit(ordered)) / n
    z2 = _RANKING**2
    middle, width = right + z2 / (2 * n), _RANKING * np.sqrt(right * (1 - right) / n + z2 / (4 * n * n))
    least = (middle - width) / (1 + z2 / n)
    # Equal scores fall on the same side.
    gaps = np.append(ordered[:-1] - ordered[1:] > 1e-9 * np.maximum(ordered[:-1], 1e-9), True)
    best = int(np.where(gaps, least, -np.inf).argmax())
    cut = (ordered[best] + (ordered[best + 1] if best + 1 < len(ordered) else 0.0)) / 2
    return Rule((cut - offset) / slope, (-cut - offset) / slope)


def even_rule(seen: Floats, inside: Bools) -> Rule:
    """Return the rule that guesses always: whichever is more likely, by a logistic law of the scores that were seen."""
    offset, slope = _fitted(seen, inside)
    return Rule(-offset / slope, -offset / slope) if slope > 0 else Rule(math.inf, -math.inf)


def likely_chances(seen: Floats, inside: Bools) -> Floats:
    """Return how likely each coin says "inside", by a logistic law of the scores that is fitted to the coins."""
    offset, slope = _fitted(seen, inside)
    return np.asarray(expit(offset + slope * seen), dtype=np.float64)


def _fitted(seen: Floats, inside: Bools) -> tuple[float, float]:
    """Return offset and slope of the log-odds in units of the scores."""
    centre, spread = float(np.median(seen)), max(float(np.std(seen)), 1e-12)
    offset, slope = _logistic((seen - centre) / spread, inside)
    return offset - slope * centre / spread, slope / spread


def _logistic(scores: Floats, inside: Bools) -> tuple[float, float]:
    """Return offset and slope of the log-odds that the coin of a score says "inside", by damped Newton steps."""
    design = np.column_stack([np.ones_like(scores), np.clip(scores, -50, 50)])
    line = np.zeros(2)

    def loss(at: Floats) -> float:
        odds = design @ at
        return float(np.logaddexp(0, np.where(inside, -odds, odds)).mean() + _RIDGE * at @ at)

    for _ in range(_FITTED_STEPS):
        chance = expit(design @ line)
        slope = design.T @ (chance - inside) / len(scores) + 2 * _RIDGE * line
        bend = (design * (chance * (1 - chance))[:, None]).T @ design / len(scores) + 2 * _RIDGE * np.eye(2)
        step, before = np.linalg.solve(bend, slope), loss(line)
        while loss(line - step) > before and np.abs(step).max() > 1e-9:
            step = step / 2
        line = line - step
    return float(line[0]), float(line[1])


def cuts(scores: Floats) -> list[float]:
    """Return places to cut at: between scores, so that equal scores fall on the same side in every run."""
    values = np.unique(scores)
    if len(values) < 2:
        return [float(values[0])] if len(values) else [0.0]
    middles = (values[1:] + values[:-1]) / 2
    by_value = np.linspace(0, len(middles) - 1, min(_CUTS, len(middles))).astype(np.int64)
    by_share = np.searchsorted(values, np.quantile(scores, np.linspace(0, 1, _CUTS), method="lower"))
    chosen = np.unique(np.concatenate([by_value, by_share, by_share - 1]))
    return [float(middles[i]) for i in chosen if 0 <= i < len(middles)]


def two_sided(scores: Floats) -> list[Rule]:
    """Return symmetric and one-sided rules."""
    places = cuts(scores)
    one = [Rule(cut, -math.inf) for cut in places] + [Rule(math.inf, cut) for cut in places]
    return one + [Rule(high, low) for low, high in zip(places, places[::-1], strict=True) if low <= high]
