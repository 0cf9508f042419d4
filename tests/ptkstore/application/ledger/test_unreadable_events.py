"""The journal has an event that this version cannot read: figures fall back on its loss."""

import json

import pytest

from ptklib.accounting import pld_epsilon
from ptklib.events import EpsilonDelta
from ptklib.privacy import PrivacyLoss
from ptkstore.application.ledger.odometers import tight_epsilon
from ptkstore.domain.accounting.losses import Loss

LAPLACE = {"name": "DiscreteLaplace", "scale": 10.0, "l1_sensitivity": 1}
UNREADABLE = [
    {**LAPLACE, "field_of_tomorrow": 1},
    {"name": "DiscreteLaplace", "scale": 10.0},
    {"name": "PoissonSampled", "sampling_rate": 0.1, "event": LAPLACE},
    {"name": "OfTomorrow"},
    {},
]


@pytest.mark.parametrize("event", UNREADABLE, ids=str)
def test_the_figure_of_an_unreadable_event_is_that_of_its_loss(event: dict) -> None:
    loss = Loss.charge(0.1, 1e-9)
    asserted = EpsilonDelta(epsilon=loss.epsilon, delta=loss.delta)
    assert tight_epsilon({(json.dumps(event), loss): 2}, 1e-6) == pld_epsilon(
        [PrivacyLoss(loss.epsilon, loss.delta, asserted)] * 2, 1e-6
    )
