"""Significance of a block: clipped sums of losses, compared and released with noise of the right scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptklib.accounting import pure_epsilon
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError
from ptklib.mechanisms import DrawnThreshold
from ptklib.profiling.estimates import UNITS
from ptklib.significance import LossSignificance, line_units

INF, NAN = float("inf"), float("nan")


def test_each_loss_is_clipped_before_it_is_added() -> None:
    """B2: a significance has a sensitivity only because no row adds more than one clipped loss."""
    found = LossSignificance(0.1, loss_bound=2.0)
    assert found.units([0.0, 1.0, 2.0]) == UNITS * 3 // 2
    rest = [0.5, 1.5]
    for odd in (1e300, INF, NAN, 2.0):
        assert found.units([*rest, odd]) - found.units(rest) == UNITS
    for odd in (-1e300, -INF, 0.0):
        assert found.units([*rest, odd]) == found.units(rest)
    assert found.units([]) == 0


def test_one_unit_moves_the_comparison_by_the_declared_sensitivity() -> None:
    found = LossSignificance(0.1)
    assert found.comparison.sensitivity == UNITS
    assert found.comparison.monotonic
    for line in (0.0, 3.7, 1e9):
        assert found.ahead([0.2, 1.0], line) - found.ahead([0.2], line) == UNITS


@pytest.mark.parametrize("cost", [0.02, 0.5, 4.0])
def test_the_noise_in_the_ratio_grows_with_the_sensitivity_of_the_ratio(cost: float) -> None:
    """B2: p / cost moves by 1 / cost, and so does the noise. The paper adds Lap(4 / eps_0) to all."""
    epsilon = 0.1
    event = LossSignificance(epsilon).comparison.event
    in_ratio = event.value_scale / UNITS / cost
    sensitivity = 1 / cost
    assert sensitivity / in_ratio == pytest.approx(epsilon / 2)
    assert pure_epsilon(event) == pytest.approx(epsilon)


def test_a_comparison_answers_by_the_line() -> None:
    found = LossSignificance(10.0)
    one = DrawnThreshold.draw(found.comparison, pay=lambda loss: None)
    losses = np.full(2000, 0.5)
    assert one.is_above(found.ahead(losses, 1100.0)) is False
    assert one.is_above(found.ahead(losses, 900.0)) is True


def test_a_release_is_paid_first_and_has_the_noise_of_one_clipped_loss() -> None:
    found = LossSignificance(0.5)
    order: list[Any] = []

    def refused(loss: Any) -> None:
        order.append(loss)
        raise PermissionError

    with pytest.raises(PermissionError):
        found.release([1.0], pay=refused)
    (loss,) = order
    assert loss.epsilon == 0.5
    assert pure_epsilon(loss.event) == pytest.approx(0.5)
    noise = np.array([found.release(np.ones(100), pay=lambda loss: None) - 100 for _ in range(500)])
    # Laplace of scale 2: the mean of |noise| is 2, with a standard error of .09.
    assert abs(np.abs(noise).mean() - 2) < 0.5


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"epsilon": 0.0}, PrivacyParameterError),
        ({"epsilon": 0.1, "loss_bound": 0.0}, InvalidParameterError),
        ({"epsilon": 0.1, "loss_bound": INF}, InvalidParameterError),
    ],
)
def test_unusable_parameters_are_refused(wrong: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        LossSignificance(**wrong)


def test_lines_are_rounded_up_and_never_overflow() -> None:
    assert line_units(0.5) == UNITS // 2
    assert line_units(1e-12) == 1
    assert line_units(1e300) == 2**62
    with pytest.raises(InvalidParameterError):
        line_units(NAN)
    with pytest.raises(InvalidParameterError):
        LossSignificance(0.1).units([[1.0]])
