"""A stream is simulated from public numbers, by the code that schedules."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from ptkstore.application.planning.formula_plans import with_facts
from ptkstore.application.planning.window_plans import partition_rows
from ptkstore.application.scheduling import simulate_stream as module
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.scheduling.choices import Mode, Scheduler, Significance
from ptkstore.domain.scheduling.simulation.outcomes import SchedulerResult, SimulationResult
from ptkstore.domain.scheduling.simulation.requests import MODES, SimulatedScheduler, SimulationRequest
from ptkstore.domain.scheduling.simulation.work import CALIBRATION, CHARGE, Work
from ptkstore.errors import InvalidRequest, UnknownName
from tests.support.world import STREAM, World

PTK = "taxi.speed"
TESTED: dict[str, Any] = {"accept": {"metric": "loss", "epsilon": 0.2}}
BOUNDS = {"least_significance": 0.1, "most_significance": 0.2}
"""Bounds on significance that whatever fits a block meets."""
EVERY: dict[str, Any] = {"schedulers": tuple(SimulatedScheduler), **BOUNDS}


@pytest.fixture
def stream(in_files: World) -> World:
    in_files.stream(scheduler=Scheduler.ADAPTIVE, retention_windows=8, rows_per_window=1_000)
    return in_files


def simulated(world: World, rate: float = 0.5, **asked: Any) -> SimulationResult:
    return world.service.simulate(STREAM, SimulationRequest(rate, **asked))


def under(found: SimulationResult) -> dict[str, SchedulerResult]:
    return {one.scheduler.value: one for one in found.schedulers}


def test_a_simulation_tells_how_many_windows_are_done(stream: World) -> None:
    stream.register(epsilon=0.1)
    told: list[tuple[int, int]] = []
    request = SimulationRequest(1, windows=5, **EVERY)
    stream.service.simulate(STREAM, request, tell=lambda done, total: told.append((done, total)))
    total = 5 * len(SimulatedScheduler)
    assert told == [(done, total) for done in range(total + 1)]  # none while PTKs are priced


def test_without_a_test_a_ptk_leaves_with_its_first_look(stream: World) -> None:
    """The block of a window pays for 10 looks of .1, and ten times fewer arrive."""
    stream.register(epsilon=0.1)
    found = simulated(stream, rate=1, windows=50, **EVERY)
    assert found.arrived > 30
    assert found.without_menu == ()
    assert found.refused == ()
    for one in found.schedulers:
        assert one.released == found.arrived
        assert one.median is not None
        assert one.p90 is not None
        assert 0 < one.median <= one.p90 <= 1.0
        assert one.left == pytest.approx(1 - 0.1 * found.arrived / 50)


def test_a_block_pays_for_no_more_looks_than_its_budget_covers(stream: World) -> None:
    stream.register(epsilon=0.6)
    found = simulated(stream, rate=3, windows=20, **EVERY)
    for one in found.schedulers:
        assert one.released <= 20 < found.arrived
        assert one.p90 is None  # it falls on one that was not released
        assert one.left == pytest.approx(1 - 0.6 * one.released / 20)


def with_menu(world: World, monkeypatch: pytest.MonkeyPatch, *menu: tuple[float, int]) -> None:
    """Give all PTKs of the stream this menu, as a profile would have released it."""
    informed = with_facts

    def menus(uow: Any, specs: Any, policy: Any) -> Any:
        return tuple(replace(spec, menu=menu) for spec in informed(uow, specs, policy))

    monkeypatch.setattr(module, "with_facts", menus)


def test_looks_are_accepted_as_the_menu_says(stream: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """At .4 the target takes the rows of a window: guided begins there, conserve pays for .1 and .2 before."""
    stream.register(epsilon=0.1, config={**TESTED, "epsilons": [0.1, 0.8]})
    rows = partition_rows(stream.service.stream(STREAM).policy)
    with_menu(stream, monkeypatch, (0.2, 100 * rows), (0.4, rows))
    found = simulated(stream, rate=0.2, windows=40, **EVERY)
    results = under(found)
    assert found.without_menu == ()
    assert results["guided"].released == results["conserve"].released == found.arrived > 3
    assert results["guided"].left == pytest.approx(1 - 0.4 * found.arrived / 40)
    assert results["conserve"].left == pytest.approx(1 - 0.7 * found.arrived / 40)
    assert results["arrival"] == replace(results["guided"], scheduler=SimulatedScheduler.ARRIVAL)


def test_a_target_out_of_reach_is_never_met(stream: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stream.register(epsilon=0.1, windows=(1, 4), config={**TESTED, "epsilons": [0.1, 0.8]})
    rows = partition_rows(stream.service.stream(STREAM).policy)
    with_menu(stream, monkeypatch, (0.8, 5 * rows))
    found = simulated(stream)
    assert found.arrived == 0
    (refused,) = found.refused
    assert (refused.ptk_id, refused.scheduler) == (PTK, "adaptive")
    assert "4 windows" in refused.reason


def test_those_of_whose_need_nothing_is_known_are_named(stream: World) -> None:
    stream.register("a", epsilon=0.1, config=TESTED)
    stream.register("b", epsilon=0.1)
    found = simulated(stream, rate=1)
    assert found.without_menu == ("taxi.a",)
    assert all(one.released == found.arrived for one in found.schedulers)


def test_the_policy_of_the_stream_changes_nothing_but_its_numbers(in_files: World) -> None:
    """A stream that plans each window alone may ask what an adaptive one would do."""
    in_files.stream(retention_windows=8, rows_per_window=1_000)
    in_files.stream(
        "other",
        scheduler=Scheduler.ADAPTIVE,
        scheduler_mode=Mode.CONSERVE,
        retention_windows=8,
        rows_per_window=1_000,
    )
    in_files.register(epsilon=0.3)
    in_files.register("again", epsilon=0.3, stream="other")
    asked = SimulationRequest(4.0, 30)
    assert (
        in_files.service.simulate(STREAM, asked).schedulers
        == in_files.service.simulate("other", asked).schedulers
    )


def test_the_same_seed_tells_the_same_and_reading_changes_nothing(stream: World) -> None:
    stream.register(epsilon=0.3)
    first = simulated(stream, rate=4, windows=50, seed=1)
    assert (
        first
        == simulated(stream, rate=4, windows=50, seed=1)
        != simulated(stream, rate=4, windows=50, seed=2)
    )
    with stream.service.read() as uow:
        assert uow.waits.allowed(STREAM) == ()
        assert uow.ledger.blocks(STREAM) == ()


def test_without_ptks_nobody_arrives_and_all_is_left(stream: World) -> None:
    found = simulated(stream, rate=4)
    assert found.arrived == 0
    assert found.schedulers == tuple(
        SchedulerResult(one, 0, None, None, 1.0) for one in found.request.schedulers
    )


def test_a_team_is_told_of_its_own_context_alone(in_files: World) -> None:
    contexts = Sharing((("north", ("taxi",)), ("south", ("bikes",))), "two companies")
    in_files.stream(scheduler=Scheduler.ADAPTIVE, sharing=contexts)
    in_files.register(epsilon=0.1, config=TESTED)
    told = {
        team: in_files.service.simulate(STREAM, SimulationRequest(1.0), team=team).without_menu
        for team in ("taxi", "bikes", "trains")
    }
    assert told == {"taxi": (PTK,), "bikes": (), "trains": ()}


def test_ptks_of_other_lines_compete_for_other_budgets(in_files: World) -> None:
    """Half of each block is kept for one PTK, which alone can use it."""
    in_files.stream(
        scheduler=Scheduler.ADAPTIVE,
        retention_windows=8,
        sharing=Sharing(reserved=(("taxi.a", Decimal("0.5")),)),
    )
    for name in ("a", "b"):
        in_files.register(name, epsilon=0.5)
    found = simulated(in_files, rate=8, windows=20)
    assert {one.released for one in found.schedulers} == {40}
    assert {one.left for one in found.schedulers} == {0.0}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rate": 0.0}, "positive"),
        ({"rate": float("nan")}, "positive"),
        ({"rate": float("inf")}, "positive"),
        ({"rate": 1.0, "windows": 0}, "between 1 and 2000"),
        ({"rate": 0.1, "windows": 2_001}, "between 1 and 2000"),
        ({"rate": 21.0, "windows": 100}, "at most 2000 PTKs"),
        ({"rate": 1.0, "seed": -1}, "seed"),
        ({"rate": 1.0, "schedulers": ()}, "one scheduler"),
        ({"rate": 1.0, "schedulers": (SimulatedScheduler.DPF, SimulatedScheduler.DPF)}, "each once"),
    ],
)
def test_what_is_asked_is_bounded(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        SimulationRequest(**asked)


def test_work_is_bounded_over_all_schedulers(stream: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stream.register(epsilon=0.6)
    alone = [simulated(stream, rate=3, windows=20, schedulers=(one,)) for one in MODES]
    assert all(one.arrived for one in alone)
    monkeypatch.setattr(module, "MOST_STEPS", 150_000)
    simulated(stream, rate=3, windows=20, schedulers=(SimulatedScheduler.GUIDED,))
    with pytest.raises(InvalidRequest, match="more than 150000 steps"):
        simulated(stream, rate=3, windows=20, **EVERY)
    monkeypatch.setattr(module, "MOST_BLOCKS", 7)
    with pytest.raises(InvalidRequest, match="8 blocks"):
        simulated(stream, rate=3, windows=20)


@pytest.mark.parametrize("scheduler", SimulatedScheduler)
def test_any_scheduler_is_stopped_at_the_limit_and_a_simulation_takes_the_same_steps_each_time(
    stream: World, scheduler: SimulatedScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.register(epsilon=0.6)
    counts: list[Work] = []

    def counted(most: int) -> Work:
        counts.append(Work(most))
        return counts[-1]

    monkeypatch.setattr(module, "Work", counted)
    asked: dict[str, Any] = {**(BOUNDS if scheduler is SimulatedScheduler.BUDGETING else {}), "windows": 30}
    for _ in range(2):
        simulated(stream, 3.0, **{**asked, "schedulers": (scheduler,)})
    first, again = counts
    assert first.done == again.done > 20_000
    monkeypatch.setattr(module, "MOST_STEPS", first.done - 1)
    with pytest.raises(InvalidRequest, match=f"more than {first.done - 1} steps"):
        simulated(stream, 3.0, **{**asked, "schedulers": (scheduler,)})


def test_charges_that_are_computed_count_and_those_of_sampled_rows_count_for_more(
    stream: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No PTK is named as refused because the limit was reached."""
    stream.register(epsilon=0.1)
    monkeypatch.setattr(module, "MOST_STEPS", CHARGE)
    with pytest.raises(InvalidRequest, match="steps"):
        simulated(stream)
    noise = {"name": "DiscreteGaussian", "sigma": 2.0, "sensitivity": 1}
    sampled = {"name": "PoissonSampled", "noise": noise, "rate": 0.1, "steps": 3}
    assert module._steps_of_charge(noise) == CHARGE
    assert module._steps_of_charge({"name": "Composed", "events": [noise, sampled]}) == CALIBRATION


