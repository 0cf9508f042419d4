"""PTKs whose partition or rows are fixed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptkstore.application.planning.recommend_rows import recommend_rows
from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.jobs import JobState
from ptkstore.errors import InvalidRequest, PtkRejected
from tests.support.cases import case
from tests.support.planned_losses import gaussian, means
from tests.support.world import STREAM, World

SPAN = {"epsilons": [0.05, 1.0]}


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[World]:
    """A world whose stream the test makes."""
    world = World(tmp_path / "home")
    yield world
    world.service.close()


@pytest.fixture
def split(bare: World) -> World:
    """Two train partitions of 40 rows."""
    bare.stream(train_partitions=2, accountant=Accountant.BASIC, capacity_delta=1e-6)
    return bare


def placed(world: World, window: int = 0) -> dict[str, tuple[int, int]]:
    """Partition and rows of each PTK in a window."""
    world.ingest((window + 0.5,))
    world.close(window + 1)
    world.work("prepare", "allocate")
    with world.service.begin() as uow:
        jobs = [j for j in uow.jobs.find() if j.kind == "train" and j.window_index == window]
    assert {job.state for job in jobs} == {JobState.READY}
    world.work("train", "place")
    return {str(job.ptk_id): (job.partition, job.n_rows) for job in jobs}


def test_a_pinned_ptk_keeps_its_place_while_others_come(split: World) -> None:
    pinned = split.register("vip", 0.3, config={"pinned": {"partition": 1, "rows": 25}})
    assert placed(split)[pinned] == (1, 25)
    split.register("a", 0.7)
    split.register("b", 0.9)
    split.register("m", estimator=means(), target=0.9, config={"epsilons": [0.05, 0.1]})
    assert placed(split, 1)[pinned] == (1, 25)
    block = next(b for b in split.service.budget(STREAM) if b.number == 3)
    assert block.spent.epsilon_nano == 3 * 10**8


def test_a_pinned_number_of_rows_is_kept_at_the_least_epsilon_that_reaches_the_target(split: World) -> None:
    free = split.register("free", estimator=means(), target=0.3, config=SPAN)
    menu = split.service.profile(free).menu
    rows = min(n for _, n in menu) + 5
    split.service.update_ptk(free, config={**SPAN, "pinned": {"rows": rows}})
    assert placed(split)[free][1] == rows
    epsilon = split.service.versions(free)[0].content["guarantee"]["epsilon"]
    assert epsilon == pytest.approx(min(e for e, n in menu if n <= rows))


def test_a_target_that_pinned_rows_do_not_reach_is_refused_with_the_reason(split: World) -> None:
    pinned = {**SPAN, "pinned": {"rows": 10}}
    with pytest.raises(
        PtkRejected, match=r"more than the 10 rows it is pinned to: [0-9]+ at the largest"
    ) as why:
        split.register("m", estimator=means(), target=0.2, config=pinned)
    looser = re.findall(r"looser target, ([0-9.]+) or more", str(why.value))
    split.register("m", estimator=means(), target=float(looser[0]), config=pinned)


def test_a_full_partition_takes_nobody_who_is_pinned_to_it_though_another_has_room(split: World) -> None:
    split.register("first", 0.8, config={"pinned": {"partition": 1}})
    with pytest.raises(
        PtkRejected, match=r"in partition 1, to which it .* at most epsilon 0\.2, delta 0\.000001"
    ):
        split.register("second", 0.3, config={"pinned": {"partition": 1}})
    split.register("second", 0.2, config={"pinned": {"partition": 1}})
    split.register("third", 1.0)
    with pytest.raises(PtkRejected, match="in partition 1, to which it is pinned"):
        split.service.update_ptk("taxi.third", config={"pinned": {"partition": 1}})


def test_a_wrong_pin_is_told(split: World) -> None:
    for wrong, says in [
        (1, "a partition, rows, or both"),
        ({}, "a partition, rows, or both"),
        ({"part": 1}, "a partition, rows, or both"),
        ({"partition": 2}, "between 0 and 1"),
        ({"partition": -1}, "between 0 and 1"),
        ({"partition": True}, "whole number"),
        ({"rows": 0}, "between 1 and 40"),
        ({"rows": 41}, "between 1 and 40"),
        ({"rows": 1.5}, "whole number"),
    ]:
        with case(str((wrong, says))):
            with pytest.raises(InvalidRequest, match=says):
                split.register("m", config={"pinned": wrong})
            assert split.service.ptks() == ()


def test_rows_are_recommended_beside_a_pinned_ptk(split: World) -> None:
    split.register("vip", 0.3, config={"pinned": {"partition": 1}})
    split.register("other", 0.9)
    advice = recommend_rows(STREAM, begin=split.service.begin)
    assert advice.n_rows == 80


def test_a_refusal_under_curves_names_a_capacity_that_is_enough(bare: World) -> None:
    bare.stream(accountant=Accountant.RENYI, capacity_delta=1e-6)
    others = [gaussian(0.9), gaussian(0.9)]
    bare.register("first", estimator=others[0])
    with pytest.raises(PtkRejected, match="with a capacity of") as why:
        bare.register("second", estimator=others[1])
    enough = float(re.findall(r"with a capacity of epsilon ([0-9.]+), delta 0\.000001", str(why.value))[0])
    bare.stream("larger", enough, accountant=Accountant.RENYI, capacity_delta=1e-6)
    for name, estimator in zip(("third", "fourth"), others, strict=True):
        bare.register(name, estimator=estimator, stream="larger")
