"""How long a PTK is trained for an accepted version."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.durations import duration
from ptkstore.domain.ptks.accept_deadlines import (
    AcceptDeadline,
    GivenUp,
    check_timeout,
)
from ptkstore.errors import InvalidRequest
from tests.support.builders import ptk_spec, stream_named

POLICY = stream_named().policy  # windows of a day, kept for one more
WAITS = {"accept": {"epsilon": 0.05, "timeout": "3d"}}


@pytest.mark.parametrize("given_up", [None, *GivenUp])
def test_a_deadline_survives_a_way_through_json(given_up: GivenUp | None) -> None:
    waiting = AcceptDeadline(7, given_up)
    assert AcceptDeadline.of(json.loads(json.dumps(asdict(waiting)))) == waiting


@given(st.integers(0, 50), st.integers(0, 50))
def test_after_an_acceptance_it_waits_from_the_next_window_and_from_no_earlier_one(
    since: int, window: int
) -> None:
    after = AcceptDeadline(since, GivenUp.TIMEOUT).goes_on_after(window)
    assert after == AcceptDeadline(max(since, window + 1))


@given(st.integers(0, 30), st.integers(0, 60), st.integers(1, 20))
def test_a_deadline_has_passed_once_all_windows_of_its_timeout_have(
    since: int, window: int, days: int
) -> None:
    passed = AcceptDeadline(since).has_passed(timedelta(days=days), window, POLICY)
    assert passed == (window >= since + days)


@pytest.mark.parametrize(
    ("waiting", "config"),
    [
        (None, WAITS),
        (AcceptDeadline(0, GivenUp.REJECT), WAITS),
        (AcceptDeadline(0), {"accept": {"epsilon": 0.05}}),
        (AcceptDeadline(0), {"accept": {"epsilon": 0.05, "timeout": None}}),
        (AcceptDeadline(0), {"accept": None}),
        (AcceptDeadline(0), {}),
    ],
)
def test_what_does_not_wait_or_waits_for_ever_never_times_out(
    waiting: AcceptDeadline | None, config: dict[str, Any]
) -> None:
    assert not replace(ptk_spec(), waiting=waiting, config=config).has_timed_out(1_000, POLICY)
    assert replace(ptk_spec(), waiting=AcceptDeadline(0), config=WAITS).has_timed_out(1_000, POLICY)


@pytest.mark.parametrize(
    ("timeout", "every", "complaint"),
    [
        ("1d", 1, None),
        ("25h", 1, "keeps rows for 1d"),
        ("2d", 1, "keeps rows for 1d"),
        ("23h", 1, "shorter than the time between two trainings, 1d"),
        ("1d", 2, "shorter than the time between two trainings, 2d"),
    ],
)
def test_a_timeout_lies_between_two_trainings_and_the_retention(
    timeout: str, every: int, complaint: str | None
) -> None:
    if complaint is None:
        check_timeout(duration(timeout), every, POLICY)
    else:
        with pytest.raises(InvalidRequest, match=complaint):
            check_timeout(duration(timeout), every, POLICY)


def test_a_ptk_without_a_timeout_has_none_to_check() -> None:
    check_timeout(None, 10_000, POLICY)
