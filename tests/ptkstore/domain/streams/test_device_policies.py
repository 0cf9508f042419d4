"""Policies of streams whose rows stay on devices: what they say, and what makes no sense for them."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.guarantees import neighbours, protections
from ptkstore.domain.streams.policies import Policy, PrivacyUnit, RowPlace
from ptkstore.domain.streams.policy_texts import policy_in, policy_text
from ptkstore.errors import InvalidRequest
from tests.support.device_streams import device_policy
from tests.support.world import DAY, ORIGIN

OTHERS: dict[str, Any] = {
    "capacity": Loss.capacity(1),
    "lateness": timedelta(hours=1),
    "future_skew": timedelta(hours=1),
    "retention_windows": 2,
    "n_max": 10**7,
    "rows_per_window": 77,
    "profile_max_age": 3,
    "train_partitions": 2,
    "max_rows_per_unit": 2,
    "user_shards": 2,
    "max_cell_bytes": 100,
    "accountant": Accountant.BASIC,
    "asserted_text": True,
    "drop_retired": True,
    "scheduler": Scheduler.ADAPTIVE,
    "least_significance": 0.5,
    "unit_column": "user",
    "attribute": "city",
    "profile_share": Decimal("0.2"),
    "test_share": Decimal("0.2"),
    "sharing": Sharing((("eu", ("taxi",)),), "because"),
    "retire_below": Loss.capacity(0.5),
}
ALLOWED = {
    "window",
    "origin",
    "closing",
    "rows",
    "privacy_unit",
    "report_epsilon",
    "report_delta",
    "reports_per_window",
    "reports_in_all",
}
NOT_TRIED = {"relation", "minimum_assurance", "scheduler_mode", "significance", "served_first"} | {
    "most_significance",
    "comparison_epsilon",
    "attribute_values",
}


def test_every_field_is_allowed_or_tried_below() -> None:
    assert {one.name for one in fields(Policy)} == ALLOWED | NOT_TRIED | set(OTHERS)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_about_rows_or_blocks_in_the_store_is_refused(name: str) -> None:
    said: dict[str, Any] = {
        "window": DAY,
        "origin": ORIGIN,
        "capacity": Loss(0),
        "rows": RowPlace.ON_DEVICES,
        "report_epsilon": 3.47,
        "reports_per_window": 1,
        "reports_in_all": 8,
    }
    with pytest.raises(InvalidRequest, match="stay on devices has neither"):
        Policy(**{**said, name: OTHERS[name]})
    assert Policy(**said).on_devices


@pytest.mark.parametrize("missing", ["report_epsilon", "reports_per_window", "reports_in_all"])
def test_its_limits_are_needed(missing: str) -> None:
    with pytest.raises(InvalidRequest, match=f"needs {missing}: what a report"):
        device_policy(**{missing: None})


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"report_epsilon": 0.0}, "positive, finite number"),
        ({"report_epsilon": float("nan")}, "positive, finite number"),
        ({"report_epsilon": 701.0}, r"must be in \[1e-6, 700\]"),
        ({"report_delta": 0.1}, r"must be in \[0, 1e-2\]"),
        ({"reports_per_window": 0}, "between 1 and"),
        ({"reports_in_all": True}, "between 1 and"),
        ({"reports_per_window": 9}, "at most reports_in_all"),
        ({"privacy_unit": PrivacyUnit.USER}, "is 'device'"),
    ],
)
def test_limits_that_promise_nothing_are_refused(limits: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        device_policy(**limits)


@pytest.mark.parametrize(
    "said",
    [
        {"report_epsilon": 1.0},
        {"report_delta": 1e-6},
        {"reports_per_window": 1},
        {"reports_in_all": 1},
        {"privacy_unit": PrivacyUnit.DEVICE},
    ],
)
def test_other_streams_have_no_reports(said: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="for streams whose rows stay on devices"):
        Policy(Loss.capacity(1), DAY, ORIGIN, **said)


def test_other_streams_need_an_epsilon() -> None:
    with pytest.raises(InvalidRequest, match="needs epsilon"):
        Policy(Loss(0), DAY, ORIGIN)


def test_its_privacy_unit_is_the_device_whether_it_is_said_or_not() -> None:
    assert device_policy().privacy_unit is PrivacyUnit.DEVICE
    assert device_policy(privacy_unit=PrivacyUnit.DEVICE) == device_policy()
    assert "any two tables of a device" in neighbours(device_policy())


def test_nothing_is_lost_as_text_and_policies_of_before_read_as_ever() -> None:
    policy = device_policy(report_delta=1e-6)
    assert policy_in(policy_text(policy)) == policy
    plain = policy_text(Policy(Loss.capacity(1), DAY, ORIGIN))
    assert not {"rows", "report", "device"} & {word for word in ("report", "device") if word in plain}
    assert '"rows":' not in plain


def test_what_a_device_loses_adds_up_over_its_reports() -> None:
    policy = device_policy(reports_per_window=2, report_delta=1e-6)
    losses = {one.who: one.loss for one in protections(policy, policy.report_limit, 0)}
    assert losses == {
        "one report of a device": Loss(3_470_000_000, 10**12),
        "one device in one window": Loss(6_940_000_000, 2 * 10**12),
        "one device in all windows": Loss(27_760_000_000, 8 * 10**12),
    }


def test_a_limit_is_rounded_down_and_a_loss_up_so_that_devices_refuse_nothing_that_fits() -> None:
    limit = device_policy(report_epsilon=3.4700000001, report_delta=1e-6).report_limit
    assert limit == Loss(3_470_000_000, 10**12)
    assert not Loss.of_report(3.4700000005, 0.0).fits(limit)
    assert Loss.of_report(3.47, 1e-6).fits(limit)
