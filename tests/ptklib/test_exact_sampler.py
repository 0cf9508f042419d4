"""Digits, ties and keys of the exact sampler for vectors."""

from decimal import Decimal, localcontext
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptklib.mechanisms import digits, vectorised
from ptklib.mechanisms.stream import KeyStream

X = Fraction(1, 300)


class Script:
    """A stream that says what it is told."""

    def __init__(self, *words: int) -> None:
        self._words = iter(words)

    def word(self) -> int:
        return next(self._words)

    def words(self, n: int) -> Any:
        return np.array([self.word() for _ in range(n)], dtype=np.uint64)

    def octets(self, n: int) -> Any:
        return self.words(-(-n // 8)).view(np.uint8)[:n]


@given(st.fractions(Fraction(1, 2**50), Fraction(300)), st.sampled_from([8, 64, 192]))
@settings(max_examples=60, deadline=None)
def test_digits_of_an_exponential_are_those_of_a_longer_computation(x: Fraction, bits: int) -> None:
    if x == 0:
        return
    with localcontext(prec=600):
        value = (-Decimal(x.numerator) / Decimal(x.denominator)).exp()
        assert digits.exponential(x, bits) == floor(value * 2**bits)


@pytest.mark.long
@given(
    st.fractions(Fraction(1, 2**20), Fraction(300)),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 2]),
    st.sampled_from([64, 128]),
)
@settings(max_examples=15, deadline=None)
def test_cumulative_digits_are_those_of_a_longer_computation(
    x: Fraction, power: int, weight: int, bits: int
) -> None:
    found = digits.cumulative(x, power, weight, 40, bits)
    assert len(found) == 39
    with localcontext(prec=700):
        step = -Decimal(x.numerator) / Decimal(x.denominator)
        masses = [(weight if k else 1) * (k**power * step).exp() for k in range(40)]
        for k in (1, 2, 17, 39):
            exact = sum(masses[:k], Decimal(0)) / sum(masses, Decimal(0))
            assert found[k - 1] == min(floor(exact * 2**bits), 2**bits - 1)


def test_digits_at_the_edge_of_their_precision_are_computed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, bounds, asked = digits.exponential(X, 64), digits._bounds, []

    def loose(x: Fraction, precision: int) -> tuple[int, int]:
        asked.append(precision)
        low, high = bounds(x, precision)
        return (low, high) if len(asked) > 1 else (low - 2**40, high + 2**40)

    monkeypatch.setattr(digits, "_bounds", loose)
    digits.exponential.cache_clear()
    assert digits.exponential(X, 64) == wanted
    assert len(asked) == 2


def test_sixteen_bits_decide_a_strip_only_where_all_further_bits_agree() -> None:
    strips = vectorised._strip_law(vectorised.LAPLACE, Fraction(19, 10), 1)
    edges = digits.cumulative(Fraction(10, 19), 1, 1, strips.n, 64)
    for leading in range(2**16):
        first, last = leading << 48, (leading << 48) + 2**48 - 1
        decided = int(strips.table[leading])
        if decided == -1:
            assert any(first <= edge <= last for edge in edges)
        elif leading % 257 == 0:
            assert decided == sum(edge < first for edge in edges)
            assert not any(first <= edge <= last for edge in edges)


def test_a_tie_of_64_bits_is_settled_by_the_next_words() -> None:
    strips = vectorised._strip_law(vectorised.GAUSSIAN, Fraction(16), 1)
    edges = digits.cumulative(strips.x, 2, 1, strips.n, 64)
    more = digits.cumulative(strips.x, 2, 1, strips.n, 128)
    place = 41
    leading = np.array([edges[place] >> 48], dtype=np.uint16)
    tail, after = (edges[place] & (2**48 - 1)) << 16, more[place] % 2**64
    for words, expected in (
        ((after - 1,), place),
        ((after + 1,), place + 1),
        ((after, 0), place),
        ((after, 2**64 - 1), place + 1),
    ):
        drawn = strips.draw(leading, Script(tail, *words))  # type: ignore[arg-type]
        assert drawn.tolist() == [expected]


@pytest.mark.parametrize("scale", [97.0, 1e9])
@pytest.mark.parametrize("law", [vectorised.LAPLACE, vectorised.GAUSSIAN])
def test_an_acceptance_tie_is_settled_by_the_next_words(law: Any, scale: float) -> None:
    strips, width = law.strips(scale)
    proposal = vectorised._proposal(law, scale)
    size = 3 * width + 2
    gamma = law.exponent(size, Fraction(scale)) - law.exponent(3, strips.ratio)
    first, after = digits.exponential(gamma, 32), digits.exponential(gamma, 96) % 2**64
    for uniform, words, expected in (
        (first - 1, (), True),
        (first + 1, (), False),
        (first, (after - 1,), True),
        (first, (after + 1,), False),
        (first, (after, 0), True),
        (first, (after, 2**64 - 1), False),
    ):
        stream: Any = Script(*words)
        assert proposal._passes(size, 3, uniform, stream) is expected
    assert proposal._passes(0, 0, 2**32 - 1, Script()) is True  # type: ignore[arg-type]


