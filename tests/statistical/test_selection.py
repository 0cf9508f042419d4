"""Selections and thresholds follow the laws their privacy rests on, ties included."""

from typing import Any

import numpy as np
import pytest

from ptklib.mechanisms import AboveThreshold, exponential_mechanism, report_noisy_max, threshold
from ptklib.mechanisms.comparisons import above_threshold_event
from tests.statistical.tools import FALSE_ALARM, exponential, first_above, law_pvalue, permute_and_flip

pytestmark = pytest.mark.long

RUNS = 3_000
STREAMS = 1_800
VALUES = [0, 2, 0, 1]
SELECTIONS = [(report_noisy_max, permute_and_flip), (exponential_mechanism, exponential)]


@pytest.mark.parametrize(("select", "law"), SELECTIONS)
@pytest.mark.parametrize("scores", [[3, 3, 1, 0], [0, 0, 0], [-(2**61), 5, 4], [2, 4]])
def test_a_selection_follows_its_law(select: Any, law: Any, scores: list[int]) -> None:
    exact = np.array(scores, dtype=np.int64)
    # Two units of sensitivity at epsilon 2.5: scale 1.6 where scores move both ways, 0.8 where they move together.
    for monotonic, scale in ((False, 1.6), (True, 0.8)):
        draws = [select(exact, sensitivity=2, epsilon=2.5, monotonic=monotonic) for _ in range(RUNS)]
        expected = law(exact, scale)
        possible = expected > 0
        assert not np.any(~possible[draws])
        found = np.cumsum(possible)[draws] - 1
        assert law_pvalue(found, expected[possible]) > FALSE_ALARM
        half = law(exact, scale / 2)[possible]
        if np.ptp(scores):
            assert law_pvalue(found, half) < FALSE_ALARM


def test_the_two_selections_are_not_the_same() -> None:
    scores = np.array([0, 1], dtype=np.int64)
    draws = [report_noisy_max(scores, sensitivity=1, epsilon=1.0) for _ in range(3 * RUNS)]
    assert law_pvalue(np.asarray(draws), permute_and_flip(scores, 2.0)) > FALSE_ALARM
    assert law_pvalue(np.asarray(draws), exponential(scores, 2.0)) < FALSE_ALARM


def stops(**parameters: Any) -> Any:
    """Return after how many values each of many thresholds says "above"."""
    found = []
    for _ in range(STREAMS):
        test = AboveThreshold(threshold=3, sensitivity=1, pay=lambda loss: None, **parameters)
        found.append(next((i for i, value in enumerate(VALUES) if test.is_above(value)), len(VALUES)))
    return np.asarray(found)


@pytest.mark.parametrize("monotonic", [False, True])
def test_the_first_value_above_a_threshold_follows_its_law(monotonic: bool) -> None:
    event = above_threshold_event(sensitivity=1, epsilon=1.0, monotonic=monotonic)
    scales = event.threshold_scale, event.value_scale
    found, values = stops(epsilon=1.0, monotonic=monotonic), np.array(VALUES)
    assert law_pvalue(found, first_above(values, 3, *scales)) > FALSE_ALARM
    assert law_pvalue(found, first_above(values, 3, scales[0] / 2, scales[1] / 2)) < FALSE_ALARM


def test_half_noised_thresholds_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    laplace = threshold.laplace  # type: ignore[attr-defined]

    def halved(units: Any, *, l1_sensitivity: int, epsilon: Any) -> Any:
        return laplace(units, l1_sensitivity=l1_sensitivity, epsilon=2 * epsilon)

    monkeypatch.setattr(threshold, "laplace", halved)
    event = above_threshold_event(sensitivity=1, epsilon=1.0)
    law = first_above(np.array(VALUES), 3, event.threshold_scale, event.value_scale)
    assert law_pvalue(stops(epsilon=1.0), law) < FALSE_ALARM


def test_answers_below_are_free_only_while_the_noisy_threshold_stays() -> None:
    """B1: with a threshold drawn anew for each value, as in Algorithm 1 of the budgeting paper, each answer costs.

    Exact laws, at the paper's scales for sensitivity 1 and epsilon .5: 4 and 8. One row moves each value up by 1.
    """
    threshold_scale, value_scale = 4.0, 8.0
    lines = range(-60, 60, 5)

    def worst(n_values: int, anew: bool) -> float:
        """Return the largest loss of so many answers "below"."""
        return max(
            n_values * below(1, line) if anew else below(n_values, line)  # independent answers add up
            for line in lines
        )

    def below(n_values: int, line: int) -> float:
        laws = [first_above(np.full(n_values, at), line, threshold_scale, value_scale) for at in (0, 1)]
        return float(np.log(laws[0][-1] / laws[1][-1]))

    assert worst(5, anew=True) > 0.5
    assert all(worst(n, anew=False) <= 0.25 + 1e-9 for n in (1, 5, 50))
