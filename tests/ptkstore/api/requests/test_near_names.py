"""Near names are sought so often and no more: comparing takes time that other requests need."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ptkstore.api.requests import near_names
from ptkstore.domain.near_names import near


def test_near_names_are_sought_a_few_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(near_names, "time", SimpleNamespace(monotonic=lambda: now))
    pace = near_names.Pace(per_second=2.0, at_once=3)
    assert [pace.allows() for _ in range(5)] == [True, True, True, False, False]
    now += 0.5
    assert [pace.allows() for _ in range(2)] == [True, False]
    now += 1e6
    assert [pace.allows() for _ in range(4)] == [True, True, True, False]


def test_of_many_names_the_nearest_is_found() -> None:
    names = [f"trips__hour_{number}_mean" for number in range(1_900)]
    assert "'trips__hour_777_mean'" in near("trips__hour_777_maen", names)
    assert near("zzzz", names) == ""


def test_a_name_too_long_to_mistype_is_compared_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "x" * 101
    assert near(long + "y", [long]) == ""
    assert near(long[:90] + "y", [long[:90]]) != ""