@pytest.mark.parametrize("law", [vectorised.LAPLACE, vectorised.GAUSSIAN])
@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 15.9, 16.0, 127.9, 128.0, 255.9, 256.0, 3.5e6, 2.0**48])
def test_every_proposal_is_at_least_as_likely_as_the_law_and_reaches_its_tail(law: Any, scale: float) -> None:
    strips, width = law.strips(scale)
    assert strips.ratio * width >= Fraction(scale)
    assert strips.n * width >= law.tail * Fraction(scale)
    assert strips.n * width <= 2**55
    assert scale < 16 * law.steps or strips.ratio * width <= Fraction(scale) * Fraction(17, 16)


@pytest.mark.parametrize("width", [3, 1000, 2**16 + 1, 2**16, 40_000 << 20, 2**45])
def test_offsets_are_every_integer_below_the_width_equally_often(width: int) -> None:
    proposal = vectorised._Proposal(
        vectorised.LAPLACE,
        1.0,
        vectorised._strip_law(vectorised.LAPLACE, Fraction(8), 1),
        width,
        np.zeros(1, dtype=np.uint32),
    )
    low_bits = max(0, width.bit_length() - 17)
    high = width >> low_bits
    assert high << low_bits == width
    # The least and greatest 32-bit numbers of three high parts: all but the first 2**32 mod high are kept.
    for part in (0, high // 2, high - 1):
        least, most = -(-(part << 32) // high), -(-((part + 1) << 32) // high) - 1
        low = (1 << low_bits) - 1
        kept = 0
        for v in (*range(least, least + 3), *range(most - 2, most + 1)):
            script: Any = Script(v)
            offsets, passed = proposal._offsets(np.array([low], dtype=np.uint64), script)
            assert offsets.tolist() == [(part << low_bits) + low]
            assert passed.tolist() == [(v * high) % 2**32 >= 2**32 % high]
            kept += int(passed[0])
        assert kept > 0
        skipped = int((least * high) % 2**32 < 2**32 % high)
        assert most - least + 1 - skipped == 2**32 // high


@pytest.mark.parametrize("n", [0, 1, vectorised._CHUNK, 2 * vectorised._CHUNK + 1])
def test_vectors_of_any_length_are_filled(n: int) -> None:
    for noise in (vectorised.discrete_laplace(1e9, n), vectorised.discrete_gaussian(1e9, n)):
        assert noise.shape == (n,)
        assert noise.dtype == np.int64
        assert len(np.unique(noise)) >= n - 20


def test_every_stream_and_every_chunk_has_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not np.array_equal(KeyStream().octets(64), KeyStream().octets(64))
    keys: list[bytes] = []
    urandom = vectorised.KeyStream.__init__.__globals__["os"].urandom  # type: ignore[attr-defined]

    def recorded(n: int) -> bytes:
        keys.append(urandom(n))
        return keys[-1]

    monkeypatch.setattr("ptklib.mechanisms.stream.os.urandom", recorded)
    vectorised.discrete_laplace(1.0, 3 * vectorised._CHUNK)
    vectorised.discrete_laplace(1.0, 1)
    assert len(set(keys)) == 4
    assert {len(key) for key in keys} == {32}


def test_a_stream_is_aes_256_in_counter_mode_and_goes_on_where_it_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ptklib.mechanisms.stream.os.urandom", bytes)
    whole, stream = KeyStream().octets(2**19), KeyStream()
    # The published encryption of a block of zeros under a key of zeros.
    assert bytes(whole[:16]).hex() == "dc95c078a2408989ad48a21492842087"
    pieces = [stream.octets(n) for n in (0, 1, 7, 8, 1000, 2**18 + 5)]
    assert np.array_equal(np.concatenate(pieces), whole[: sum(map(len, pieces))])


@pytest.mark.parametrize("law", [vectorised.LAPLACE, vectorised.GAUSSIAN])
@pytest.mark.parametrize("scale", [40.0, 200.5, 1000.0, 3.5e6, 2.0**47])
def test_a_number_that_is_kept_without_a_comparison_passes_it_at_every_size_of_its_strip(
    law: Any, scale: float
) -> None:
    proposal = vectorised._proposal(law, scale)
    strips = np.arange(proposal.strips.n, dtype=np.int16)
    first = strips.astype(np.int64) * proposal.width
    for sizes in (first, first + proposal.width // 2, first + proposal.width - 1):
        uniform = np.maximum(proposal.sure, 1) - np.uint32(1)
        kept = proposal._compared(sizes, strips, uniform.astype(np.uint32), KeyStream())
        assert kept[proposal.sure > 0].all()
    # The bound is of use: most numbers are below it.
    assert proposal.sure[0] > 0.85 * 2**32
    # Exactly, beside float64: the bound is below exp(-gamma) of the least likely size by more than 2**-29.
    for k in (0, 1, 7, proposal.strips.n - 1):
        gamma = law.exponent(int(first[k]) + proposal.width - 1, Fraction(scale)) - law.exponent(
            k, proposal.strips.ratio
        )
        assert int(proposal.sure[k]) + 8 <= digits.exponential(gamma, 32) or proposal.sure[k] == 0