def test_policies_that_adaptive_refuses_are_refused(in_files: World) -> None:
    in_files.stream(train_partitions=2)
    with pytest.raises(InvalidRequest, match="one train partition"):
        simulated(in_files)
    with pytest.raises(UnknownName):
        in_files.service.simulate("nowhere", SimulationRequest(1.0))


# budgeting


def budgeting(world: World, rate: float = 0.5, **asked: Any) -> SimulationResult:
    return simulated(world, rate, schedulers=(SimulatedScheduler.BUDGETING,), **asked)


@pytest.fixture
def own_bounds(in_files: World) -> World:
    bounds: dict[str, Any] = {"least_significance": 2.0, "most_significance": 10.0}
    in_files.stream(
        scheduler=Scheduler.BUDGETING,
        retention_windows=8,
        rows_per_window=1_000,
        **bounds,
    )
    return in_files


def test_under_budgeting_the_windows_of_a_stream_ask_for_its_own_bounds(own_bounds: World) -> None:
    """T reaches 1 / .2 = 5 where z = (1 + ln(5 / 2)) / (1 + ln 5) = .734: four looks of .2 a window, and no fifth."""
    own_bounds.register(epsilon=0.2)
    found = budgeting(own_bounds, rate=20, windows=20)
    (result,) = found.schedulers
    assert result.released == 4 * 20 < found.arrived
    assert result.left == pytest.approx(0.2)
    assert (found.request.least_significance, found.request.most_significance) == (2.0, 10.0)


