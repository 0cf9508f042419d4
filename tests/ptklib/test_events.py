import json
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from ptklib.accounting import event_delta, pure_epsilon, renyi_curve, zcdp_rho
from ptklib.events import Composed, DiscreteGaussian, DiscreteLaplace, Event, Unknown, composed
from ptklib.exceptions import PrivacyParameterError
from ptklib.privacy import PrivacyLoss

LAPLACE = {"name": "DiscreteLaplace", "scale": 2.0, "l1_sensitivity": 1, "shape": [5]}
GAUSSIAN = {
    "name": "DiscreteGaussian",
    "scale": 4,
    "l2_sensitivity": 2.5,
    "scale_beside_diagonal": 3.0,
    "count": 1,
}
SELECTION = {"scale": 2.0, "sensitivity": 3, "monotonic": True, "shape": [7], "count": 2}
THRESHOLDED = {"scale": 2.0, "threshold": 40, "delta": 1e-9, "shape": [1]}

DOCUMENTS = [
    LAPLACE,
    GAUSSIAN,
    {"name": "ThresholdedLaplace", "l1_sensitivity": 1, **THRESHOLDED},
    {"name": "ThresholdedGaussian", "l2_sensitivity": 1, **THRESHOLDED},
    {"name": "PermuteAndFlip", **SELECTION},
    {"name": "ExponentialMechanism", **SELECTION},
    {
        "name": "AboveThreshold",
        "threshold_scale": 1.0,
        "value_scale": 2.0,
        "sensitivity": 1,
        "monotonic": False,
    },
    {"name": "EpsilonDelta", "epsilon": 0.0, "delta": 0},
    {"name": "PoissonSampled", "sampling_rate": 0.5, "event": GAUSSIAN, "count": 9},
    {"name": "Composed", "events": []},
    {"name": "Parallel", "events": [LAPLACE, {"name": "OneOf", "events": [GAUSSIAN, LAPLACE], "count": 3}]},
    {"name": "OfTomorrow", "scale": [{"deep": None}]},
    {},
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one.get("name", "nothing"))
def test_what_is_read_is_written_again_and_is_a_key(document: dict) -> None:
    event = Event.of(document)
    assert json.dumps(event.to_json(), sort_keys=True) == json.dumps(document, sort_keys=True)
    assert {Event.of(json.loads(json.dumps(document))): 1}[event] == 1
    assert Event.of(event) is event
    assert PrivacyLoss.from_json(PrivacyLoss(1.0, 0.0, event).to_json()).event == event


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scale": 0}, "scale of an event must be positive"),
        ({"scale": float("nan")}, "scale of an event must be finite"),
        ({"scale": "2"}, "scale of an event must be a number"),
        ({"l1_sensitivity": -1}, "must not be negative"),
        ({"count": 0}, "positive integer"),
        ({"count": True}, "positive integer"),
        ({"shape": 5}, "must be a list"),
        ({"shape": [-1]}, "not negative"),
        ({"scales": 2.0}, "DiscreteLaplace has no field 'scales'"),
    ],
)
def test_a_field_that_cannot_be_is_refused_when_it_is_read(change: dict, said: str) -> None:
    with pytest.raises(PrivacyParameterError, match=said):
        PrivacyLoss(1.0, 0.0, {**LAPLACE, **change})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"name": "DiscreteLaplace", "scale": 1.0}, "needs the fields l1_sensitivity\n"),
        ({"name": "PoissonSampled", "sampling_rate": 1.5, "event": GAUSSIAN}, "at most 1"),
        ({"name": "PoissonSampled", "sampling_rate": 0.5, "event": LAPLACE}, "discrete Gaussian"),
        ({"name": "Composed", "events": LAPLACE}, "list of events"),
        ({"name": "PermuteAndFlip", **SELECTION, "monotonic": 1}, "must be a boolean"),
        ({"name": "OfTomorrow", "scale": float("inf")}, "JSON values"),
        ([LAPLACE], "must be a mapping"),
    ],
)
def test_events_that_lack_something_are_refused(document: object, said: str) -> None:
    with pytest.raises(PrivacyParameterError, match=said):
        Event.of(document)


def test_an_event_of_tomorrow_is_kept_and_never_composed() -> None:
    loss = PrivacyLoss(1.0, 0.0, Composed(events=(Event.of(LAPLACE), Event.of({"name": "OfTomorrow"}))))
    assert isinstance(loss.event.parts()[1], Unknown)
    for account in (renyi_curve, pure_epsilon, event_delta, zcdp_rho):
        with pytest.raises(PrivacyParameterError, match="OfTomorrow"):
            account(loss.event)


def test_mechanisms_inside_are_counted_through_all_levels() -> None:
    laplace, gaussian = (
        DiscreteLaplace(scale=1.0, l1_sensitivity=1, count=2),
        DiscreteGaussian(scale=2, l2_sensitivity=1),
    )
    event = Composed(events=(laplace, Composed(events=(gaussian, laplace), count=5)), count=3)
    assert list(event.leaves()) == [(laplace, 6), (gaussian, 15), (laplace, 30)]
    assert list(Composed(events=()).leaves()) == []


def test_numbers_of_numpy_become_those_of_json() -> None:
    event = DiscreteLaplace(scale=np.float64(2.0), l1_sensitivity=np.int64(1), shape=(np.int64(5),))
    assert json.dumps(event.to_json(), sort_keys=True) == json.dumps(LAPLACE, sort_keys=True)


def test_one_event_is_composed_of_nothing_else() -> None:
    assert composed([Event.of(LAPLACE)]).to_json() == LAPLACE
    assert composed([Event.of(LAPLACE)] * 2).to_json() == {"name": "Composed", "events": [LAPLACE, LAPLACE]}


def test_events_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Event.of(LAPLACE).scale = 3.0  # type: ignore[attr-defined]
