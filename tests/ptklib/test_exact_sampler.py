"""Digits, ties and keys of the sampler for long vectors."""

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


@given(st.fractions(Fraction(1, 2**50), Fraction(300)), st.sampled_from([64, 128]))
@settings(max_examples=15, deadline=None)
def test_cumulative_digits_are_those_of_a_longer_computation(x: Fraction, bits: int) -> None:
    found = digits.cumulative(x, bits)
    assert len(found) == 255
    with localcontext(prec=700):
        step = -Decimal(x.numerator) / Decimal(x.denominator)
        for d in (1, 2, 100, 255):
            exact = (1 - (d * step).exp()) / (1 - (256 * step).exp())
            assert found[d - 1] == min(floor(exact * 2**bits), 2**bits - 1)


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


def test_sixteen_bits_decide_a_digit_only_where_all_further_bits_agree() -> None:
    digit, edges = vectorised._Digit.of(X), digits.cumulative(X, 64)
    for leading in range(2**16):
        first, last = leading << 48, (leading << 48) + 2**48 - 1
        lowest = sum(edge < first for edge in edges) if leading % 257 == 0 else None
        decided = int(digit.table[leading])
        if decided == -1:
            assert any(first <= edge <= last for edge in edges)
        elif lowest is not None:
            assert decided == lowest


def test_a_tie_of_64_bits_is_settled_by_the_next_words() -> None:
    digit, edges, more = vectorised._Digit.of(X), digits.cumulative(X, 64), digits.cumulative(X, 128)
    place = 41
    leading, tail = edges[place] >> 48, (edges[place] & (2**48 - 1)) << 16
    after = more[place] % 2**64
    for words, expected in (
        ((after - 1,), place),
        ((after + 1,), place + 1),
        ((after, 0), place),
        ((after, 2**64 - 1), place + 1),
    ):
        drawn = digit.draw(Script(leading, tail, *words), 1)  # type: ignore[arg-type]
        assert drawn.tolist() == [expected]


def test_an_acceptance_tie_is_settled_by_the_next_words() -> None:
    scale, width, size = Fraction(3), 4, 5
    gamma = (size - scale * scale / width) ** 2 / (2 * scale * scale)
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
        assert vectorised._passes(size, uniform, scale, width, stream) is expected
    assert vectorised._passes(2, 2**32 - 1, Fraction(2), 2, Script()) is True  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [0.05, 1.0, 3.5e6, vectorised.SCALE_MAX])
def test_there_are_digits_enough_for_the_tail_and_none_reaches_64_bits(scale: float) -> None:
    reach = 256 ** len(vectorised._digits(scale))
    assert reach >= vectorised.TAIL * scale
    assert reach <= 2**56


@pytest.mark.parametrize("n", [0, 1, vectorised._CHUNK, 2 * vectorised._CHUNK + 1])
def test_vectors_of_any_length_are_filled(n: int) -> None:
    for noise in (vectorised.discrete_laplace(1e9, n), vectorised.discrete_gaussian(1e9, n)):
        assert noise.shape == (n,)
        assert noise.dtype == np.int64
        assert len(np.unique(noise)) >= n - 20


def test_every_stream_and_every_chunk_has_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not np.array_equal(KeyStream().octets(64), KeyStream().octets(64))
    keys: list[bytes] = []
    urandom = vectorised.KeyStream.__init__.__globals__["os"].urandom

    def recorded(n: int) -> bytes:
        keys.append(urandom(n))
        return keys[-1]

    monkeypatch.setattr("ptklib.mechanisms.stream.os.urandom", recorded)
    vectorised.discrete_laplace(1.0, 3 * vectorised._CHUNK)
    assert len(set(keys)) == 3
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
