"""Budgeting streams: a window serves those that it teaches enough for what it has left."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ptkstore.application.scheduling.budgeting_trainings import PASSED_OVER, PASSED_OVER_WINDOWS
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.scheduling.choices import Mode, Scheduler, ServedFirst, Significance
from ptkstore.domain.scheduling.queues import Awaited
from ptkstore.domain.scheduling.simulation.requests import SimulatedScheduler, SimulationRequest
from ptkstore.domain.streams.policies import PrivacyUnit
from ptkstore.errors import InvalidRequest, PtkRejected
from ptkstore.ports.row_processes import RunFailed
from tests.support.world import STREAM, World

CHAIN = ("prepare", "allocate", "schedule", "train", "validate", "place", "flip")
PTK = "taxi.speed"
BOUNDS = {"least_significance": 2.0, "most_significance": 10.0}
LOW = {"least_significance": 0.1, "most_significance": 0.2}
"""Bounds that whatever fits a block meets."""
TEST = {"metric": "loss", "epsilon": 0.2}
BAD = 1e-9
ROWS = [i / 1_000 for i in range(1_000)]


def budgeting(world: World, **policy: Any) -> World:
    defaults = {"retention_windows": 4, "rows_per_window": 1_000, **BOUNDS}
    world.stream(scheduler=Scheduler.BUDGETING, **{**defaults, **policy})
    return world


@pytest.fixture
def stream(in_files: World) -> World:
    return budgeting(in_files)


def day(world: World, number: int) -> None:
    """One more window, from rows to versions."""
    world.clock.pass_(hours=1)
    world.ingest([number + one for one in ROWS])
    world.close(number + 1)
    world.work(*CHAIN)


def looks(world: World, ptk_id: str = PTK) -> list[tuple[tuple[int, ...], int]]:
    """What was reserved for trainings of a PTK, in order: windows and nano-epsilon."""
    with world.service.read() as uow:
        entries = uow.ledger.journal(STREAM)
    return [
        (tuple(number // 128 for number in one.blocks), one.loss.epsilon_nano)
        for one in entries
        if one.kind is EntryKind.RESERVE and one.key.startswith(f"train/{ptk_id}/")
    ]


def waits_for(world: World) -> dict[str, Awaited]:
    return {one.ptk_id: one.waits_for for one in world.service.queue(STREAM)}


def versions(world: World, *names: str) -> list[int]:
    return [len(world.service.versions(f"taxi.{name}")) for name in names]


def test_a_ptk_waits_for_a_window_that_serves_it_and_leaves_with_a_version(stream: World) -> None:
    stream.register(epsilon=0.1)
    assert waits_for(stream) == {PTK: Awaited.NEW_WINDOW}
    stream.ingest(ROWS)
    stream.close(1)
    stream.work("prepare")
    assert waits_for(stream) == {PTK: Awaited.SCHEDULER}
    stream.work("allocate")
    assert waits_for(stream) == {PTK: Awaited.VERDICT}
    stream.work(*CHAIN)
    assert (looks(stream), versions(stream, "speed"), waits_for(stream)) == ([((0,), 10**8)], [1], {})
    assert stream.service.verify_ledger(STREAM).faults == ()


def test_a_window_asks_for_more_the_more_of_it_is_used(stream: World) -> None:
    """T is 2 up to a share of .38, then 2 exp(2.61 z - 1): at .6 it is 3.5, at .8 it is 5.9. Epsilon is .2."""
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        stream.register(name, epsilon=0.2)
        stream.clock.pass_(hours=1)
    day(stream, 0)
    assert versions(stream, *names) == [1, 1, 1, 1, 0]
    assert (
        2 * math.exp(0.6 * (1 + math.log(5)) - 1) * 0.2 < 1 < 2 * math.exp(0.8 * (1 + math.log(5)) - 1) * 0.2
    )
    assert waits_for(stream) == {"taxi.e": Awaited.SIGNIFICANCE}  # the block has its loss left
    day(stream, 1)
    assert looks(stream, "taxi.e") == [((1,), 2 * 10**8)]


def test_who_came_first_is_served_first(stream: World) -> None:
    for name in ("e", "d", "c", "b", "a"):
        stream.register(name, epsilon=0.2)
        stream.clock.pass_(hours=1)
    day(stream, 0)
    assert versions(stream, "a", "e") == [0, 1]


@pytest.mark.parametrize(
    ("order", "served"),
    [
        (ServedFirst.ARRIVAL, {"large"}),
        (ServedFirst.DPF, {"small", "other"}),
        (ServedFirst.DPACK, {"small", "other"}),
    ],
)
def test_who_asks_for_little_is_served_first_where_the_policy_says_so(
    in_files: World, order: ServedFirst, served: set[str]
) -> None:
    stream = budgeting(in_files, **LOW, served_first=order)
    for name, epsilon in (("large", 0.9), ("small", 0.2), ("other", 0.2)):
        stream.register(name, epsilon=epsilon)
        stream.clock.pass_(hours=1)
    day(stream, 0)
    names = ("large", "small", "other")
    assert {name for name, n in zip(names, versions(stream, *names), strict=True) if n} == served
    assert waits_for(stream) == {f"taxi.{name}": Awaited.BUDGET for name in names if name not in served}


@pytest.mark.parametrize("order", ServedFirst)
def test_the_owner_of_a_ptk_that_is_passed_over_for_long_is_told_once(
    in_files: World, order: ServedFirst
) -> None:
    """Small ones ask for each new window, in which the large one would fit without them."""
    stream = budgeting(in_files, **LOW, served_first=order)

    def days(*numbers: int) -> list[tuple[str, str]]:
        for number in numbers:
            day(stream, number)
        return [(subject, code) for subject, code in stream.notices() if code == PASSED_OVER]

    for name in ("small", "other"):
        stream.register(name, epsilon=0.2)
    stream.register("large", epsilon=0.9)
    is_told = order is not ServedFirst.ARRIVAL
    stream.clock.pass_(days=PASSED_OVER_WINDOWS - 1)
    assert days(0, 1) == []
    stream.clock.pass_(days=1)
    told = [("taxi.large", "passed-over")]
    assert days(2, 3) == told * is_told
    stream.service.deregister_ptk("taxi.large")
    stream.register("large", epsilon=0.85)  # it waits anew
    assert days(4) == told * is_told
    stream.clock.pass_(days=PASSED_OVER_WINDOWS)
    assert days(5, 6) == told * 2 * is_told


@pytest.mark.parametrize(("order", "first"), [(ServedFirst.DPF, "two"), (ServedFirst.DPACK, "one")])
def test_dpf_goes_by_the_largest_share_and_dpack_by_the_demand_for_all_blocks(
    in_files: World, order: ServedFirst, first: str
) -> None:
    """Together they do not fit: .55 of each of two windows, or .6 of one."""
    stream = budgeting(in_files, **LOW, served_first=order)
    for number in range(2):
        day(stream, number)
    for name, epsilon, windows in (("one", 0.6, (1, 1)), ("two", 0.55, (2, 2))):
        stream.register(name, epsilon=epsilon, windows=windows)
    stream.work(*CHAIN)
    served = {"one": versions(stream, "one")[0], "two": versions(stream, "two")[0]}
    assert served == {first: 1, {"one": "two", "two": "one"}[first]: 0}


def test_a_block_without_the_loss_serves_nobody_however_significant(in_files: World) -> None:
    stream = budgeting(in_files, **LOW)
    names = ["a", "b", "c", "d"]
    for name in names:
        stream.register(name, epsilon=0.3)
        stream.clock.pass_(hours=1)
    day(stream, 0)
    assert versions(stream, *names) == [1, 1, 1, 0]
    assert waits_for(stream) == {"taxi.d": Awaited.BUDGET}


def test_old_windows_teach_less_as_the_ptk_declares(stream: World) -> None:
    """Of age 2, the significance is 0 with a recency of 2, and .6 as it is by default. Epsilon .2 asks for .4."""
    for number in range(3):
        day(stream, number)
    for name, config in (("short", {"recency": 2}), ("usual", {})):
        stream.register(name, epsilon=0.2, windows=(1, 4), config=config)
    stream.work(*CHAIN)
    assert looks(stream, "taxi.short") == [((1, 2), 2 * 10**8)]
    assert looks(stream, "taxi.usual") == [((0, 1, 2), 2 * 10**8)]


def test_the_most_significant_windows_are_read_and_not_more_than_the_ptk_may(stream: World) -> None:
    for number in range(3):
        day(stream, number)
    stream.register(epsilon=0.1, windows=(1, 2))
    stream.work(*CHAIN)
    assert looks(stream) == [((1, 2), 10**8)]


def test_a_ptk_waits_until_as_many_windows_serve_it_as_it_needs(stream: World) -> None:
    stream.register(epsilon=0.1, windows=(2, 4))
    day(stream, 0)
    assert waits_for(stream) == {PTK: Awaited.NEW_WINDOW}
    day(stream, 1)
    assert looks(stream) == [((0, 1), 10**8)]


def test_a_retry_reads_other_windows_with_twice_the_loss(in_files: World) -> None:
    stream = budgeting(in_files, **LOW)
    config = {"accept": TEST, "epsilons": [0.1, 0.3]}
    stream.register(epsilon=0.1, config=config, target=BAD)
    day(stream, 0)
    assert looks(stream) == [((0,), 10**8)]
    assert waits_for(stream) == {PTK: Awaited.NEW_WINDOW}
    day(stream, 1)
    day(stream, 2)
    assert looks(stream) == [((0,), 10**8), ((1,), 2 * 10**8), ((2,), 3 * 10**8)]


def test_no_row_opens_for_a_state_that_no_test_block_could_test(in_files: World) -> None:
    stream = budgeting(in_files, **LOW)
    for name in ("a", "b"):
        stream.register(name, epsilon=0.2, config={"accept": {**TEST, "epsilon": 0.6}}, target=BAD)
    day(stream, 0)
    assert [len(looks(stream, f"taxi.{name}")) for name in ("a", "b")] == [1, 0]
    assert waits_for(stream)["taxi.b"] is Awaited.TEST_BLOCK


def test_a_training_that_failed_after_it_was_paid_waits_for_a_newer_window(stream: World) -> None:
    for number in range(2):
        day(stream, number)
    stream.register(epsilon=0.1)
    stream.trainer.failing = RunFailed("out-of-memory")
    stream.work(*CHAIN)
    assert waits_for(stream) == {PTK: Awaited.NEW_WINDOW}
    day(stream, 2)
    assert looks(stream) == [((1,), 10**8), ((2,), 10**8)]


def test_it_waits_anew_so_many_windows_after_its_version(stream: World) -> None:
    stream.register(epsilon=0.1, train_frequency="2d")
    for number in range(4):
        day(stream, number)
    assert [windows for windows, _ in looks(stream)] == [(0,), (2,)]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"epsilon": 2.0}, "does not fit an empty block"),
        ({"config": {"pinned": {"rows": 10}}}, "scheduler 'budgeting' chooses rows itself"),
        ({"epsilon": 0.6}, r"significance of at most 1. A fresh window asks for 1.2"),
        ({"epsilon": 0.2, "windows": (3, 4), "config": {"recency": 2}}, "significance of at most 0"),
    ],
)
def test_what_no_window_could_ever_serve_is_refused(stream: World, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(PtkRejected, match=reason):
        stream.register(**more)
    with stream.service.read() as uow:
        assert (uow.ptks.find(stream=STREAM), uow.waits.of(STREAM)) == ((), {})


@pytest.mark.parametrize("recency", [0, -1, 1.5, True, "7", 10_001, [7], 10**30])
def test_a_recency_that_is_no_number_of_windows_is_refused(stream: World, recency: Any) -> None:
    with pytest.raises(InvalidRequest, match="whole number of windows"):
        stream.register(config={"recency": recency})


def test_a_recency_that_the_stream_does_not_read_is_refused(in_files: World) -> None:
    in_files.stream(scheduler=Scheduler.ADAPTIVE)
    with pytest.raises(InvalidRequest, match="scheduler 'budgeting' alone"):
        in_files.register(config={"recency": 3})


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ({"most_significance": 2.0}, "2 is not above 2"),
        ({"most_significance": 1.0}, "1 is not above 2"),
        ({"most_significance": None}, "needs public bounds"),
        ({"least_significance": None}, "needs public bounds"),
        ({"least_significance": 0.0}, "positive, finite"),
        ({"least_significance": -1.0}, "positive, finite"),
        ({"least_significance": math.nan}, "positive, finite"),
        ({"most_significance": math.inf}, "positive, finite"),
        ({"most_significance": True}, "positive, finite"),
        ({"least_significance": 1e-300}, "between 1e-06 and 1e"),
        ({"most_significance": 1e300}, "between 1e-06 and 1e"),
        ({"comparison_epsilon": 0.1}, "comparison_epsilon is for the significances 'loss' and"),
        ({"significance": Significance.LOSS}, "has to be paid for: comparison_epsilon"),
        ({"significance": Significance.LOSS, "comparison_epsilon": 1.5}, "more than a block may lose"),
        ({"significance": Significance.LOSS, "comparison_epsilon": 0.0}, "positive, finite"),
        (
            {
                "significance": Significance.LOSS,
                "comparison_epsilon": 0.1,
                "attribute": "hour",
                "attribute_values": (1, 2),
            },
            "does not go with blocks by a column",
        ),
        ({"privacy_unit": PrivacyUnit.USER, "unit_column": "hour"}, "'budgeting' does not go with"),
        ({"train_partitions": 2}, "one train partition"),
        ({"scheduler_mode": Mode.CONSERVE}, "scheduler_mode"),
        ({"scheduler": Scheduler.ADAPTIVE}, "are for the scheduler 'budgeting'"),
        (
            {
                "scheduler": Scheduler.ADAPTIVE,
                "least_significance": None,
                "most_significance": None,
                "served_first": ServedFirst.DPF,
            },
            "served_first is for the scheduler 'budgeting'",
        ),
        ({"scheduler": Scheduler.ALLOCATE}, "are for the scheduler 'budgeting'"),
    ],
)
def test_a_policy_that_does_not_go_with_its_scheduler_is_refused(
    in_files: World, policy: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        in_files.stream(**{"scheduler": Scheduler.BUDGETING, **BOUNDS, **policy})


def test_a_budgeting_stream_can_be_simulated_as_if_it_were_adaptive(stream: World) -> None:
    stream.register(epsilon=0.1)
    asked = SimulationRequest(rate=1.0, windows=10, schedulers=(SimulatedScheduler.GUIDED,), seed=0)
    assert stream.service.simulate(STREAM, asked).arrived > 0
