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
from ptkstore.domain.scheduling.choices import Mode, Scheduler
from ptkstore.domain.scheduling.simulations import Asked, Fared, Simulated, Simulation
from ptkstore.errors import InvalidRequest, UnknownName
from tests.support.world import STREAM, World

PTK = "taxi.speed"
TESTED: dict[str, Any] = {"accept": {"metric": "loss", "epsilon": 0.2}}
EVERY = tuple(Simulated)


@pytest.fixture
def stream(in_files: World) -> World:
    in_files.stream(scheduler=Scheduler.ADAPTIVE, retention_windows=8, rows_per_window=1_000)
    return in_files


def simulated(world: World, rate: float = 0.5, **asked: Any) -> Simulation:
    return world.service.simulate(STREAM, Asked(rate, **asked))


def under(found: Simulation) -> dict[str, Fared]:
    return {one.scheduler.value: one for one in found.fared}


def test_without_a_test_a_ptk_leaves_with_its_first_look(stream: World) -> None:
    """The block of a window pays for 10 looks of .1, and ten times fewer arrive."""
    stream.register(epsilon=0.1)
    found = simulated(stream, rate=1, windows=50, schedulers=EVERY)
    assert found.arrived > 30
    assert found.without_menu == ()
    assert found.refused == ()
    for one in found.fared:
        assert one.released == found.arrived
        assert one.median is not None
        assert one.late is not None
        assert 0 < one.median <= one.late <= 1.0
        assert one.left == pytest.approx(1 - 0.1 * found.arrived / 50)


def test_a_block_pays_for_no_more_looks_than_its_budget_covers(stream: World) -> None:
    stream.register(epsilon=0.6)
    found = simulated(stream, rate=3, windows=20, schedulers=EVERY)
    for one in found.fared:
        assert one.released <= 20 < found.arrived
        assert one.late is None  # it falls on one that was not released
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
    found = simulated(stream, rate=0.2, windows=40, schedulers=EVERY)
    fared = under(found)
    assert found.without_menu == ()
    assert fared["guided"].released == fared["conserve"].released == found.arrived > 3
    assert fared["guided"].left == pytest.approx(1 - 0.4 * found.arrived / 40)
    assert fared["conserve"].left == pytest.approx(1 - 0.7 * found.arrived / 40)
    assert fared["arrival"] == replace(fared["guided"], scheduler=Simulated.ARRIVAL)


def test_a_target_out_of_reach_is_never_met(stream: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stream.register(epsilon=0.1, windows=(1, 4), config={**TESTED, "epsilons": [0.1, 0.8]})
    rows = partition_rows(stream.service.stream(STREAM).policy)
    with_menu(stream, monkeypatch, (0.8, 5 * rows))
    found = simulated(stream)
    assert found.arrived == 0
    ((ptk_id, reason),) = found.refused
    assert ptk_id == PTK
    assert "4 windows" in reason


def test_those_of_whose_need_nothing_is_known_are_named(stream: World) -> None:
    stream.register("a", epsilon=0.1, config=TESTED)
    stream.register("b", epsilon=0.1)
    found = simulated(stream, rate=1)
    assert found.without_menu == ("taxi.a",)
    assert all(one.released == found.arrived for one in found.fared)


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
    asked = Asked(4.0, 30)
    assert in_files.service.simulate(STREAM, asked).fared == in_files.service.simulate("other", asked).fared


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
    assert found.fared == tuple(Fared(one, 0, None, None, 1.0) for one in found.asked.schedulers)


def test_a_team_is_told_of_its_own_context_alone(in_files: World) -> None:
    contexts = Sharing((("north", ("taxi",)), ("south", ("bikes",))), "two companies")
    in_files.stream(scheduler=Scheduler.ADAPTIVE, sharing=contexts)
    in_files.register(epsilon=0.1, config=TESTED)
    told = {
        team: in_files.service.simulate(STREAM, Asked(1.0), team=team).without_menu
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
    assert {one.released for one in found.fared} == {40}
    assert {one.left for one in found.fared} == {0.0}


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
        ({"rate": 1.0, "schedulers": (Simulated.DPF, Simulated.DPF)}, "each once"),
    ],
)
def test_what_is_asked_is_bounded(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        Asked(**asked)


def test_work_is_bounded_over_all_schedulers(stream: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stream.register(epsilon=0.6)
    alone = [simulated(stream, rate=3, windows=20, schedulers=(one,)) for one in EVERY]
    assert all(one.arrived for one in alone)
    monkeypatch.setattr(module, "MOST_WORK", 100_000)
    for one in (Simulated.CONSERVE, Simulated.GUIDED):
        simulated(stream, rate=3, windows=20, schedulers=(one,))
    with pytest.raises(InvalidRequest, match="too much work"):
        simulated(stream, rate=3, windows=20, schedulers=EVERY)
    monkeypatch.setattr(module, "MOST_BLOCKS", 7)
    with pytest.raises(InvalidRequest, match="8 blocks"):
        simulated(stream, rate=3, windows=20)


def test_policies_that_adaptive_refuses_are_refused(in_files: World) -> None:
    in_files.stream(train_partitions=2)
    with pytest.raises(InvalidRequest, match="one train partition"):
        simulated(in_files)
    with pytest.raises(UnknownName):
        in_files.service.simulate("nowhere", Asked(1.0))
