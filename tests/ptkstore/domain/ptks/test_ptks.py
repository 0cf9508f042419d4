"""What a team registers: when it is trained, what its config may say, and its way through JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.ptks.accept_deadlines import AcceptDeadline, GivenUp
from ptkstore.domain.ptks.profiles import ProfileAsk
from ptkstore.domain.ptks.ptks import (
    LOOKED_UP,
    PTK_FIELDS,
    Pin,
    PtkSpec,
    by_formula,
    columns_of,
    epsilons_of,
    granted,
    pin_of,
    ptk_fields_in,
    ptk_json,
    said_of,
    same_model,
    servings_of,
    settled_config,
    windows_between,
)
from ptkstore.domain.ptks.serving import Serving
from ptkstore.errors import InvalidRequest
from tests.support.builders import ptk_spec, stream_named

POLICY = stream_named().policy
BY_ZONE = replace(POLICY, attribute="hour", attribute_values=(1, 2, 3))
FORM = {"keys": ["zone"], "columns": [["zone", "int64"], ["mean", "double"]]}
ASK = ProfileAsk(
    "taxi", "common", "f" * 64, 0.2, (0.1, 0.5), 1.0, 64, 256, 2.0, 4, (0.0, 1.0), "rows", 100, 0.95, 3, 1_000, (0, 1),
    30, 0.1,
)  # fmt: skip


@given(st.integers(1, 20), st.integers(0, 200))
def test_a_ptk_is_trained_on_every_so_manieth_window(every: int, window: int) -> None:
    spec = replace(ptk_spec(), every=every)
    assert spec.trains_on(window) is spec.wants(window) is (window % every == 0)
    assert replace(spec, profile=ASK).wants(window)


@pytest.mark.parametrize("reason", list(GivenUp))
def test_a_ptk_that_is_given_up_wants_no_window(reason: GivenUp) -> None:
    given_up = replace(ptk_spec(), profile=ASK, waiting=AcceptDeadline(3, reason))
    assert given_up.has_given_up
    assert not given_up.trains_on(4)
    assert not given_up.wants(4)
    assert replace(given_up, waiting=AcceptDeadline(3)).trains_on(4)
    assert not ptk_spec().has_given_up


def test_a_ptk_survives_a_way_through_json() -> None:
    spec = replace(
        ptk_spec(),
        tables={"statistics": FORM},
        assurance=Assurance.ASSERTED,
        config={"epsilons": [0.1, 0.2]},
        windows=(1, 3),
        profile=ASK,
        waiting=AcceptDeadline(7, GivenUp.REJECT),
    )
    text = ptk_json(spec)
    written = {name: value for name, value in text.items() if name not in {"loss", *LOOKED_UP - {"waiting"}}}
    read = ptk_fields_in(json.loads(json.dumps(written)))
    assert PtkSpec(**{**read, "loss": spec.loss}) == spec
    assert said_of(spec) == {one.name: getattr(spec, one.name) for one in PTK_FIELDS}


def test_what_came_later_is_left_out_where_it_is_as_before() -> None:
    assert "windows" not in ptk_json(ptk_spec(), with_later=False)
    assert ptk_json(ptk_spec())["windows"] == [1, 1]
    assert ptk_json(replace(ptk_spec(), windows=(1, 3)), with_later=False)["windows"] == [1, 3]
    content = {**ptk_json(ptk_spec(), with_later=False)}
    del content["waiting"]  # as documents of before have it
    read = ptk_fields_in(content)
    assert (read["waiting"], read["profile"], "windows" in read) == (None, None, False)


@given(st.integers(1, 48), st.integers(1, 200))
def test_a_frequency_is_a_whole_number_of_windows(hours: int, window: int) -> None:
    policy = replace(POLICY, window=timedelta(hours=window))
    if hours % window:
        with pytest.raises(InvalidRequest, match="multiple of the window length"):
            windows_between(policy, f"{hours}h")
    else:
        assert windows_between(policy, f"{hours}h") == hours // window


@pytest.mark.parametrize(
    ("given_range", "complaint"),
    [
        (0.1, "the least and the greatest"),
        ([0.1], "the least and the greatest"),
        ([0.1, 0.2, 0.3], "the least and the greatest"),
        ([0.2, 0.1], "the least first"),
        ([0, 0.1], "epsilon"),
        ([0.1, 11], "epsilon"),
        (["a", 1], "epsilon"),
    ],
)
def test_what_is_no_range_of_epsilons_is_refused(given_range: Any, complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        epsilons_of({"epsilons": given_range})


def test_a_range_of_epsilons_without_a_profile_is_chosen_from_by_formula() -> None:
    ranged = replace(ptk_spec(), config={"epsilons": (0.1, 0.2)})
    assert (epsilons_of(ranged.config), epsilons_of({})) == ((0.1, 0.2), None)
    assert [by_formula(one) for one in (ranged, replace(ranged, profile=ASK), ptk_spec())] == [
        True,
        False,
        False,
    ]


def test_a_config_fixes_a_partition_rows_or_both() -> None:
    assert pin_of({}, POLICY) == Pin()
    assert pin_of({"pinned": {"partition": 0}}, POLICY) == Pin(0, None)
    assert pin_of({"pinned": {"rows": 8_000, "partition": 0}}, POLICY) == Pin(
        0, 8_000
    )  # all there are to train on


@pytest.mark.parametrize(
    ("pinned", "complaint"),
    [
        ({}, "names a partition"),
        ([1], "names a partition"),
        ({"row": 1}, "names a partition"),
        ({"partition": 1}, "partition of pinned"),
        ({"partition": True}, "partition of pinned"),
        ({"rows": 0}, "between 1 and 8000"),
        ({"rows": 8_001}, "between 1 and 8000"),
        ({"rows": 1.0}, "between 1 and 8000"),
    ],
)
def test_what_no_window_has_cannot_be_fixed(pinned: Any, complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        pin_of({"pinned": pinned}, POLICY)


def test_a_config_has_one_form() -> None:
    defaults = {"defaults": {"mean": 1.0}}
    settled = settled_config({"where": {"hour": (3, 2)}, "serve": defaults, "epsilons": (0.1, 0.2)}, BY_ZONE)
    assert settled == {"where": {"hour": [2, 3]}, "serve": defaults, "epsilons": [0.1, 0.2]}
    assert settled_config(settled, BY_ZONE) == settled
    assert settled_config({"where": {"hour": [1, 2, 3]}, "accept": None}, BY_ZONE) == {}


def test_columns_and_servings_follow_from_the_tables() -> None:
    spec = replace(ptk_spec(), tables={"statistics": FORM}, config={"serve": {"defaults": {"mean": 1.0}}})
    assert columns_of(spec) == {"statistics": ("zone", "mean")}
    assert servings_of(spec.tables, spec.config) == {"statistics": Serving({"mean": 1.0})}
    with pytest.raises(InvalidRequest, match="no feature"):  # a join key has no default
        servings_of(spec.tables, {"serve": {"defaults": {"zone": 1}}})


def test_an_estimator_is_trained_with_what_it_was_granted() -> None:
    estimator = {"family": "Count", "params": {"epsilon": 9.0, "features": ["a"]}}
    made = granted(estimator, 0.1, 1e-9)
    assert made == {"family": "Count", "params": {"epsilon": 0.1, "delta": 1e-9, "features": ["a"]}}
    assert same_model(made, estimator)
    assert estimator["params"] == {"epsilon": 9.0, "features": ["a"]}
