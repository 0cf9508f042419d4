"""Independent coins from a cryptographic stream: which units are in a Poisson sample."""

from fractions import Fraction
from math import floor

import numpy as np

from ptklib.arrays import Bools
from ptklib.mechanisms.stream import KeyStream

_FIRST, _REST = 16, 48
"""A coin compares 64 random bits with its rate. The first 16 decide all but one coin in 65,536; only for that one are
the other 48 drawn."""


def tossed(n: int, rate: float) -> Bools:
    """Return `n` independent coins, each True with probability `rate`, rounded down to 64 bits.

    Notes
    -----
    How many bits are drawn depends on `n`, on `rate` and on these bits alone.
    """
    threshold = floor(Fraction(rate) * 2 ** (_FIRST + _REST))
    if threshold >= 2 ** (_FIRST + _REST):
        return np.ones(n, dtype=np.bool_)
    first, rest = divmod(threshold, 2**_REST)
    stream = KeyStream()
    drawn = stream.octets(_FIRST // 8 * n).view("<u2")
    heads = np.asarray(drawn < first, dtype=np.bool_)
    ties = np.flatnonzero(drawn == first)
    heads[ties] = stream.words(len(ties)) >> np.uint64(_FIRST) < np.uint64(rest)
    return heads
