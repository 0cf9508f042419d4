"""Least sums are exact up to a millionth of a loss: in flat directions, and for many rows."""

from __future__ import annotations

from fractions import Fraction
from math import fsum, sqrt

import numpy as np
import pandas as pd
import pytest

from ptklib import AdaSSPRegressor, CountFeaturizer, HistoricalStatistics
from ptklib.profiling.risks import risk_of
from ptklib.profiling.risks.linear import LeastSquaresRisk, _least_square
from ptklib.profiling.risks.sums import products_of, sums_by

MANY = 4_000_000
CUT = 1e-9
"""A flat direction whose target was below this share of the whole was left out once."""


@pytest.mark.parametrize("share", [0.0, 1e-300, 1e-15, 0.5 * CUT, 0.999 * CUT, 1.001 * CUT, 2 * CUT, 1e-6])
@pytest.mark.parametrize("flat", [0.0, 1e-9, 1e-7])
@pytest.mark.parametrize("turned", [False, True])
def test_a_flat_direction_counts_for_what_it_is_worth(share: float, flat: float, turned: bool) -> None:
    steep, along, radius = 1e7, 4e6, 1.0  # as of ten million rows
    target = np.array([along, along * share])
    matrix, turn = np.diag([steep, flat]), np.eye(2)
    if turned:
        turn = np.array([[0.6, -0.8], [0.8, 0.6]])
        matrix = turn @ matrix @ turn.T
        matrix = (matrix + matrix.T) / 2
    found = _least_square(matrix, turn @ target, radius)
    first = (
        along / steep
    )  # the second weight takes what is left of the radius, or its own minimum when that is nearer
    second = min(sqrt(radius**2 - first**2), target[1] / flat if flat else 1.0)
    exact = -along * first + flat * second**2 - 2 * target[1] * second
    assert found == pytest.approx(exact, abs=1e-6 if not turned else 1e-6 + 8 * steep * 2**-53 * 4)


def test_the_least_value_is_continuous_where_a_target_grows_through_the_cut() -> None:
    shares = CUT * np.linspace(0.99, 1.01, 201)
    values = [_least_square(np.diag([1e7, 0.0]), np.array([4e6, 4e6 * share]), 1.0) for share in shares]
    steps = np.diff(values)
    assert steps == pytest.approx(np.full(200, 2 * -4e6 * CUT * 1e-4 * sqrt(1 - 0.16)), abs=1e-8)


def test_rows_in_a_nearly_flat_direction_move_the_least_sum_by_what_they_are_worth() -> None:
    """A second feature so small that its own squares are rounding, and rows that carry its target over the cut."""
    line = AdaSSPRegressor(["a", "b"], "y", bounds=(-1, 1), label_bounds=(-1, 1), epsilon=1.0, delta=1e-6)
    risk, random = LeastSquaresRisk(line), np.random.default_rng(0)
    n = 100_000
    frame = pd.DataFrame({"a": random.choice([-1.0, 1.0], n), "b": 0.0})
    frame["y"] = frame["a"] / 2
    least = []
    for target in np.linspace(0.9, 1.1, 21) * CUT * n / 2:
        tiny = np.repeat([target, -target], 500) / 500  # squares of 1e-14 of those of the other feature
        more = pd.DataFrame({"a": 1.0, "b": tiny, "y": np.repeat([1.0, 0.0], 500)})
        rows = pd.concat([frame, more], ignore_index=True)
        least.append(risk.least_total(rows, np.ones(len(rows))))
    assert np.ptp(np.diff(least)) < 1e-8  # it moves evenly
    assert np.abs(np.diff(least)).max() < 1e-5


def test_groups_of_millions_of_rows_are_added_up_exactly() -> None:
    values = np.full(MANY, 0.1)
    values[1::2] = 1 / 3
    found = sums_by(np.arange(MANY) % 2, values, 2)
    exact = [float(Fraction(value) * (MANY // 2)) for value in (0.1, 1 / 3)]
    assert np.abs(found - exact).max() <= 1e-9
    assert np.abs(np.bincount(np.arange(MANY) % 2, values) - exact).max() > 1e-6  # which would not do
    assert sums_by(np.zeros(0, dtype=np.int64), np.zeros(0), 3).tolist() == [0, 0, 0]


def test_products_of_millions_of_rows_are_added_up_exactly() -> None:
    rows = np.full((MANY, 2), 0.1)
    rows[:, 1] = np.random.default_rng(0).uniform(-1, 1, MANY)
    weights = np.full(MANY, 1 / 3)
    found = products_of(rows, weights)
    exact = {
        (0, 0): float(Fraction(0.1) * Fraction(0.1 * (1 / 3)) * MANY),
        (1, 1): fsum(rows[:, 1] * (rows[:, 1] * (1 / 3))),
        (0, 1): fsum(0.1 * (rows[:, 1] * (1 / 3))),
    }
    for place, value in exact.items():
        assert found[place] == pytest.approx(value, abs=1e-9 if place == (0, 0) else 3e-10)
    assert products_of(rows[:0], weights[:0]).tolist() == [[0, 0], [0, 0]]


def test_the_least_sums_of_millions_of_rows_are_exact_up_to_a_millionth() -> None:
    frame = pd.DataFrame({"k": np.zeros(MANY, dtype=np.int64), "v": 0.1, "c": np.arange(MANY) % 3 == 0})
    frame.loc[MANY - 1, "v"] = 0.9
    weights = np.full(MANY, 1 / 3)  # three rows of each unit
    means = HistoricalStatistics(domains={"k": [0]}, bounds={"v": (0, 1)}, epsilon=1)
    spread = (Fraction(0.9) - Fraction(0.1)) ** 2 * Fraction(MANY - 1, MANY) / 3
    assert risk_of(means).least_total(frame, weights) == pytest.approx(float(spread), abs=1e-6)  # type: ignore[attr-defined]
    classes = CountFeaturizer(label="c", classes=(False, True), domains={"k": [0]}, epsilon=1)
    yes = Fraction(int(frame["c"].sum()), MANY)
    brier = (1 - yes**2 - (1 - yes) ** 2) / 2 * Fraction(MANY) * Fraction(1 / 3)
    assert risk_of(classes).least_total(frame, weights) == pytest.approx(float(brier), abs=1e-6)  # type: ignore[attr-defined]
