"""The loss of one person in several streams, against the accountants of the library."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ptklib.accounting import basic_composition, gaussian_sigma, pld_epsilon
from ptklib.events import DiscreteGaussian, EpsilonDelta
from ptklib.privacy import PrivacyLoss
from ptkstore.domain.accounting.losses import ATTO, NO_LOSS, Loss
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.guarantees import of_a_group
from ptkstore.domain.streams.persons import PersonLoss, loss_to, why_no_person
from ptkstore.domain.streams.policies import Policy, PrivacyUnit
from tests.support.device_streams import device_policy

CAPACITY = Loss.capacity(1, 1e-6)
USERS = Policy(
    CAPACITY,
    timedelta(days=1),
    datetime(2026, 1, 5, tzinfo=UTC),
    privacy_unit=PrivacyUnit.USER,
    unit_column="rider",
    max_rows_per_unit=7,
)
IN_WINDOWS = replace(USERS, privacy_unit=PrivacyUnit.USER_IN_WINDOW)


def test_losses_of_streams_add_up_and_a_delta_is_at_most_one() -> None:
    spent = Loss.charge(0.25, 1e-7)
    person = PersonLoss((loss_to("a", USERS, spent, 9), loss_to("b", IN_WINDOWS, spent, 3)))
    assert person.spent == Loss(4 * spent.epsilon_nano, 4 * spent.delta_atto)
    assert person.at_most == Loss(4 * CAPACITY.epsilon_nano, 4 * CAPACITY.delta_atto)
    assert PersonLoss(()).spent == NO_LOSS
    certain = replace(person.streams[0], spent=Loss(1, ATTO))
    assert PersonLoss((certain, certain)).spent == Loss(2, ATTO)


def test_a_stream_that_reads_windows_together_counts_a_persons_windows_as_a_group() -> None:
    waits = replace(IN_WINDOWS, scheduler=Scheduler.ADAPTIVE)
    one = loss_to("a", waits, CAPACITY, 3)
    assert one.spent == one.at_most == of_a_group(CAPACITY, 3)
    assert one.spent.delta_atto > 3 * CAPACITY.delta_atto


def test_whoever_reads_all_contexts_is_counted_as_reading_all() -> None:
    sharing = Sharing((("north", ("ads",)), ("south", ("taxi",))), "the two never share an analyst")
    one = loss_to("a", replace(USERS, sharing=sharing), NO_LOSS, 1)
    assert one.at_most == Loss(2 * CAPACITY.epsilon_nano, 2 * CAPACITY.delta_atto)


def test_the_sum_covers_releases_that_use_all_of_two_streams_and_the_larger_stream_does_not() -> None:
    streams = loss_to("a", USERS, CAPACITY, 1), loss_to("b", USERS, CAPACITY, 1)
    together = PersonLoss(streams).spent
    noise = DiscreteGaussian(l2_sensitivity=1000, scale=gaussian_sigma(1.0, 1e-6, 1000.0))
    gaussian = PrivacyLoss(1.0, 1e-6, noise)
    assert 1.0 < pld_epsilon([gaussian, gaussian], together.delta) <= together.epsilon
    # of a mechanism that is known by its loss alone, the sum is all that can be said
    worst = PrivacyLoss(1.0, 1e-6, EpsilonDelta(epsilon=1.0, delta=1e-6))
    assert basic_composition([worst, worst]) == pytest.approx((together.epsilon, together.delta), rel=1e-9)
    assert 0.999 * together.epsilon < pld_epsilon([worst, worst], 1.001 * together.delta) <= together.epsilon


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (
            replace(USERS, privacy_unit=PrivacyUnit.RECORD, unit_column=None, max_rows_per_unit=1),
            "how many records",
        ),
        (device_policy(), "rows stay on devices"),
    ],
)
def test_a_stream_whose_figures_bound_no_person_says_why(policy: Policy, why: str) -> None:
    assert why in (why_no_person(policy) or "")


@pytest.mark.parametrize("policy", [USERS, IN_WINDOWS])
def test_units_of_users_bound_a_person(policy: Policy) -> None:
    assert why_no_person(policy) is None


def test_every_unit_is_either_a_person_or_refused() -> None:
    refused = {PrivacyUnit.RECORD, PrivacyUnit.DEVICE}
    assert refused | {PrivacyUnit.USER, PrivacyUnit.USER_IN_WINDOW} == set(PrivacyUnit)
