"""Validators of the error of released statistics: as rarely wrong as promised, and able to accept.

Each statistical limit is exceeded once in a million runs, were every validation as wrong as it may be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptklib.exceptions import InvalidParameterError
from ptklib.mechanisms import additive
from ptklib.profiling import LossEstimate
from ptklib.validation import Decision, ErrorValidator, Verdict
from tests.support.noisy_sums import allowed, noisy_sums

TRIES, N, EPSILON = 400, 2_000, 0.5


def accepted(verdicts: list[Verdict]) -> int:
    return sum(verdict.decision is Decision.ACCEPT for verdict in verdicts)


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Values of 0, .5 or 1, a third each, so the variance is a sixth; how many are 1, and how many .5."""
    random = np.random.default_rng(1)
    _, half, one = random.multinomial(N, [1 / 3] * 3, TRIES).T
    return one, half


def sums_of(drawn: tuple[np.ndarray, np.ndarray], power: int) -> list[LossEstimate]:
    one, half = drawn
    return noisy_sums(one + half * 0.5**power, np.full(TRIES, N), EPSILON)


def test_a_mean_is_accepted_within_its_target_and_not_beyond(drawn: Any):
    """The true mean is 30, in bounds from 0 to 60."""
    sums = sums_of(drawn, 1)
    validator = ErrorValidator(3.0, bounds=(0, 60), confidence=0.8)
    for released in (33.01, 26.99):
        assert accepted([validator.of_mean(released, one) for one in sums]) <= allowed(0.2, TRIES)
    assert accepted([validator.of_mean(30.0, one) for one in sums]) > 0.7 * TRIES


def test_a_variance_is_accepted_within_its_target_and_not_beyond(drawn: Any):
    """The true variance is 600."""
    pairs = list(zip(sums_of(drawn, 1), sums_of(drawn, 2), strict=True))
    validator = ErrorValidator(400.0, bounds=(0, 60), confidence=0.8)
    for released in (1000.1, 199.9):
        verdicts = [validator.of_variance(released, *pair) for pair in pairs]
        assert accepted(verdicts) <= allowed(0.2, TRIES)
    assert accepted([validator.of_variance(600.0, *pair) for pair in pairs]) > 0.7 * TRIES


def test_a_histogram_is_accepted_within_its_target_and_not_beyond(drawn: Any):
    one, half = drawn
    bins = [noisy_sums(part, np.full(TRIES, N), EPSILON) for part in (N - one - half, half, one)]
    validator = ErrorValidator(0.1, confidence=0.8)
    tables = list(zip(*bins, strict=True))
    far = (1 / 3 + 0.1001, 1 / 3, 1 / 3 - 0.1001)
    assert accepted([validator.of_histogram(far, sums) for sums in tables]) <= allowed(0.2, TRIES)
    assert accepted([validator.of_histogram((1 / 3,) * 3, sums) for sums in tables]) > 0.7 * TRIES


@pytest.mark.parametrize("scale", [0.7, 20.0])
def test_a_count_misses_by_more_than_its_bound_as_rarely_as_promised(scale: float):
    tries = 20_000
    bound = ErrorValidator(1.0, confidence=0.8).of_count(scale).bound  # the first look may fail once in ten
    noise = additive.laplace(np.zeros(tries, np.int64), l1_sensitivity=7, epsilon=7 / scale)
    assert int((np.abs(noise) > bound).sum()) <= allowed(0.1, tries)
    assert int((np.abs(noise) > bound - 1).sum()) > allowed(0.1, tries) * 0.9
    assert ErrorValidator(bound, confidence=0.8).of_count(scale).decision is Decision.ACCEPT
    assert (
        ErrorValidator(bound - 0.5 if bound > 1 else 0.5, confidence=0.8).of_count(scale).decision
        is Decision.RETRY
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda: ErrorValidator(0.0),
        lambda: ErrorValidator(0.1, confidence=1.0),
        lambda: ErrorValidator(0.1, bounds=(1, 0)),
        lambda: ErrorValidator(0.1).of_count(0.0),
        lambda: ErrorValidator(0.1).of_mean(float("nan"), LossEstimate(1.0, 0, 0)),
        lambda: ErrorValidator(0.1).of_histogram([0.1], []),
    ],
)
def test_what_cannot_be_used_is_refused(call: Any):
    with pytest.raises(InvalidParameterError):
        call()
