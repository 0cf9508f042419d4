"""Who spent what of a block: shares that add up to it, losses that are those of each alone, and bounded reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptkstore.application.ledger.loss_parts import Party, loss_parts
from ptkstore.domain.accounting.accountants import (
    ORDERS,
    SATURATED,
    Accountant,
    caps_of,
    deciding_coordinate,
    loss_of,
)
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.ledger.odometers import LossPart
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.blocks import BlockRange
from tests.support.world import STREAM, World, speed

TRAIN = 2  # of window 0


def told(world: World, by: Party = Party.PTK, lo: int = 0, hi: int = 128) -> dict[str, LossPart]:
    parts = world.service.loss_parts(STREAM, BlockRange(lo, hi), by)
    assert parts is not None
    return {one.name: one for one in parts[lo + TRAIN, "common"]}


@pytest.mark.parametrize(
    ("accountant", "delta"), [(Accountant.BASIC, 0), (Accountant.RENYI, 1e-6), (Accountant.ZCDP, 1e-6)]
)
def test_shares_of_a_block_add_up_and_each_loss_is_that_of_the_odometer(
    tmp_path: Path, accountant: Accountant, delta: float
) -> None:
    world = World(tmp_path / "home")
    world.stream(accountant=accountant, capacity_delta=delta)
    for name, epsilon in (("one", 0.1), ("two", 0.3)):
        world.register(name, epsilon=epsilon)
    world.service.register_ptk(
        team="ads", name="three", stream=STREAM, estimator=speed(0.2), target=0.1, train_frequency="1d"
    )
    world.publish(0)
    parts = told(world)
    assert sum(one.share for one in parts.values()) == pytest.approx(1)
    odometers = {one.name: one.spent.guarantee for one in world.service.odometers(STREAM).ptks}
    assert {name: one.alone for name, one in parts.items()} == odometers
    assert list(parts) == ["taxi.two", "ads.three", "taxi.one"]  # the largest first
    if accountant is Accountant.BASIC:
        assert [one.share for one in parts.values()] == pytest.approx([0.5, 1 / 3, 1 / 6])
    teams = told(world, Party.TEAM)
    assert list(teams) == ["taxi", "ads"]
    assert teams["taxi"].share == pytest.approx(parts["taxi.one"].share + parts["taxi.two"].share)
    world.service.close()


def test_promises_and_blocks_without_losses_have_no_parts(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream()
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")
    assert told(world) == {}
    world.service.close()


def test_a_training_over_several_windows_is_on_the_blocks_of_each(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream(scheduler=Scheduler.ADAPTIVE, retention_windows=4, rows_per_window=100)
    world.register("wide", epsilon=0.1, windows=(3, 3))
    for day in range(3):
        world.ingest((day + 0.5,))
        world.close(day + 1)
        world.work("prepare", "allocate", "schedule", "train")
    assert [list(told(world, lo=128 * w, hi=128 * (w + 1))) for w in range(3)] == [["taxi.wide"]] * 3
    world.service.close()


def test_no_more_lines_are_read_than_are_about_the_blocks_and_never_more_than_the_most(
    tmp_path: Path,
) -> None:
    world = World(tmp_path / "home")
    world.stream()
    world.register()
    for day in range(6):
        world.publish(day)
    with world.service.read() as uow:
        seen = uow.ledger.touching(STREAM, BlockRange(5 * 128, 6 * 128), 2 * 128, 10)
        assert {one.blocks.first.lo // 128 for one in seen} == {5}
        assert len(seen) == 2  # a promise and a spend
    begin, blocks = world.service.read_one_moment, BlockRange(0, 6 * 128)
    assert loss_parts(STREAM, blocks, Party.PTK, most=12, begin=begin) is not None
    assert loss_parts(STREAM, blocks, Party.PTK, most=11, begin=begin) is None
    world.service.close()


def test_the_deciding_coordinate_is_the_one_that_the_epsilon_is_read_off() -> None:
    capacity = Loss.capacity(1, 1e-6)
    caps = caps_of(Accountant.RENYI, capacity).amounts
    for rho in (0.001, 0.01, 0.02):
        gaussian = [int(order * rho * 1e9) for order in ORDERS]
        amounts = [*gaussian, SATURATED]
        place = deciding_coordinate(Accountant.RENYI, capacity, amounts)
        implied = loss_of(Accountant.RENYI, capacity, amounts, 0).epsilon_nano
        assert implied == amounts[place] + capacity.epsilon_nano - caps[place]
    pure = [*gaussian, 1000]
    assert deciding_coordinate(Accountant.RENYI, capacity, pure) == len(ORDERS)
    assert deciding_coordinate(Accountant.BASIC, capacity, [5]) == 0
    assert deciding_coordinate(Accountant.ZCDP, capacity, [10_000_000, SATURATED]) == 0
