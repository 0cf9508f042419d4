"""A profile as a value: reading between its points, JSON, renewal."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptklib import HistoricalStatistics
from ptklib.exceptions import CorruptStateError, InvalidParameterError, PrivacyParameterError
from ptklib.privacy import PrivacyLoss
from ptklib.profiling import (
    Answer,
    Found,
    Method,
    NeedsMore,
    Profile,
    Unreachable,
    fingerprint_of,
)

SPEC = HistoricalStatistics(domains={"hour": range(4)}, bounds={"speed": (0, 60)}, epsilon=1.0).to_spec()
LOSS = PrivacyLoss(2.0, 0.0, {"name": "EpsilonDelta", "epsilon": 2.0, "delta": 0.0})


def profile(*points: tuple[float, Answer], **changes: Any) -> Profile:
    fields: dict[str, Any] = {
        "fingerprint": fingerprint_of(SPEC),
        "target": 0.1,
        "loss_bounds": (0.0, 1.0),
        "method": Method.SAMPLES,
        "evaluation": "rows",
        "confidence": 0.95,
        "made_at": 7,
        "points": points or ((0.1, NeedsMore(4096)), (0.5, Found(2048)), (1.0, Found(512))),
        "privacy_spent": LOSS,
    }
    return Profile(**(fields | changes))


def test_between_points_the_one_to_the_left_holds() -> None:
    known = profile((0.1, Found(4000)), (0.5, Found(1000)), (1.0, Found(300)))
    asked = (0.099, 0.1, 0.3, 0.5, 0.999, 1.0, 9.0)
    assert [known.n_at(e) for e in asked] == [None, 4000, 4000, 1000, 1000, 300, 300]


def test_a_larger_epsilon_never_needs_more_because_a_smaller_one_may_be_used() -> None:
    odd = profile((0.1, Found(1000)), (0.5, Found(2000)), (1.0, NeedsMore(4096)))
    assert [odd.n_at(e) for e in (0.1, 0.5, 1.0)] == [1000, 1000, 1000]
    assert odd.menu() == ((0.1, 1000),)


def test_what_was_tried_in_vain_is_said() -> None:
    known = profile()
    assert known.at(0.2) == NeedsMore(4096)
    assert known.at(0.05) == NeedsMore(0)
    assert known.at(0.6) == Found(2048)


def test_out_of_reach_holds_at_every_epsilon_where_nothing_was_found() -> None:
    known = profile((0.1, Unreachable()), (1.0, Found(300)))
    assert known.at(0.01) == known.at(0.5) == Unreachable()
    assert known.n_at(0.5) is None
    assert known.n_at(2.0) == 300


def test_a_menu_has_what_fits_and_no_pair_that_another_beats() -> None:
    known = profile((0.1, Found(4000)), (0.2, Found(4000)), (0.5, Found(1000)), (1.0, Found(300)))
    assert known.menu() == ((0.1, 4000), (0.5, 1000), (1.0, 300))
    assert known.menu(n_max=1000) == ((0.5, 1000), (1.0, 300))
    assert known.menu(n_max=10) == ()


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), "1", True, 11])
def test_an_epsilon_must_be_one(epsilon: Any) -> None:
    with pytest.raises(PrivacyParameterError):
        profile().at(epsilon)


def test_the_promised_risk_is_twice_the_target_above_the_lower_bound() -> None:
    assert profile().risk_at_most == pytest.approx(0.2)
    assert profile(loss_bounds=(-1.0, 3.0), target=0.0).risk_at_most == pytest.approx(1.0)
    assert profile(method=Method.FORMULA).risk_at_most == pytest.approx(0.1)


answers = st.one_of(
    st.integers(1, 10**9).map(Found), st.integers(0, 10**9).map(NeedsMore), st.just(Unreachable())
)
grids = st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=6, unique=True).map(sorted)


@given(grid=grids, data=st.data())
def test_needs_never_rise_with_epsilon_and_are_those_of_a_point_to_the_left(grid: Any, data: Any) -> None:
    known = profile(*((e, data.draw(answers)) for e in grid))
    asked = sorted(data.draw(st.lists(st.floats(1e-6, 10.0), min_size=2, max_size=8)))
    read = [known.n_at(e) for e in asked]
    for (e, n), later in zip(zip(asked, read, strict=True), [*read[1:], read[-1]], strict=True):
        if n is None:
            continue
        assert later is not None
        assert later <= n
        assert n == min(a.n for p, a in known.points if p <= e and isinstance(a, Found))
    assert Profile.loads(known.dumps()) == known


def test_json_has_a_version_and_every_field() -> None:
    document = profile().to_json()
    assert document["format_version"] == 1
    assert document["points"][0] == {"epsilon": 0.1, "answer": "needs_more", "n_tried": 4096}
    assert document["points"][2] == {"epsilon": 1.0, "answer": "found", "n": 512}
    assert Profile.from_json(json.loads(json.dumps(document))) == profile()
    assert Profile.loads(profile().dumps().encode()) == profile()


POINT = {"epsilon": 0.1, "answer": "found", "n": 5}


@pytest.mark.parametrize(
    "change",
    [
        {"format_version": 2},
        {"format_version": True},
        {"fingerprint": "abc"},
        {"fingerprint": "G" * 64},
        {"target": "0.1"},
        {"target": float("nan")},
        {"loss_bounds": [0]},
        {"loss_bounds": [1, 0]},
        {"loss_bounds": {"low": 0, "high": 1}},
        {"method": "guess"},
        {"evaluation": "both"},
        {"confidence": None},
        {"made_at": 1.5},
        {"made_at": True},
        {"points": []},
        {"points": {}},
        {"points": [{"epsilon": 0.1}]},
        {"points": [{"answer": "found", "n": 3}]},
        {"points": [POINT | {"n": 0}]},
        {"points": [POINT | {"n": 2.0}]},
        {"points": [POINT | {"n": True}]},
        {"points": [POINT | {"more": 1}]},
        {"points": [POINT | {"n_tried": 1}]},
        {"points": [{"epsilon": 0.1, "answer": "unreachable", "n": 3}]},
        {"points": [{"epsilon": 0.1, "answer": "needs_more"}]},
        {"points": [POINT, POINT]},
        {"points": [POINT | {"epsilon": 1.0}, POINT]},
        {"points": [POINT | {"epsilon": 0.0}]},
        {"points": [POINT | {"epsilon": "0.1"}]},
        {"loss": {}},
        {"loss": None},
        {"more": 1},
    ],
)
def test_anything_else_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(CorruptStateError):
        Profile.from_json(profile().to_json() | change)


@pytest.mark.parametrize("missing", sorted(profile().to_json()))
def test_no_field_may_be_missing(missing: str) -> None:
    document = profile().to_json()
    del document[missing]
    with pytest.raises(CorruptStateError):
        Profile.from_json(document)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", b"\xff\xfe", "[" * 100_000])
def test_what_is_not_a_profile_is_refused(text: Any) -> None:
    with pytest.raises(CorruptStateError):
        Profile.loads(text)


def test_reading_a_cached_profile_loads_no_family() -> None:
    script = (
        "import sys; from ptklib.profiling import Profile; Profile.loads(sys.stdin.read()).menu(); "
        "print([m for m in sys.modules if m in ('sklearn', 'opendp', 'pandas', 'ptklib.base', 'ptklib.trees')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=profile().dumps(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "[]"


def test_epsilon_is_no_part_of_a_config() -> None:
    assert fingerprint_of({**SPEC, "params": {**SPEC["params"], "epsilon": 0.3}}) == fingerprint_of(SPEC)
    assert fingerprint_of({"epsilon": 1}) != fingerprint_of({"epsilon": 2})  # of a team: any field counts


@pytest.mark.parametrize("value", [None, "spec", 3])
def test_a_config_is_a_mapping(value: Any) -> None:
    with pytest.raises(InvalidParameterError):
        fingerprint_of(value)
