"""Exact discrete Laplace and discrete Gaussian noise for long vectors; docs/proofs/exact-sampler.md proves it."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import floor
from typing import Self

import numpy as np
import numpy.typing as npt

from ptklib.mechanisms.digits import BASE, cumulative, exponential
from ptklib.mechanisms.stream import KeyStream

Ints = npt.NDArray[np.int64]

SCALE_MAX = 2.0**48
"""Seven digits of base 256 are enough below; noise then stays within 2**56."""

TAIL = 112
"""There are so many digits that needing more has probability below exp(-112) < 2**-161."""

_CHUNK = 2**15
"""Values per key: the working set stays in the cache, and a key encrypts less than a megabyte."""

_UNDECIDED = 2.0**-31
"""32 bits of a uniform number (2**-32) and float64 (below 2**-44) err less than this together."""


def discrete_laplace(scale: float, n: int) -> Ints:
    """Return `n` independent integers ``x`` with probability proportional to ``exp(-|x| / scale)``."""
    digits = _digits(scale)
    noise = np.empty(n, dtype=np.int64)
    for start in range(0, n, _CHUNK):
        part, stream = noise[start : start + _CHUNK], KeyStream()
        np.subtract(_geometric(digits, stream, len(part)), _geometric(digits, stream, len(part)), out=part)
    return noise


def discrete_gaussian(scale: float, n: int) -> Ints:
    """Return `n` independent integers ``x`` with probability proportional to ``exp(-x**2 / (2 scale**2))``.

    Notes
    -----
    Rejection from discrete Laplace noise [1]_. The decision ``U < exp(-gamma)`` is made in float64 when both
    differ by more than the error of float64 and of 32 bits of ``U``, and else on exact digits.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke: The Discrete Gaussian for Differential Privacy, 2020, Algorithm 3.
    """
    width = floor(scale) + 1
    digits = _digits(float(width))
    noise, filled = np.empty(n, dtype=np.int64), 0
    while filled < n:
        wanted = n - filled
        size, stream = min(wanted + wanted // 2 + 64, _CHUNK), KeyStream()
        # Laplace noise as size and sign; a negative zero would be a second way to say 0.
        sizes, negative = _geometric(digits, stream, size), stream.octets(size) < 128
        passed = _accepted(sizes, scale, width, stream) & ~(negative & (sizes == 0))
        kept = np.where(negative, -sizes, sizes)[passed][:wanted]
        noise[filled : filled + len(kept)] = kept
        filled += len(kept)
    return noise


@dataclass(frozen=True, slots=True, eq=False)
class _Digit:
    """The distribution of one digit of a geometric integer; public, so it is kept between draws."""

    x: Fraction
    table: npt.NDArray[np.int16]
    """The digit for each 16 leading bits of a uniform number; -1 where they do not decide it."""
    edges: npt.NDArray[np.uint64]
    """The first 64 bits of the cumulative probabilities."""

    @classmethod
    def of(cls, x: Fraction) -> Self:
        edges = np.asarray(cumulative(x, 64), dtype=np.uint64)
        leading = (edges >> np.uint64(48)).astype(np.int64)
        table = np.searchsorted(leading, np.arange(2**16)).astype(np.int16)
        table[leading] = -1
        return cls(x, table, edges)

    def draw(self, stream: KeyStream, n: int) -> npt.NDArray[np.int16]:
        """Return `n` digits: one byte pair decides most, 48 more bits the others, and further words the rest."""
        first = stream.octets(2 * n).view("<u2")
        digits = self.table.take(first.astype(np.intp), mode="clip")  # no index is out of range
        ties = np.flatnonzero(digits < 0)
        uniform = first[ties].astype(np.uint64) << np.uint64(48) | stream.words(len(ties)) >> np.uint64(16)
        least = np.searchsorted(self.edges, uniform, side="left")
        digits[ties] = least
        for i in np.flatnonzero(np.searchsorted(self.edges, uniform, side="right") != least):
            digits[ties[i]] = self._settle(int(uniform[i]), stream)
        return digits

    def _settle(self, uniform: int, stream: KeyStream) -> int:
        """Return the digit of a number with these 64 leading bits, drawing words until one digit is left."""
        bits = 64
        while True:
            edges = cumulative(self.x, bits)
            least = bisect_left(edges, uniform)
            if least == bisect_right(edges, uniform):
                return least
            bits, uniform = bits + 64, uniform << 64 | stream.word()


@lru_cache(maxsize=16)
def _digits(scale: float) -> tuple[_Digit, ...]:
    """Return the digits of a geometric integer of ratio ``exp(-1 / scale)``, lowest first."""
    exact = Fraction(scale)
    digits: list[_Digit] = []
    while BASE ** len(digits) < TAIL * exact:
        digits.append(_Digit.of(BASE ** len(digits) / exact))
    return tuple(digits)


def _geometric(digits: tuple[_Digit, ...], stream: KeyStream, n: int) -> Ints:
    octets = np.zeros((n, 8), dtype=np.uint8)
    for place, digit in enumerate(digits):
        octets[:, place] = digit.draw(stream, n)
    return octets.reshape(-1).view("<i8").astype(np.int64, copy=False)


def _accepted(sizes: Ints, scale: float, width: int, stream: KeyStream) -> npt.NDArray[np.bool_]:
    """Return which sizes pass with probability ``exp(-(size - scale**2 / width)**2 / (2 scale**2))``."""
    chance = sizes.astype(np.float64)
    chance /= scale
    chance -= scale / width
    chance *= chance
    chance *= -0.5
    np.exp(chance, out=chance)
    uniform = stream.octets(4 * len(sizes)).view("<u4")
    margin = uniform * 2.0**-32
    margin -= chance
    passed: npt.NDArray[np.bool_] = margin < 0
    for i in np.flatnonzero(np.abs(margin, out=margin) <= _UNDECIDED):
        passed[i] = _passes(int(sizes[i]), int(uniform[i]), Fraction(scale), width, stream)
    return passed


def _passes(size: int, uniform: int, scale: Fraction, width: int, stream: KeyStream) -> bool:
    """Compare a uniform number of 32 leading bits with an acceptance probability, exactly."""
    gamma = (size - scale * scale / width) ** 2 / (2 * scale * scale)
    if gamma == 0:
        return True
    bits = 32
    while uniform == exponential(gamma, bits):
        bits, uniform = bits + 64, uniform << 64 | stream.word()
    return uniform < exponential(gamma, bits)
