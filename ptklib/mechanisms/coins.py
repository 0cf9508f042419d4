"""Independent coins and places from a cryptographic stream."""

from fractions import Fraction
from functools import lru_cache
from math import floor

import numpy as np

from ptklib.arrays import Bools, Ints
from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms.stream import KeyStream

_FIRST, _REST = 8, 56
"""A coin compares 64 random bits with its rate. The first 8 decide all but one coin in 256; only for that one are the
other 56 drawn."""

_WORDS = 2**64


def tossed(n: int, rate: float, stream: KeyStream | None = None) -> Bools:
    """Return `n` independent coins, each True with probability `rate`, rounded down to 64 bits.

    Parameters
    ----------
    n : int
    rate : float
    stream : KeyStream, optional
        Of the piece of work that tosses them; a fresh one without.

    Notes
    -----
    How many bits are drawn depends on `n`, on `rate` and on these bits alone.
    """
    whole, first, rest = _threshold(rate)
    if whole:
        return np.ones(n, dtype=np.bool_)
    stream = stream or KeyStream()
    drawn = stream.octets(n)
    heads = np.asarray(drawn < first, dtype=np.bool_)
    ties = np.flatnonzero(drawn == first)
    heads[ties] = _rest_is_below(rest, len(ties), stream)
    return heads


def sampled(n: int, rate: float, stream: KeyStream | None = None) -> Ints:
    """Return the places, in order, of the coins that are True among `n` that fall as those of `tossed`."""
    whole, first, rest = _threshold(rate)
    if whole or first:
        return np.flatnonzero(tossed(n, rate, stream))
    stream = stream or KeyStream()
    ties = np.flatnonzero(stream.octets(n) == 0)
    return np.asarray(ties[_rest_is_below(rest, len(ties), stream)])


def _rest_is_below(rest: int, n: int, stream: KeyStream) -> Bools:
    return np.asarray(stream.words(n) >> np.uint64(_FIRST) < np.uint64(rest), dtype=np.bool_)


@lru_cache(maxsize=64)
def _threshold(rate: float) -> tuple[int, int, int]:
    """Return whether all coins are True, and the first and the other bits of the rate."""
    threshold = floor(Fraction(rate) * 2 ** (_FIRST + _REST))
    if threshold >= 2 ** (_FIRST + _REST):
        return 1, 0, 0
    return 0, *divmod(threshold, 2**_REST)


def uniforms_below(n: int, size: int) -> Ints:
    """Return `size` independent integers of ``0, ..., n - 1``, each with exactly the same probability.

    Parameters
    ----------
    n : int
        From 1 to ``2**63``.
    size : int
    """
    if not 1 <= n <= _WORDS // 2:
        raise PrivacyParameterError("uniform integers need 1 to 2**63 values")
    stream, last = KeyStream(), np.uint64(_WORDS - _WORDS % n - 1)
    words = stream.words(size).copy()
    while len(again := np.flatnonzero(words > last)):
        words[again] = stream.words(len(again))
    return np.asarray(words % np.uint64(n), dtype=np.int64)


def uniform_below(n: int) -> int:
    """Return one of ``0, ..., n - 1``, each with exactly the same probability.

    Parameters
    ----------
    n : int
        From 1 to ``2**64``.
    """
    if not 1 <= n <= _WORDS:
        raise PrivacyParameterError("a uniform integer needs 1 to 2**64 values")
    stream, even = KeyStream(), _WORDS - _WORDS % n
    while (word := stream.word()) >= even:
        pass
    return word % n
