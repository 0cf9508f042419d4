"""Binary digits of the irrational probabilities behind exact noise, to any length."""

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

BASE = 256
"""Geometric integers are drawn in digits of this base."""


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
def cumulative(x: Fraction, bits: int) -> tuple[int, ...]:
    """Return ``floor(2**bits * P(D < d))`` for d = 1 .. 255, where ``P(D = d)`` falls like ``exp(-d x)``.

    Notes
    -----
    ``P(D < d) = (1 - u**d) / (1 - u**256)`` for ``u = exp(-x)``. It is a non-constant rational function of a
    transcendental number, so it is irrational: no finite string of digits ever equals it.
    """
    precision = bits + 64 + max(0, x.denominator.bit_length() - x.numerator.bit_length())
    while True:
        least, most = _bounds(x, precision)
        one = 1 << precision
        lows, highs = [one], [one]
        for _ in range(BASE):  # powers of u, rounded outwards
            lows.append(lows[-1] * least >> precision)
            highs.append((highs[-1] * most >> precision) + 1)
        low = [((one - highs[d]) << bits) // (one - lows[BASE]) for d in range(1, BASE)]
        high = [((one - lows[d]) << bits) // (one - highs[BASE]) for d in range(1, BASE)]
        high = [min(value, (1 << bits) - 1) for value in high]  # every P(D < d) is below 1
        if low == high:
            return tuple(low)
        precision *= 2


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
