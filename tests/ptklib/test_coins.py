"""Coins of Poisson samples: independent, with the probability asked for."""

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms import coins
from ptklib.mechanisms.coins import sampled, tossed, uniform_below, uniforms_below
from ptklib.mechanisms.stream import KeyStream


def test_coins_fall_independently_with_the_probability_asked_for() -> None:
    found = np.concatenate([tossed(50_000, 0.3) for _ in range(2)])
    assert stats.binomtest(int(found.sum()), len(found), 0.3).pvalue > 1e-6
    pairs = np.bincount(2 * found[::2] + found[1::2], minlength=4)
    assert stats.chisquare(pairs, [n * 50_000 for n in (0.49, 0.21, 0.21, 0.09)]).pvalue > 1e-6
    assert tossed(1000, 1.0).all()
    assert not tossed(1000, 2.0**-65).any()
    assert not np.array_equal(tossed(200, 0.5), tossed(200, 0.5))  # equal once in 2**200


def test_a_rate_below_8_bits_is_decided_by_the_others() -> None:
    found = tossed(4_000_000, 2.0**-17)
    assert stats.binomtest(int(found.sum()), len(found), 2.0**-17).pvalue > 1e-6
    assert found.any()


class Bits:
    """A stream that gives out bits that were chosen."""

    def __init__(self, first: list[int], rest: list[int]) -> None:
        self._first, self._rest = first, rest

    def octets(self, n: int) -> npt.NDArray[np.uint8]:
        return np.array(self._first[:n], dtype=np.uint8)

    def words(self, n: int) -> npt.NDArray[np.uint64]:
        return np.array(self._rest[:n], dtype=np.uint64) << np.uint64(8)


def test_a_coin_is_what_64_bits_below_the_rate_are(monkeypatch: pytest.MonkeyPatch) -> None:
    threshold = (7 << 56) + (5 << 7)
    rate = float(Fraction(threshold, 2**64))
    assert Fraction(rate) * 2**64 == threshold
    first, rest = [6, 8, 7, 7, 7, 0], [(5 << 7) - 1, 5 << 7, 5 << 8]
    monkeypatch.setattr(coins, "KeyStream", lambda: Bits(first, rest))
    assert tossed(6, rate).tolist() == [True, False, True, False, False, True]
    assert sampled(6, rate).tolist() == [0, 2, 5]


def test_places_of_a_small_rate_are_those_of_its_coins(monkeypatch: pytest.MonkeyPatch) -> None:
    rate = 5 / 2**16  # the first 8 bits are 0
    monkeypatch.setattr(coins, "KeyStream", lambda: Bits([0, 1, 0, 255, 0], [4 << 48, 5 << 48, 0]))
    assert tossed(5, rate).tolist() == [True, False, False, False, True]
    assert sampled(5, rate).tolist() == [0, 4]


def test_a_place_is_uniform() -> None:
    found = np.bincount([uniform_below(7) for _ in range(7000)], minlength=7)
    assert len(found) == 7
    assert stats.chisquare(found).pvalue > 1e-6
    assert uniform_below(1) == 0


@pytest.mark.parametrize("rate", [2.0**-10, 0.3])
def test_coins_of_one_piece_of_work_come_one_after_another_from_its_stream(
    rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = KeyStream()
    monkeypatch.setattr(coins, "KeyStream", None)  # no other stream is made
    first, second = (sampled(50_000, rate, stream) for _ in range(2))
    assert not np.array_equal(first, second)
    assert tossed(50_000, rate, stream).any()


class Words:
    """A stream that gives out words that were chosen."""

    def __init__(self, words: list[int]) -> None:
        self._words = words

    def word(self) -> int:
        return self._words.pop(0)


def test_words_that_would_favour_the_first_places_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for n, least_refused in ((3, 2**64 - 1), (2**63 + 1, 2**63 + 1), (10, 2**64 - 6)):
        monkeypatch.setattr(coins, "KeyStream", lambda first=least_refused: Words([2**64 - 1, first, 5]))
        assert uniform_below(n) == 5 % n
        monkeypatch.setattr(coins, "KeyStream", lambda first=least_refused: Words([first - 1, 5]))
        assert uniform_below(n) == n - 1
    monkeypatch.setattr(coins, "KeyStream", lambda: Words([2**64 - 1]))
    assert uniform_below(2**64) == 2**64 - 1


@pytest.mark.parametrize("n", [0, -1, 2**64 + 1])
def test_a_place_among_none_is_refused(n: int) -> None:
    with pytest.raises(PrivacyParameterError):
        uniform_below(n)


def test_many_places_are_uniform_and_independent() -> None:
    found = uniforms_below(7, 70_000)
    assert stats.chisquare(np.bincount(found, minlength=7)).pvalue > 1e-6
    assert stats.chisquare(np.bincount(7 * found[::2] + found[1::2], minlength=49)).pvalue > 1e-6
    assert uniforms_below(1, 3).tolist() == [0, 0, 0]
    assert len(uniforms_below(5, 0)) == 0
    assert uniforms_below(2**63, 50).min() >= 0


def test_many_places_do_not_favour_the_first_ones() -> None:
    """A quarter of all words is beyond the largest multiple of 3 * 2**61: were they kept, half of all places would be
    in the first third."""
    found = uniforms_below(3 * 2**61, 30_000) // 2**61
    assert stats.chisquare(np.bincount(found, minlength=3)).pvalue > 1e-6


@pytest.mark.parametrize("n", [0, -1, 2**63 + 1])
def test_many_places_among_none_are_refused(n: int) -> None:
    with pytest.raises(PrivacyParameterError):
        uniforms_below(n, 3)
