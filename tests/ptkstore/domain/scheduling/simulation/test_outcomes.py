"""What may be asked of a simulation, and how what came of it is told."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.scheduling.simulation.outcomes import Outcome, Released, SchedulerResult, summarise
from ptkstore.domain.scheduling.simulation.requests import MODES, SimulatedScheduler, SimulationRequest
from ptkstore.domain.scheduling.simulation.workload import draw_arrivals
from ptkstore.errors import InvalidRequest


def test_what_is_asked_at_the_limits_is_taken() -> None:
    assert SimulationRequest(1.0, 2_000, 2**31 - 1).schedulers == MODES
    assert SimulationRequest(2_000.0, 1, 0, tuple(SimulatedScheduler)).windows == 1


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"windows": 0}, "windows must be"),
        ({"windows": 2_001, "rate": 0.1}, "windows must be"),
        ({"rate": 0.0}, "positive number"),
        ({"rate": -1.0}, "positive number"),
        ({"rate": math.nan}, "positive number"),
        ({"rate": math.inf}, "positive number"),
        ({"rate": 20.1}, "at most 2000 PTKs"),
        ({"seed": -1}, "the seed"),
        ({"seed": 2**31}, "the seed"),
        ({"schedulers": ()}, "one scheduler at least"),
        ({"schedulers": (SimulatedScheduler.DPF, SimulatedScheduler.DPF)}, "one scheduler at least"),
    ],
)
def test_what_asks_for_too_much_or_nothing_is_refused(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        SimulationRequest(**{"rate": 1.0, **wrong})


def outcome(*waits: float | None) -> Outcome:
    return Outcome([Released("a.b", 1.0, None if wait is None else 1.0 + wait, 1) for wait in waits])


def test_a_ptk_that_was_not_released_counts_as_later_than_all_others() -> None:
    waits = [outcome(*range(1, 9)), outcome(None, None)]
    assert summarise(SimulatedScheduler.GUIDED, waits, 0.12345678) == SchedulerResult(
        SimulatedScheduler.GUIDED, 8, 5.0, None, 0.123457
    )
    assert summarise(SimulatedScheduler.DPF, [outcome(3.0, None, None)], 1.0) == SchedulerResult(
        SimulatedScheduler.DPF, 1, None, None, 1.0
    )


def test_a_simulation_in_which_nobody_came_has_no_percentiles() -> None:
    assert summarise(SimulatedScheduler.ARRIVAL, [outcome()], 1.0) == SchedulerResult(
        SimulatedScheduler.ARRIVAL, 0, None, None, 1.0
    )


@given(st.lists(st.one_of(st.none(), st.integers(0, 50)), min_size=1, max_size=40))
def test_percentiles_are_the_least_wait_that_so_many_did_not_pass(waits: list[int | None]) -> None:
    fared = summarise(SimulatedScheduler.CONSERVE, [outcome(*waits)], 0.0)
    for share, told in ((0.5, fared.median), (0.9, fared.p90)):
        known = sorted(wait for wait in waits if wait is not None)
        least = next((w for w in known if sum(v <= w for v in known) >= share * len(waits) - 1e-9), None)
        assert told == least


PTKS = ["taxi.speed", "taxi.fares", "bikes.trips"]


@given(st.integers(0, 99), st.floats(0.1, 5.0), st.integers(1, 60))
def test_arrivals_rise_end_with_the_windows_and_are_of_the_ptks_asked_for(
    seed: int, rate: float, end: int
) -> None:
    found = draw_arrivals(PTKS, rate, end, seed)
    times = [time for time, _ in found]
    assert times == sorted(times)
    assert all(0 < time < end for time in times)
    assert {ptk_id for _, ptk_id in found} <= set(PTKS)
    assert found == draw_arrivals(PTKS, rate, end, seed)
    assert draw_arrivals([], rate, end, seed) == ()


def test_the_same_ptks_come_in_half_the_time_at_twice_the_rate_and_each_as_often() -> None:
    slow, fast = draw_arrivals(PTKS, 1.0, 4_000, 7), draw_arrivals(PTKS, 2.0, 4_000, 7)
    for (before, one), (now, other) in zip(slow, fast, strict=False):
        assert one == other
        assert now == pytest.approx(before / 2)
    assert len(slow) == pytest.approx(4_000, rel=0.05)
    for ptk_id in PTKS:
        assert sum(one == ptk_id for _, one in slow) / len(slow) == pytest.approx(1 / 3, abs=0.03)
