"""Noise of many short vectors, drawn before it is needed: fresh for each, of the law and in the record of one draw."""

import numpy as np
import pytest
from scipy import stats

from ptklib.checks.transcript import record, replay
from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms import additive
from ptklib.mechanisms.recording import recorded_draws

pytestmark = pytest.mark.fresh_noise

SCALE = 2.0**31


def test_each_vector_gets_fresh_noise_of_the_scale() -> None:
    step = additive.gaussian_steps(scale=SCALE, size=5)
    exact = np.arange(5) * 1000
    noise = np.array([step(exact) - exact for _ in range(4_000)])  # several times what is drawn ahead
    assert len(np.unique(noise)) > 0.99 * noise.size
    assert stats.kstest(noise.ravel() / SCALE, stats.norm.cdf).pvalue > 1e-6
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 5 / noise.size**0.5


def test_every_vector_is_in_the_record_and_can_be_replayed() -> None:
    found: list[list[int]] = []

    def train() -> None:
        step = additive.gaussian_steps(scale=SCALE, size=2)
        found.append([*step(np.array([1, 2])), *step(np.array([3, 4]))])

    with recorded_draws() as draws:
        made = record(train)
        replay(made, train)
    assert found[0] == found[1]
    assert [(one.mechanism, one.scale, one.exact[0].tolist()) for one in made.steps] == [
        ("DiscreteGaussian", SCALE, [1, 2]),
        ("DiscreteGaussian", SCALE, [3, 4]),
    ]
    assert draws == []  # each has a record of its own


def test_other_sizes_and_scales_are_refused() -> None:
    with pytest.raises(ValueError, match="vectors of 2 integers"):
        additive.gaussian_steps(scale=SCALE, size=2)(np.array([1]))
    for scale in (0.0, 2.0**56, float("nan")):
        with pytest.raises(PrivacyParameterError):
            additive.gaussian_steps(scale=scale, size=2)
