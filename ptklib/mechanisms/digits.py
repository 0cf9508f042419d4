"""Binary digits of the irrational probabilities behind exact noise, to any length."""

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate


@lru_cache(maxsize=64)
def exponential(x: Fraction, bits: int) -> int:
    """Return ``floor(2**bits * exp(-x))`` for a positive rational `x`."""
    precision = bits + 32
    while True:
        low, high = (end >> (precision - bits) for end in _bounds(x, precision))
        if low == high:
            return low
        precision *= 2


@lru_cache(maxsize=64)
def cumulative(x: Fraction, power: int, weight: int, n: int, bits: int) -> tuple[int, ...]:
    """Return ``floor(2**bits * P(K < k))`` for k = 1 .. n - 1.

    Parameters
    ----------
    x, power, weight, n
        K is in 0 .. n - 1. ``P(K = k)`` is proportional to 1 for k = 0 and to ``weight * exp(-k**power * x)``
        above; `power` is 1 or 2.

    Notes
    -----
    ``P(K < k)`` is a rational function of ``u = exp(-x)``, 1 at u = 0 and less at u = 1, so it is not
    constant. As u is transcendental, ``P(K < k)`` is irrational: no finite string of digits ever equals it.
    """
    precision = bits + 64
    while True:
        first = (weight - 1) << precision
        least, most = _bounds(x, precision)
        below = [weight * total - first for total in accumulate(_powers(least, power, n, precision, 0))]
        above = [weight * total - first for total in accumulate(_powers(most, power, n, precision, 1))]
        low = [(total << bits) // above[-1] for total in below[:-1]]
        high = [min((total << bits) // below[-1], (1 << bits) - 1) for total in above[:-1]]  # all are below 1
        if low == high:
            return tuple(low)
        precision *= 2


def _powers(u: int, power: int, n: int, precision: int, rounding: int) -> list[int]:
    """Return ``2**precision * u**(k**power)`` for k < n, rounded to one side, of a number u of `precision` bits."""
    ratio, growth = u, (u * u >> precision) + rounding
    powers = [1 << precision]
    for _ in range(n - 1):
        powers.append((powers[-1] * ratio >> precision) + rounding)
        if power == 2:  # k**2 grows by 1, 3, 5, ...
            ratio = (ratio * growth >> precision) + rounding
    return powers


def _bounds(x: Fraction, precision: int) -> tuple[int, int]:
    """Return integers around ``2**precision * exp(-x)``, a few units apart."""
    digits = precision // 3 + 10
    down, up = (
        Context(prec=digits, rounding=rounding, Emax=MAX_EMAX, Emin=MIN_EMIN)
        for rounding in (ROUND_FLOOR, ROUND_CEILING)
    )
    numerator, denominator = Decimal(-x.numerator), Decimal(x.denominator)
    # Decimal rounds exp correctly, but to nearest whatever the context says: one step outwards covers it.
    least = down.next_minus(down.exp(down.divide(numerator, denominator)))
    most = up.next_plus(up.exp(up.divide(numerator, denominator)))
    low, high = (end.as_integer_ratio() for end in (least, most))
    return max((low[0] << precision) // low[1], 0), -((-high[0] << precision) // high[1])
