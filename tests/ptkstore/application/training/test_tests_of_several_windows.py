"""States that were trained over several windows are evaluated and validated on the test sets of the same windows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptkstore.domain.jobs import Outcome
from ptkstore.domain.streams.blocks import TEST
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.sdk.documents.evaluations import evaluation_document, evaluation_of
from tests.support.several_windows import queue_training
from tests.support.world import DAY, ORIGIN, STREAM, World

PTK = "taxi.speed"
WINDOWS = (0, 1, 3)  # 2 is none of them
EVALUATE, VALIDATE = f"evaluate/{PTK}/1", f"validate/{PTK}/3"
EVALUATED = {"evaluate": {"epsilon": 0.5}}
VALIDATED = {"accept": {"metric": "loss", "epsilon": 0.5}}
HALF = 5 * 10**8


def trained(world: World, config: dict[str, Any], target: float = 0.9) -> World:
    """A state from three of four windows, which is to be tested."""
    world.stream(epsilon=10, retention_windows=8, profile_share=0)
    for day in range(4):
        world.ingest([day + i / 400 for i in range(400)])
    world.close(4)
    world.work("prepare", "allocate")
    world.register(config=config, target=target)
    queue_training(world, *WINDOWS, n_rows=240)
    world.work("train", "place")
    return world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home")
    yield made
    made.service.close()


def charged(world: World) -> dict[int, int]:
    """What the test blocks were charged, by window, of those that were charged anything."""
    blocks = [one for one in world.service.budget(STREAM) if one.number % 128 == TEST]
    found = {one.number // 128: one.reserved.epsilon_nano + one.spent.epsilon_nano for one in blocks}
    return {window: nano for window, nano in found.items() if nano}


def expire_oldest(world: World) -> None:
    world.service.close_windows(STREAM, ORIGIN + 9 * DAY, expire_unfinished=True)
    world.work("expire")
    assert world.state(0) is WindowState.EXPIRED


def opened(world: World) -> list[bytes]:
    (asked,) = world.evaluator.requests
    return [one.window_key for one in asked.rows]


def keys(world: World, *windows: int) -> list[bytes]:
    return [world.service.keys.sealing_key(WindowId(STREAM, one)) for one in windows]


def test_an_estimate_pays_for_and_opens_the_test_sets_of_all_its_windows(world: World) -> None:
    trained(world, EVALUATED)
    world.work("evaluate")
    (found,) = world.service.evaluations(PTK)
    assert (found.window_index, found.windows) == (3, WINDOWS)
    assert charged(world) == dict.fromkeys(WINDOWS, HALF)
    assert opened(world) == keys(world, *WINDOWS)
    document = evaluation_document(found)
    assert document["windows"] == list(WINDOWS)
    assert evaluation_of(document).windows == WINDOWS
    assert world.service.verify_ledger(STREAM).faults == ()


def test_a_window_that_has_expired_is_left_out_of_an_estimate_and_not_named(world: World) -> None:
    trained(world, EVALUATED)
    expire_oldest(world)
    world.work("evaluate")
    (found,) = world.service.evaluations(PTK)
    assert found.windows == (1, 3)
    assert charged(world) == dict.fromkeys((1, 3), HALF)
    assert opened(world) == keys(world, 1, 3)


def test_a_window_that_expires_before_its_key_is_charged_and_not_named(world: World) -> None:
    trained(world, EVALUATED)

    def goes() -> None:
        world.service.keys.destroy_window(WindowId(STREAM, 1))

    world.steps.at["spent"] = goes
    world.work("evaluate")
    (found,) = world.service.evaluations(PTK)
    assert found.windows == (0, 3)
    assert charged(world) == dict.fromkeys(WINDOWS, HALF)


def test_an_estimate_ends_when_all_its_windows_have_expired(world: World) -> None:
    trained(world, EVALUATED)
    world.service.close_windows(STREAM, ORIGIN + 12 * DAY, expire_unfinished=True)
    world.work("expire", "evaluate")
    assert world.job(EVALUATE).outcome is Outcome.EXPIRED
    assert (charged(world), world.service.evaluations(PTK)) == ({}, ())


@pytest.mark.parametrize("gone", [False, True])
def test_a_verdict_is_from_the_test_sets_of_all_windows_that_are_left(world: World, gone: bool) -> None:
    trained(world, VALIDATED)
    left: tuple[int, ...] = WINDOWS
    if gone:
        expire_oldest(world)
        left = (1, 3)
    assert world.job(VALIDATE).outcome is None  # it goes on
    world.work("validate", "place")
    (validation,) = world.service.validations(PTK)
    (version,) = world.service.versions(PTK)
    assert validation.window_index == 3
    assert validation.verdict["windows"] == version.content["verdict"]["windows"] == list(left)
    assert version.content["windows"] == list(WINDOWS)
    assert charged(world) == dict.fromkeys(left, HALF)
    assert opened(world) == keys(world, *left)
    (estimate,) = world.service.evaluations(PTK)
    assert (estimate.windows, estimate.mass) == (left, validation.mass)


def test_a_user_of_two_windows_is_two_units_of_the_estimate(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptklib.mechanisms.additive.laplace", lambda units, **_: units)
    trained(world, EVALUATED)
    world.work("evaluate")
    (found,) = world.service.evaluations(PTK)
    raw = world.service.raw
    rows = sum(
        raw.read_part(raw.part_url(WindowId(STREAM, one), TEST), key).num_rows
        for one, key in zip(WINDOWS, keys(world, *WINDOWS), strict=True)
    )
    assert found.mass.lost + found.mass.kept == rows * 2**20
