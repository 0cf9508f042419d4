"""Exact discrete Laplace and discrete Gaussian noise for vectors; docs/proofs/exact-sampler.md proves it."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Bools, Ints
from ptklib.mechanisms.digits import cumulative, exponential
from ptklib.mechanisms.stream import KeyStream

SCALE_MAX = 2.0**48
"""Noise then stays within 2**55, and a strip needs no more than 29 low bits."""

_CHUNK = 2**15
"""Values per key: the working set stays in the cache, and a key encrypts less than two megabytes."""

_SPARE = 8
"""Proposals in reserve: for a short vector a second round would take as long as the first."""

_UNDECIDED = 2.0**-31
"""32 bits of a uniform number (2**-32) and float64 (below 2**-42) err less than this together."""

_OFFSET_BITS = 16


@dataclass(frozen=True, slots=True)
class _Law:
    """Noise of scale s with probability proportional to ``exp(-(abs(x) / s)**power / power)``."""

    power: int
    steps: int
    """Strips per scale: more of them mean fewer rejections and a longer table."""
    tail: Fraction
    """Noise of more than so many scales has probability below 2**-161 and is never drawn."""

    def exponent(self, size: int, scale: Fraction) -> Fraction:
        return (size / scale) ** self.power / self.power

    def strips(self, scale: float) -> "tuple[_Strips, int]":
        """Return the law of the strip of a size, and the width of a strip.

        Notes
        -----
        Strip k is drawn like noise of scale `ratio`, with ``ratio * width >= scale``. Small scales have a table of
        their own with equality, all others share one: there a width exceeds what equality needs by 1/16 at most.
        """
        exact = Fraction(scale)
        if exact < 16 * self.steps:
            width = max(1, floor(exact / self.steps))
            return _strip_law(self, exact / width, 2 if width == 1 else 1), width
        width = ceil(exact / self.steps)
        low_bits = max(0, width.bit_length() - _OFFSET_BITS)
        return _strip_law(self, Fraction(self.steps), 1), -(-width >> low_bits) << low_bits


LAPLACE = _Law(power=1, steps=8, tail=Fraction(112))
GAUSSIAN = _Law(power=2, steps=16, tail=Fraction(61, 4))


def discrete_laplace(scale: float, n: int) -> Ints:
    """Return `n` independent integers ``x`` with probability proportional to ``exp(-|x| / scale)``."""
    return _noise(LAPLACE, scale, n)


def discrete_gaussian(scale: float, n: int) -> Ints:
    """Return `n` independent integers ``x`` with probability proportional to ``exp(-x**2 / (2 scale**2))``."""
    return _noise(GAUSSIAN, scale, n)


def _noise(law: _Law, scale: float, n: int) -> Ints:
    proposal = _proposal(law, scale)
    noise = np.empty(n, dtype=np.int64)
    for start in range(0, n, _CHUNK):
        part, stream = noise[start : start + _CHUNK], KeyStream()
        values, passed = proposal.draw(stream, len(part) + len(part) // 32 + _SPARE)
        part[:], spare = values[: len(part)], values[len(part) :][passed[len(part) :]]
        again = np.flatnonzero(~passed[: len(part)])
        while len(again):
            filled, again = again[: len(spare)], again[len(spare) :]
            part[filled] = spare[: len(filled)]
            if len(again):
                values, passed = proposal.draw(stream, len(again) + _SPARE)
                spare = values[passed]
    return noise


@dataclass(frozen=True, slots=True, eq=False)
class _Strips:
    """The law of the strip number; public, so it is kept between draws."""

    x: Fraction
    power: int
    weight: int
    n: int
    ratio: Fraction
    table: npt.NDArray[np.int16]
    """The strip for each 16 leading bits of a uniform number; -1 where they do not decide it."""
    edges: npt.NDArray[np.uint64]
    """The first 64 bits of the cumulative probabilities."""

    def draw(self, leading: npt.NDArray[np.uint16], stream: KeyStream) -> npt.NDArray[np.int16]:
        """Return a strip for each 16 uniform bits: they decide most, 48 more bits the others, then whole words."""
        strips = self.table.take(leading.astype(np.intp), mode="clip")  # no index is out of range
        ties = np.flatnonzero(strips < 0)
        uniform = leading[ties].astype(np.uint64) << np.uint64(48) | stream.words(len(ties)) >> np.uint64(16)
        least = np.searchsorted(self.edges, uniform, side="left")
        strips[ties] = least
        for i in np.flatnonzero(np.searchsorted(self.edges, uniform, side="right") != least):
            strips[ties[i]] = self._settle(int(uniform[i]), stream)
        return strips

    def _settle(self, uniform: int, stream: KeyStream) -> int:
        """Return the strip of a number with these 64 leading bits, drawing words until only one strip is possible."""
        bits = 64
        while True:
            edges = cumulative(self.x, self.power, self.weight, self.n, bits)
            least = bisect_left(edges, uniform)
            if least == bisect_right(edges, uniform):
                return least
            bits, uniform = bits + 64, uniform << 64 | stream.word()


@lru_cache(maxsize=64)
def _strip_law(law: _Law, ratio: Fraction, weight: int) -> _Strips:
    """Return the law of strips ``0, 1, ...`` with probabilities like noise of scale `ratio`.

    Parameters
    ----------
    weight : int
        2 for strips of width 1, which serve a positive and a negative number, except strip 0.
    """
    x, n = law.exponent(1, ratio), max(2, ceil(law.tail * ratio))
    edges = np.asarray(cumulative(x, law.power, weight, n, 64), dtype=np.uint64)
    leading = (edges >> np.uint64(48)).astype(np.int64)
    starts = np.bincount(leading, minlength=2**16)
    table = (np.cumsum(starts) - starts).astype(np.int16)
    table[leading] = -1
    return _Strips(x, law.power, weight, n, ratio, table, edges)


@dataclass(frozen=True, slots=True, eq=False)
class _Proposal:
    """A sign, a strip and a uniform place in it, kept with the probability that makes the law exact."""

    law: _Law
    scale: float
    strips: _Strips
    width: int
    sure: npt.NDArray[np.uint32]
    """For each strip, 32 bits of a uniform number below which every size in it is kept."""

    def draw(self, stream: KeyStream, n: int) -> tuple[Ints, Bools]:
        """Return `n` values, and which of them are kept."""
        words = stream.words(n)
        strips = self.strips.draw(words.view("<u2")[::4], stream)
        negative = (words >> np.uint64(16) & np.uint64(1)).view(np.int64)
        if self.width == 1:  # strip 0 has half the weight of a strip of two signs, so every draw is kept
            sizes, passed = strips.astype(np.int64), np.ones(n, dtype=np.bool_)
        else:
            offsets, passed = self._offsets(words >> np.uint64(17), stream)
            sizes = strips * np.int64(self.width)
            sizes += offsets
            passed &= self._accepted(sizes, strips, stream)
            passed &= (sizes - negative) != -1  # a negative zero would be a second way to say 0
        # Two's complement, without a branch: it would be mispredicted every other time.
        np.negative(negative, out=negative)
        sizes ^= negative
        sizes -= negative
        return sizes, passed

    def _offsets(self, bits: npt.NDArray[np.uint64], stream: KeyStream) -> tuple[Ints, Bools]:
        """Return uniform integers below the width, where a 32-bit number allows an even division."""
        low_bits = max(0, self.width.bit_length() - _OFFSET_BITS - 1)
        high = np.uint64(self.width >> low_bits)
        product = stream.octets(4 * len(bits)).view("<u4") * high
        passed = (product & np.uint64(2**32 - 1)) >= np.uint64(2**32) % high
        offsets = product >> np.uint64(32)
        if low_bits:
            offsets <<= np.uint64(low_bits)
            offsets |= bits & np.uint64(2**low_bits - 1)
        return offsets.view(np.int64), passed

    def _accepted(self, sizes: Ints, strips: npt.NDArray[np.int16], stream: KeyStream) -> Bools:
        """Return which sizes pass with probability ``exp(exponent of the strip - exponent of the size)``.

        Most uniform numbers are below that probability wherever in the strip the size is; the others are compared.
        """
        uniform = stream.octets(4 * len(sizes)).view("<u4")
        passed: Bools = uniform < self.sure.take(strips.astype(np.intp), mode="clip")
        left = np.flatnonzero(~passed)
        if len(left):
            passed[left] = self._compared(sizes[left], strips[left], uniform[left], stream)
        return passed

    def _compared(
        self,
        sizes: Ints,
        strips: npt.NDArray[np.int16],
        uniform: npt.NDArray[np.uint32],
        stream: KeyStream,
    ) -> Bools:
        """Return which uniform numbers are below the probability of their size."""
        chance = sizes / self.scale
        start = strips * (1 / float(self.strips.ratio))
        if self.law.power == 1:
            np.subtract(start, chance, out=chance)
        else:
            total = start + chance
            np.subtract(start, chance, out=chance)
            chance *= total
            chance *= 0.5
        np.exp(chance, out=chance)
        margin = uniform * 2.0**-32
        margin -= chance
        passed: Bools = margin < 0
        for i in np.flatnonzero(np.abs(margin, out=margin) <= _UNDECIDED):
            passed[i] = self._passes(int(sizes[i]), int(strips[i]), int(uniform[i]), stream)
        return passed

    def _passes(self, size: int, strip: int, uniform: int, stream: KeyStream) -> bool:
        """Compare a uniform number of 32 leading bits with an acceptance probability, exactly."""
        law = self.law
        gamma = law.exponent(size, Fraction(self.scale)) - law.exponent(strip, self.strips.ratio)
        if gamma == 0:
            return True
        bits = 32
        while uniform == exponential(gamma, bits):
            bits, uniform = bits + 64, uniform << 64 | stream.word()
        return uniform < exponential(gamma, bits)


@lru_cache(maxsize=64)
def _proposal(law: _Law, scale: float) -> _Proposal:
    """Return what draws noise of `scale`; public, so it is kept between draws."""
    strips, width = law.strips(scale)
    return _Proposal(law, scale, strips, width, _surely_kept(law, scale, strips, width))


def _surely_kept(law: _Law, scale: float, strips: _Strips, width: int) -> npt.NDArray[np.uint32]:
    """Return for each strip a bound on 32 uniform bits below which its last size, the least likely one, is kept.

    Notes
    -----
    The spare 2**-28 outweighs float64 and `_UNDECIDED`: what is below the bound is decided, and the same way.
    """
    numbers = np.arange(strips.n, dtype=np.float64)
    starts, ends = numbers / float(strips.ratio), ((numbers + 1) * width - 1) / scale
    least = np.exp((starts**law.power - ends**law.power) / law.power)
    return np.asarray(np.floor(np.clip(least - 2.0**-28, 0.0, 1.0) * 2.0**32), dtype=np.uint32)
