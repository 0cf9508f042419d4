"""Guessing always: no more right guesses than the profile of an event allows, and less noise is told from more."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ptklib import PrivacyLoss
from ptklib.accounting import discrete_scale, joint_multiplier, pld_advantage, profile_epsilon
from ptklib.accounting.profiles import parts_of
from ptklib.checks import epsilon_lower_bound
from ptklib.checks.bounds import GaussianTest
from ptklib.checks.profile import ProfileTest
from ptklib.checks.rules import Rule, even_rule

LAPLACE = {"name": "DiscreteLaplace", "scale": 1.0, "l1_sensitivity": 1, "shape": [1]}
STEP = 2**15
GAUSS = {
    "name": "DiscreteGaussian", "scale": discrete_scale(1.25 * STEP), "l2_sensitivity": STEP, "shape": [1]
}  # fmt: skip
ANY = {"name": "EpsilonDelta", "epsilon": 1.0, "delta": 0.0}


def loss(*events: dict[str, Any], delta: float = 0.0) -> PrivacyLoss:
    return PrivacyLoss(1.0, delta, {"name": "Composed", "events": list(events)})


def two_answers(epsilon: float) -> float:
    """Total variation of two answers of randomised response: both right, one of two, none."""
    p = 1 / (1 + math.exp(-epsilon))
    return p**2 - (1 - p) ** 2


@pytest.mark.parametrize(
    ("events", "advantage"),
    [
        ([LAPLACE], math.tanh(0.5)),
        ([GAUSS], 2 * stats.norm.cdf(0.4) - 1),
        ([GAUSS, GAUSS], 2 * stats.norm.cdf(0.4 * math.sqrt(2)) - 1),
        ([ANY], math.tanh(0.5)),
        ([ANY, ANY], two_answers(1.0)),
        ([{**ANY, "delta": 1e-3}], math.tanh(0.5) + 1e-3),
        ([{**ANY, "epsilon": 0.0, "delta": 1e-3}], 1e-3),
    ],
    ids=["laplace", "gaussian", "two gaussians", "response", "two responses", "with delta", "delta alone"],
)
def test_the_advantage_is_the_total_variation_of_the_worst_pair(
    events: list[dict[str, Any]], advantage: float
) -> None:
    found = pld_advantage(loss(*events, delta=1e-3))
    assert advantage * (1 - 1e-9) <= found <= advantage * 1.001


def test_what_hides_next_to_nothing_has_an_advantage_of_one() -> None:
    assert pld_advantage(loss({**LAPLACE, "l1_sensitivity": 100})) == 1.0


def test_a_bound_is_no_larger_than_what_is_lost() -> None:
    """Of noise with a small scale too, and of shares that only next to no noise explains."""
    small = {**GAUSS, "scale": 3.6, "l2_sensitivity": 1}
    multiplier = joint_multiplier([small])
    assert multiplier is not None
    declared = PrivacyLoss(profile_epsilon(multiplier, 1e-3), 1e-3, {"name": "Composed", "events": [small]})
    for divisor in (0.7, 1.5, 2.0, 3.0):
        share = float(stats.norm.cdf(divisor / multiplier / 2))
        found = ProfileTest(declared).bound(share).epsilon
        lost = profile_epsilon(multiplier / divisor, 1e-3)
        assert 0.93 * lost < found < 1.001 * lost
    assert ProfileTest(declared).bound(1 - 1e-9).epsilon < math.inf


def test_an_event_without_a_profile_is_held_against_its_curve() -> None:
    """Noise of so small a scale that nothing is proven of it but a Rényi curve: less may be told than is declared."""
    tiny = {"name": "DiscreteGaussian", "scale": 1.6, "l2_sensitivity": 1, "shape": [1]}
    assert parts_of(tiny) is None
    declared = PrivacyLoss(1.0, 1e-3, tiny)
    truly = 0.5 + 0.5 * (1 - 2 * stats.norm.sf(0.5 / 1.6))  # about: the noise is discrete
    assert not ProfileTest(declared).bound(truly + 0.1).exceeds


def test_a_unit_meets_one_of_parallel_parts() -> None:
    both = {"name": "Parallel", "events": [LAPLACE, {**LAPLACE, "scale": 0.5}]}
    assert pld_advantage(loss(both)) == pytest.approx(math.tanh(1.0), rel=1e-3)


def test_all_right_guesses_give_the_bound_of_clopper_and_pearson() -> None:
    scores, inside = np.array([1.0] * 60 + [-1.0] * 40), np.array([True] * 60 + [False] * 40)
    test = ProfileTest(loss(LAPLACE))
    share = test.strength(scores, inside, Rule(0.0, 0.0), 0.001)
    assert share == pytest.approx(0.001 ** (1 / 100))
    # No guess counts as a wrong one.
    assert test.strength(scores, inside, Rule(0.0, -math.inf), 0.001) < 0.75
    found = test.bound(share)
    # tanh(epsilon / 2) = 2 share - 1
    assert found.epsilon == pytest.approx(2 * math.atanh(2 * share - 1), rel=0.021)
    assert found.exceeds


@pytest.mark.parametrize("events", [[LAPLACE], [LAPLACE] * 6, [GAUSS], [GAUSS, LAPLACE]])
@pytest.mark.parametrize("divisor", [0.5, 1.0, 2.0])
def test_the_bound_is_the_epsilon_of_the_noise_that_explains_the_share(
    events: list[dict[str, Any]], divisor: float
) -> None:
    noisy = any("Gaussian" in event["name"] for event in events)
    declared = loss(*events, delta=1e-3 * noisy)
    less = loss(*({**event, "scale": event["scale"] / divisor} for event in events))
    share = (1 + pld_advantage(less)) / 2
    below, above = (ProfileTest(declared).bound(share * factor) for factor in (1 - 1e-4, 1 + 1e-4))
    assert (below.exceeds, above.exceeds) == (divisor > 1, divisor >= 1)
    if noisy:
        assert (below.epsilon < 0.95, above.epsilon > 1.05) == (divisor < 1, divisor > 1)
    else:
        assert divisor / 1.05 < below.epsilon <= above.epsilon <= divisor * 1.0001


def test_scores_that_say_nothing_prove_nothing() -> None:
    inside = np.arange(400) % 2 == 0
    scores = np.where(np.arange(400) % 4 < 2, 1.0, -1.0)
    assert ProfileTest(loss(LAPLACE)).bound(0.5).epsilon == 0.0
    assert even_rule(scores, ~inside & (scores < 0)) == Rule(math.inf, -math.inf)


def test_guessing_always_proves_more_of_gaussian_noise_than_one_sided_guesses() -> None:
    random, n = np.random.default_rng(12), 1_000
    inside = random.random(n) < 0.5
    declared = PrivacyLoss(profile_epsilon(1.25, 1e-3), 1e-3, GAUSS)
    honest, faulty = (random.normal(size=n) + shift * inside for shift in (0.8, 1.6))
    assert not epsilon_lower_bound(honest, inside, declared).exceeds
    found = epsilon_lower_bound(faulty, inside, declared)
    assert found.exceeds
    one_sided = GaussianTest(0.8, 1e-3)
    rule = one_sided.rule(faulty, inside[:200])
    assert (
        found.epsilon
        > 1.2 * one_sided.bound(one_sided.strength(faulty[200:], inside[200:], rule, 0.001)).epsilon
    )
