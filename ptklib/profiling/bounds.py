"""Sizes and slacks of the profiler's comparisons: they hold whatever the private sample sizes are.

A *line* ``(centre, slack)`` is a public boundary for a sum of losses in [0, 1]. Lines replace the intervals of the
PTK paper, whose widths need the sample size, which is random and private under keyed hashing.

**Low lines.** Losses of mean R >= r satisfy ``E exp(-x l) <= 1 - r (1 - exp(-x))`` for x > 0, because exp is convex.
With ``centre = -ln(1 - r (1 - exp(-x))) / x`` the product of ``exp(-x (l_i - centre))`` has expectation at most 1 for
*any* number of losses, and so for a random number that does not depend on them. By Markov's inequality

    P(sum(l_i - centre) <= -slack) <= exp(-x slack).

**High lines.** In the same way, losses of mean R <= r and ``centre = ln(1 + r (exp(x) - 1)) / x`` have
``P(sum(l_i - centre) >= slack) <= exp(-x slack)``. The x for which ``n centre + slack`` is least makes the line
as tight at n losses as the Chernoff bound for exactly n of them [1]_.

At small r both are bounds of Bernstein's kind: a sum of n losses strays by about ``sqrt(n r)``, not ``sqrt(n)``, so
that samples grow with ``1 / r`` and not with ``1 / r**2``.

References
----------
.. [1] Hoeffding, "Probability Inequalities for Sums of Bounded Random Variables", 1963, Theorem 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """A boundary for sums of losses in [0, 1]."""

    centre: float
    """What is taken off each loss."""
    slack: float
    """How far from 0 the centred sum must be to tell."""


CUT = 7 / 4
"""Centre of the comparison with 2 tau, in tau."""

SURE = 3 / 2
"""A model of this risk, in tau, is meant to be found."""

REACH = 2.0
"""Risk of a model that must not be found, in tau."""


def low_line(cut: float, risk: float, failure: float) -> Line:
    """Return the line of centre `cut` that losses of mean `risk` or more undercut with probability `failure`.

    Parameters
    ----------
    cut, risk : float
        ``0 < cut < risk < 1``.
    """

    def excess(x: float) -> float:
        return x * cut + math.log1p(risk * math.expm1(-x))

    high = 1.0
    while excess(high) < 0:
        high *= 2
    x = _bisect(excess, high) * (1 - 1e-9)  # below the root, where the bound holds
    return Line(cut, math.log(1 / failure) / x)


def high_line(risk: float, size: float, failure: float) -> Line | None:
    """Return the line that losses of mean `risk` or less exceed with probability `failure`, tightest at `size`.

    None when so few losses could not exceed any line, were they all 1.
    """
    needed = math.log(1 / failure) / size
    if needed >= math.log(1 / risk):
        return None

    def missing(mean: float) -> float:
        return bernoulli_divergence(mean, risk) - needed

    low, high = risk, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if missing(middle) < 0 else (low, middle)
    if high >= 1:
        return None
    x = math.log(high * (1 - risk) / (risk * (1 - high)))
    return Line(math.log1p(risk * math.expm1(x)) / x, math.log(1 / failure) / x)


def bernoulli_divergence(mean: float, other: float) -> float:
    """Return the Kullback-Leibler divergence of a coin of `mean` from a coin of `other`."""
    first = mean * math.log(mean / other) if mean > 0 else 0.0
    second = (1 - mean) * math.log((1 - mean) / (1 - other)) if mean < 1 else 0.0
    return first + second


def chernoff_size(target: float, slack: float, failure: float) -> int:
    """Return how many losses of mean ``3 target / 2`` have a sum below ``7 target / 4`` each less `slack`.

    Parameters
    ----------
    target : float
        Below 1/2.
    slack : float
        All that the comparison takes off, and the noise that may be against it.
    """
    cut, risk = CUT * target, SURE * target

    def enough(size: float) -> float:
        mean = cut - slack / size
        return size * bernoulli_divergence(mean, risk) - math.log(1 / failure) if mean > risk else -1.0

    high = 2 * slack / (cut - risk) + 1
    while enough(high) < 0:
        high *= 2
    return math.ceil(_bisect(enough, high))


def expected_size(least: float, failure: float) -> float:
    """Return the expectation of a Bernoulli sample that has fewer than `least` members with probability `failure`.

    Notes
    -----
    Chernoff: ``P(M <= (1 - d) e) <= exp(-d**2 e / 2)`` for any sum M of independent choices of expectation e.
    """
    log = math.log(1 / failure)
    return (math.sqrt(log / 2) + math.sqrt(log / 2 + least)) ** 2


def laplace_quantile(scale: float, failure: float) -> int:
    """Return the least t for which discrete Laplace noise is t or more with probability `failure` at most.

    Notes
    -----
    The probability of t >= 1 or more is ``exp(-t / scale) / (1 + exp(-1 / scale))``.
    """
    return max(math.ceil(-scale * math.log(failure * (1 + math.exp(-1 / scale)))), 1)


def _bisect(function: Callable[[float], float], high: float) -> float:
    """Return a place, at most `high`, from which on the function is not negative; it rises through 0 once."""
    low = 0.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return high
