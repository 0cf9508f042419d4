"""Reports of one device on two tables that are as far apart as clipping allows: what tells them apart, at most."""

from typing import Any

import numpy as np
import pytest

from ptklib import PrivacyLoss
from ptklib.arrays import Bools, Floats
from ptklib.checks import epsilon_lower_bound
from ptklib.draw_discard import (
    Categorical,
    Numeric,
    Specification,
    clipped_step,
    encode_rows,
    make_report,
    mean_gradient,
    report_loss,
)
from tests.statistical.tools import FALSE_ALARM

pytestmark = pytest.mark.long

EPSILON, DRAWS = 2.0, 2_000
COLUMNS = [f"x{i}" for i in range(5)]
ALONE: dict[str, list[Any]] = {**{name: [0.0] for name in COLUMNS}, "c": ["z"]}
"""Of all inputs only the constant: the whole step is in one weight, where it shows most. With softmax it is in two."""

ALL: dict[str, list[Any]] = {**{name: [1.0] for name in COLUMNS}, "c": ["a"]}


def specification(**other: Any) -> Specification:
    fields: dict[str, Any] = {
        "features": [*(Numeric(name, 0, 1) for name in COLUMNS), Categorical("c", ["a", "b"])],
        "label": Numeric("y", 0, 1),
        "epsilon": EPSILON,
        "max_norm": 0.25,
    }
    return Specification(**(fields | other))


def scores(one: Specification, rows: dict[str, list[Any]], inside: Bools) -> Floats:
    """How much likelier each report is with the label 1 than with 0, to an adversary who saw the instance."""
    instance = np.random.default_rng(7).integers(-(2**20), 2**20, one.n_weights).astype(np.int32)
    tables = [{**rows, "y": [label]} for label in (0, 1)]
    steps = [clipped_step(one, mean_gradient(one, instance, encode_rows(one, table))) for table in tables]
    power = 1 if one.noise == "laplace" else 2
    found = []
    for coin in inside:
        apart = make_report(one, instance, tables[int(coin)]) - instance.astype(np.int64)
        sums = [(np.abs(apart + step).astype(np.float64) ** power).sum() for step in steps]
        found.append((sums[0] - sums[1]) / (power * one.noise_scale**power))
    return np.array(found)


def bound(drawn: Specification, claimed: PrivacyLoss, rows: dict[str, list[Any]] = ALONE) -> Any:
    n_draws = DRAWS if drawn.link == "logistic" else 4 * DRAWS
    inside = np.random.default_rng().random(n_draws) < 0.5
    return epsilon_lower_bound(scores(drawn, rows, inside), inside, claimed, confidence=1 - FALSE_ALARM)


MODELS: dict[str, dict[str, Any]] = {
    "laplace": {},
    "gaussian, l2": {"clip": "l2", "noise": "gaussian", "delta": 1e-5},
    "gaussian, l1": {"noise": "gaussian", "delta": 1e-5},
    "softmax": {"link": "softmax", "label": Categorical("y", [0, 1])},
}
each_model = pytest.mark.parametrize("other", MODELS.values(), ids=MODELS)


@each_model
def test_a_report_loses_no_more_than_its_model_promises(other: dict[str, Any]) -> None:
    honest = specification(**other)
    assert not bound(honest, report_loss(honest).whole).exceeds


@each_model
def test_reports_with_half_the_noise_are_caught(other: dict[str, Any]) -> None:
    """The twin draws the noise of a specification with so much more epsilon that its scale is half."""
    honest = specification(**other)
    twin = specification(**other, **_with_half(honest))
    assert twin.noise_scale == pytest.approx(honest.noise_scale / 2, rel=0.01)
    assert bound(twin, report_loss(honest).whole).exceeds


def test_the_loss_of_one_weight_sold_as_that_of_the_model_is_caught() -> None:
    """D1: each entry is clipped by itself, as in the paper, and the table moves seven of them."""
    each = specification(clip="coordinate")
    loss = report_loss(each)
    sold = PrivacyLoss(loss.one_weight.epsilon, 0.0, loss.one_weight.event)
    assert bound(each, sold, ALL).exceeds
    assert not bound(each, loss.whole, ALL).exceeds


def _with_half(honest: Specification) -> dict[str, float]:
    if honest.noise == "laplace":
        return {"epsilon": 2 * EPSILON}
    low, high = EPSILON, 10.0
    for _ in range(30):
        middle = (low + high) / 2
        scale = specification(
            clip=honest.clip, noise="gaussian", delta=honest.delta, epsilon=middle
        ).noise_scale
        low, high = (middle, high) if scale > honest.noise_scale / 2 else (low, middle)
    return {"epsilon": high}