def test_other_bounds_may_be_asked_about(own_bounds: World) -> None:
    """With U = 4.5 T stays below 5, and a fifth look is served while the window is new."""
    own_bounds.register(epsilon=0.2)
    (result,) = budgeting(own_bounds, rate=20, windows=20, most_significance=4.5).schedulers
    assert result.released == 5 * 20
    assert result.left == 0.0


def test_a_window_serves_those_whose_recency_has_not_gone(own_bounds: World) -> None:
    """A PTK that needs two windows is served by the newest two, if what is a window old still counts."""
    own_bounds.register("long", epsilon=0.1, windows=(2, 2), config={"recency": 4})
    own_bounds.register("short", epsilon=0.2, windows=(1, 1), config={"recency": 1})
    found = budgeting(own_bounds, rate=0.5, windows=200)
    (result,) = found.schedulers
    assert result.released == found.arrived
    stricter = budgeting(own_bounds, rate=0.5, windows=200, least_significance=8.0, most_significance=9.0)
    (result,) = stricter.schedulers
    assert 0 < stricter.arrived == found.arrived
    assert result.released == 0
    assert [(one.ptk_id, one.scheduler) for one in stricter.refused] == [
        ("taxi.long", "budgeting"),
        ("taxi.short", "budgeting"),
    ]
    assert "has a significance of at most 0.75" in stricter.refused[0].reason


