"""In what two declarations of a stream differ: every field that a stream is created with can be told of."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.accounting.losses import NO_LOSS, Loss
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.scheduling.choices import Mode, Scheduler, ServedFirst, Significance
from ptkstore.domain.streams.differences import differences
from ptkstore.domain.streams.policies import Closing, Policy, PrivacyUnit, RowPlace
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.domain.streams.streams import Stream

AT, HOUR = ("at", ColumnType.TIMESTAMP), ("hour", ColumnType.INT64)
POLICY = Policy(Loss.capacity(1), timedelta(days=1), datetime(2026, 1, 5, tzinfo=UTC))
TAXI = Stream("taxi", "taxi", Schema((AT, HOUR), "at"), POLICY)

CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"capacity": Loss.capacity(2, 1e-9)}, "epsilon is 1, not 2; delta is 0, not 1e-09"),
    ({"window": timedelta(hours=6)}, "window is 1d, not 6h"),
    (
        {"origin": datetime(2026, 1, 6, tzinfo=UTC)},
        "origin is 2026-01-05T00:00:00+00:00, not 2026-01-06T00:00:00+00:00",
    ),
    ({"lateness": timedelta(minutes=90)}, "lateness is 0s, not 90m"),
    ({"lateness": timedelta(seconds=0.5)}, "lateness is 0s, not 0:00:00.500000"),
    ({"retention_windows": 3}, "retention is 1, not 3"),
    ({"n_max": 20_000}, "n_max is 1000000, not 20000"),
    ({"rows_per_window": 100}, "rows_per_window is 10000, not 100"),
    ({"accountant": Accountant.BASIC}, "accountant is renyi, not basic"),
    (
        {
            "sharing": Sharing(
                (("north", ("taxi", "bikes")),), "two companies", (("taxi.speed", Decimal("0.25")),)
            )
        },
        "contexts is none, not north=taxi,bikes; no_collusion is none, not two companies; "
        "reserve is none, not taxi.speed=0.25",
    ),
    ({"retire_below": Loss.capacity(0.5)}, "retire_below is 1e-06, not 0.5"),
    (
        {"privacy_unit": PrivacyUnit.USER_IN_WINDOW, "unit_column": "hour", "max_rows_per_unit": 3},
        "privacy_unit is record, not user-in-window; unit_column is none, not hour; max_rows_per_unit is 1, not 3",
    ),
    ({"minimum_assurance": Assurance.ASSERTED}, "minimum_assurance is library, not asserted"),
    ({"asserted_text": True}, "asserted_text is False, not True"),
    ({"drop_retired": True}, "drop_retired is False, not True"),
    ({"closing": Closing.OPERATOR}, "closing is clock, not operator"),
    ({"future_skew": timedelta(seconds=90)}, "future_skew is 5m, not 90s"),
    ({"profile_share": Decimal("0.2")}, "profile_share is 0.1, not 0.2"),
    ({"test_share": Decimal("0.2")}, "test_share is 0.1, not 0.2"),
    ({"profile_max_age": 7}, "profile_max_age is 30, not 7"),
    ({"train_partitions": 2}, "train_partitions is 1, not 2"),
    ({"attribute": "hour", "attribute_values": (1, 2)}, "block_by is none, not hour=1,2"),
    ({"scheduler": Scheduler.ADAPTIVE}, "scheduler is allocate, not adaptive"),
    (
        {"scheduler": Scheduler.ADAPTIVE, "scheduler_mode": Mode.CONSERVE},
        "scheduler is allocate, not adaptive; scheduler_mode is guided, not conserve",
    ),
    (
        {
            "scheduler": Scheduler.BUDGETING,
            "served_first": ServedFirst.DPACK,
            "least_significance": 2.0,
            "most_significance": 10.5,
        },
        "scheduler is allocate, not budgeting; served_first is arrival, not dpack; least_significance is none, not 2; "
        "most_significance is none, not 10.5",
    ),
    (
        {
            "scheduler": Scheduler.BUDGETING,
            "significance": Significance.LOSS,
            "least_significance": 2.0,
            "most_significance": 3.0,
            "comparison_epsilon": 0.5,
        },
        "scheduler is allocate, not budgeting; significance is recency, not loss; least_significance is none, not 2; "
        "most_significance is none, not 3; comparison_epsilon is none, not 0.5",
    ),
    ({"max_cell_bytes": 100}, "max_cell_bytes is 65536, not 100"),
    (
        {"privacy_unit": PrivacyUnit.USER, "unit_column": "hour", "user_shards": 2},
        "privacy_unit is record, not user; unit_column is none, not hour; user_shards is 1, not 2",
    ),
    (
        {
            "capacity": NO_LOSS,
            "rows": RowPlace.ON_DEVICES,
            "report_epsilon": 3.47,
            "report_delta": 1e-6,
            "reports_per_window": 1,
            "reports_in_all": 8,
        },
        "epsilon is 1, not 0; privacy_unit is record, not device; rows is in-store, not on-devices; report_epsilon is "
        "none, not 3.47; report_delta is none, not 1e-06; reports_per_window is none, not 1; reports_in_all is none, "
        "not 8",
    ),
]


@pytest.mark.parametrize(("changes", "says"), CHANGES, ids=lambda value: "+".join(value))
def test_a_field_of_the_policy_is_told_with_both_values(changes: dict[str, Any], says: str) -> None:
    assert "; ".join(differences(TAXI, replace(TAXI, policy=replace(POLICY, **changes)))) == says


def test_every_field_is_tried() -> None:
    only = {"relation"}  # there is one
    assert {name for changes, _ in CHANGES for name in changes} == {f.name for f in fields(Policy)} - only


def with_columns(*columns: tuple[str, ColumnType], time_column: str = "at") -> Stream:
    return replace(TAXI, schema=Schema(columns, time_column))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (with_columns(AT), "column 'hour' is missing"),
        (with_columns(AT, ("hour", ColumnType.STRING)), "column 'hour' is int64, not string"),
        (with_columns(HOUR, AT), "the columns are in the order at, hour"),
        (
            with_columns(AT, HOUR, ("n", ColumnType.INT64)),
            "there is no column 'n', which `ptk stream add-column` adds",
        ),
        (
            with_columns(HOUR, ("then", ColumnType.TIMESTAMP), time_column="then"),
            "column 'at' is missing; there is no column 'then', which `ptk stream add-column` adds; "
            "time_column is at, not then",
        ),
    ],
)
def test_columns_are_told_by_name(asked: Stream, says: str) -> None:
    assert "; ".join(differences(TAXI, asked)) == says


def test_a_column_that_was_added_later_belongs_to_no_declaration() -> None:
    grown = replace(TAXI, schema=TAXI.schema.with_column("tip", ColumnType.FLOAT64, 0.0, since=3))
    assert differences(grown, TAXI) == differences(grown, grown) == ()
    asked = with_columns(AT, HOUR, ("tip", ColumnType.FLOAT64))
    assert differences(grown, asked) == ("column 'tip' was added later and is left out here",)
    assert differences(grown, replace(TAXI, policy=replace(POLICY, n_max=10_000))) == (
        "n_max is 1000000, not 10000",
    )
