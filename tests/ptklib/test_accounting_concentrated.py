"""Rho of declared events: never below the definition, and hardly above it."""

from __future__ import annotations

import pytest

from ptklib.accounting.concentrated import zcdp_rho

LAPLACE = {"name": "DiscreteLaplace", "l1_sensitivity": 1, "scale": 4.0, "count": 1}
GAUSSIAN = {"name": "DiscreteGaussian", "l2_sensitivity": 1.0, "scale": 2.0, "count": 1}
WORD = {"name": "EpsilonDelta", "epsilon": 0.5, "delta": 1e-6}


@pytest.mark.parametrize(
    ("event", "rho"),
    [
        (LAPLACE, 0.25**2 / 2),
        (GAUSSIAN, 0.5**2 / 2),
        (WORD, 0.5**2 / 2),
        ({"name": "Composed", "events": [LAPLACE, GAUSSIAN, WORD]}, (0.25**2 + 0.5**2 + 0.5**2) / 2),
        ({"name": "Parallel", "events": [LAPLACE, GAUSSIAN]}, 0.5**2 / 2),
    ],
)
def test_rho_is_the_definition_rounded_up(event: dict[str, object], rho: float) -> None:
    assert rho <= zcdp_rho(event) <= rho * (1 + 1e-9)