def test_budgeting_and_adaptive_streams_may_be_simulated_as_each_other(
    own_bounds: World,
) -> None:
    own_bounds.stream("other", scheduler=Scheduler.ADAPTIVE, retention_windows=8, rows_per_window=1_000)
    own_bounds.register(epsilon=0.2)
    own_bounds.register("again", epsilon=0.2, stream="other")
    asked = SimulationRequest(4.0, 30, 0, tuple(SimulatedScheduler), 2.0, 10.0)
    mine, others = (own_bounds.service.simulate(name, asked) for name in (STREAM, "other"))
    assert mine.schedulers == others.schedulers


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({}, "give least_significance and most_significance.*has another scheduler"),
        ({"least_significance": 2.0}, "give least_significance and most_significance"),
        ({"least_significance": 2.0, "most_significance": 2.0}, "must be above"),
        ({"least_significance": float("nan"), "most_significance": 2.0}, "finite number"),
        ({"least_significance": 1.0, "most_significance": float("inf")}, "finite number"),
    ],
)
def test_budgeting_without_bounds_that_go_together_is_refused(
    stream: World, bounds: dict[str, float], said: str
) -> None:
    stream.register(epsilon=0.1)
    with pytest.raises(InvalidRequest, match=said):
        budgeting(stream, **bounds)


def test_bounds_without_budgeting_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="are for the scheduler 'budgeting'"):
        SimulationRequest(1.0, least_significance=2.0)


def test_a_significance_that_is_measured_is_not_simulated(in_files: World) -> None:
    in_files.stream(
        scheduler=Scheduler.BUDGETING,
        significance=Significance.LOSS,
        least_significance=100.0,
        most_significance=1_000.0,
        comparison_epsilon=0.1,
    )
    in_files.register(epsilon=0.2)
    with pytest.raises(InvalidRequest, match="measured on rows, and a simulation reads no row"):
        budgeting(in_files)
    declared = budgeting(in_files, least_significance=2.0, most_significance=10.0)
    assert [one.released for one in declared.schedulers] == [declared.arrived]
