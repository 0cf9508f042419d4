"""Each mechanism by itself: it loses no more than it declares, and its twin with half the noise is caught."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ptklib import PrivacyLoss
from ptklib.accounting import gaussian_multiplier
from ptklib.arrays import Bools
from ptklib.checks import epsilon_lower_bound
from ptklib.mechanisms import AboveThreshold, exponential_mechanism, gaussian, laplace, report_noisy_max
from ptklib.mechanisms.comparisons import Comparison, above_threshold_event
from ptklib.mechanisms.partition import PartitionSelection, laplace_selection
from ptklib.mechanisms.selection import selection_event
from ptklib.mechanisms.threshold import DrawnThreshold
from ptklib.mechanisms.threshold import first_above as in_turn
from tests.statistical.tools import FALSE_ALARM

pytestmark = pytest.mark.long

EPSILON, DELTA, STEP = 2.0, 1e-3, 1000


def laplace_scores(inside: Bools, factor: int) -> Any:
    return laplace(inside * STEP, l1_sensitivity=STEP, epsilon=factor * EPSILON)


def gaussian_scores(inside: Bools, factor: int) -> Any:
    return gaussian(inside * STEP, scale=STEP * gaussian_multiplier(EPSILON, DELTA) / factor)


def noisy_max_scores(inside: Bools, factor: int) -> Any:
    return selection_scores(report_noisy_max, inside, factor)


def exponential_scores(inside: Bools, factor: int) -> Any:
    return selection_scores(exponential_mechanism, inside, factor)


def selection_scores(select: Callable[..., int], inside: Bools, factor: int) -> Any:
    """Two candidates that are equal, or two sensitivities apart."""
    scores = {False: np.array([0, 0]), True: np.array([-1, 1])}
    return np.array([select(scores[bool(i)], sensitivity=1, epsilon=factor * EPSILON) for i in inside])


def partition_scores(inside: Bools, factor: int) -> Any:
    """Keys far above the threshold, with one row more or less; test_partition_selection has the others."""
    honest = partition()
    scale = honest.scale / factor
    twin = PartitionSelection(honest.mechanism, scale, 1, 1, honest.threshold, honest.delta)
    counts = 2 * honest.threshold + inside.astype(np.int64)
    _, noisy, passed = twin.draw(np.zeros((0, 1), dtype=np.int64), counts[:, np.newaxis])
    scores = np.zeros(len(inside))
    scores[passed] = noisy[:, 0]
    return scores


def partition() -> PartitionSelection:
    return laplace_selection(sensitivity=1, epsilon=EPSILON, delta=DELTA, n_cells=1)


def above_scores(inside: Bools, factor: int) -> Any:
    """Ten values below the threshold, then one above: one row moves the ten up and the last one down."""
    streams = {False: [20] * 10 + [0], True: [0] * 10 + [20]}
    return np.array([first_above(streams[bool(i)], factor) == 10 for i in inside], dtype=np.float64)


def first_above(values: list[int], factor: int) -> int:
    test = AboveThreshold(threshold=10, sensitivity=20, epsilon=factor * EPSILON, pay=lambda loss: None)
    return next((i for i, value in enumerate(values) if test.is_above(value)), len(values))


UNIT, LINE, BELOW = 20, 0, 5


def kept_scores(inside: Bools, factor: int) -> Any:
    """Five values that one row less moves down, then one that it does not move: is just the last one above?

    Each threshold is kept as a secret between two values. One unit of loss of one row is 20.
    """
    comparison = Comparison(UNIT, factor * EPSILON, monotonic=True)
    secrets = [DrawnThreshold.draw(comparison, pay=lambda loss: None).secret() for _ in inside]
    live = np.arange(len(inside))
    for _ in range(BELOW):
        live = live[~compared(secrets, live, np.where(inside[live], 0, UNIT) - LINE)]
    scores = np.zeros(len(inside))
    scores[live[compared(secrets, live, np.full(len(live), UNIT - LINE))]] = 1.0
    return scores


def compared(secrets: list[bytes], live: Any, values: Any) -> Any:
    """Restore some thresholds, compare a value with each, and keep them again; who is above."""
    restored = [DrawnThreshold.restore(secrets[i]) for i in live]
    above = np.array(in_turn(restored, values.tolist(), most=len(live)), dtype=bool)
    for i, one in zip(live, restored, strict=True):
        secrets[i] = one.secret()
    return above


def pure(event: dict[str, Any]) -> PrivacyLoss:
    return PrivacyLoss(EPSILON, 0.0, event)


GAUSSIAN = {"name": "DiscreteGaussian", "l2_sensitivity": STEP, "shape": [1]}
MECHANISMS = {
    "laplace": (
        laplace_scores,
        pure({"name": "DiscreteLaplace", "scale": STEP / EPSILON, "l1_sensitivity": STEP, "shape": [1]}),
        20_000,
    ),
    "gaussian": (
        gaussian_scores,
        PrivacyLoss(
            EPSILON,
            DELTA,
            {**GAUSSIAN, "scale": (3 + (STEP * gaussian_multiplier(EPSILON, DELTA)) ** 2) ** 0.5},
        ),
        20_000,
    ),
    "permute-and-flip": (
        noisy_max_scores,
        pure(selection_event("PermuteAndFlip", n_candidates=2, sensitivity=1, epsilon=EPSILON)),
        5_000,
    ),
    "exponential-mechanism": (
        exponential_scores,
        pure(selection_event("ExponentialMechanism", n_candidates=2, sensitivity=1, epsilon=EPSILON)),
        5_000,
    ),
    "partition-selection": (partition_scores, PrivacyLoss(EPSILON, DELTA, partition().event), 20_000),
    "above-threshold": (above_scores, pure(above_threshold_event(sensitivity=20, epsilon=EPSILON)), 40_000),
    "kept-threshold": (
        kept_scores,
        pure(above_threshold_event(sensitivity=UNIT, epsilon=EPSILON, monotonic=True)),
        20_000,
    ),
}
SLOW = {"above-threshold", "kept-threshold"}
each_mechanism = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.soak] if name in SLOW else []) for name in MECHANISMS]
)


def bound(name: str, factor: int) -> Any:
    scores, claim, n = MECHANISMS[name]
    inside = np.random.default_rng().random(n) < 0.5
    return epsilon_lower_bound(scores(inside, factor), inside, claim, confidence=1 - FALSE_ALARM)


@each_mechanism
def test_a_mechanism_loses_no_more_than_it_declares(name: str) -> None:
    found = bound(name, factor=1)
    assert not found.exceeds
    assert found.epsilon > EPSILON / 4


@each_mechanism
def test_a_twin_with_half_the_noise_is_caught(name: str) -> None:
    assert bound(name, factor=2).exceeds
