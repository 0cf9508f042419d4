"""A PTK may be trained on one newest window again: each look has jobs, a reservation and notices of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.jobs import Outcome
from ptkstore.ports.row_processes import RunFailed
from tests.support.catalog_copies import catalog_of, put_back
from tests.support.several_windows import queue_training
from tests.support.world import DAY, NOW, ORIGIN, STREAM, World

PTK = "taxi.speed"
ROWS = [i / 1_000 for i in range(1_000)]
BAD = 1e-9
"""A target that no state can be shown to meet."""


def look_again(world: World, look: int) -> str:
    """Queue one more training on the window, with its own reservation."""
    return queue_training(world, 0, n_rows=80, look=look)


def seen(world: World) -> list[tuple[Any, ...]]:
    """What is told of the trainings: window, look, code and version."""
    return [(one.window, one.look, one.code, one.version) for one in world.service.trainings(PTK)]


def test_each_look_pays_for_itself_and_makes_a_version(world: World) -> None:
    world.register()
    world.publish(0)
    again = look_again(world, 2)
    assert again == f"train/{PTK}/0/2"
    world.work("train", "place")
    assert [(one.number, one.job_id) for one in world.service.versions(PTK)] == [
        (1, f"train/{PTK}/0"),
        (2, again),
    ]
    assert world.train_block(0) == (0, Loss.charge(0.2).epsilon_nano)
    assert seen(world) == [(0, 1, None, 1), (0, 2, None, 2)]


def test_a_look_that_fails_is_told_apart_from_the_others(world: World) -> None:
    world.register()
    world.trainer.failing = RunFailed("killed")
    world.publish(0)
    world.clock.pass_(minutes=1)
    look_again(world, 2)
    world.trainer.failing = RunFailed("timeout")
    world.work("train")
    look_again(world, 3)
    world.work("train", "place")
    assert world.notices() == [(f"{PTK} window 0", "killed"), (f"{PTK} window 0, look 2", "timeout")]
    assert seen(world) == [(0, 1, "killed", None), (0, 2, "timeout", None), (0, 3, None, 1)]
    ends = [one.ended_at or NOW for one in world.service.trainings(PTK)]
    assert ends == sorted(ends)
    assert ends[0] != ends[1]


def test_each_look_has_its_own_verdict(world: World) -> None:
    world.register(config={"accept": {"metric": "loss", "epsilon": 0.45}}, target=BAD)
    world.ingest(ROWS)
    world.close(1)
    world.work("prepare", "allocate", "train", "validate")
    look_again(world, 2)
    world.work("train")
    validation = world.job(f"validate/{PTK}/0/2")
    assert (validation.look, validation.window_index, validation.reservation) == (2, 0, validation.id)
    world.work("validate")
    kept = [(one.job_id, one.look) for one in world.service.validations(PTK)]
    assert kept == [(f"validate/{PTK}/0", 1), (f"validate/{PTK}/0/2", 2)]
    assert world.notices()[-1] == (f"{PTK} validate of window 0, look 2", "validation-retry")


def test_a_second_look_that_is_accepted_is_the_version_of_its_own_training(world: World) -> None:
    world.register(config={"accept": {"metric": "loss", "epsilon": 0.45}}, target=BAD)
    world.ingest(ROWS)
    world.close(1)
    world.work("prepare", "allocate", "train", "validate")
    world.service.update_ptk(PTK, target=0.9)
    look_again(world, 2)
    world.work("train", "validate", "place")
    (version,) = world.service.versions(PTK)
    assert version.job_id == f"train/{PTK}/0/2"
    assert seen(world) == [(0, 1, "validation-retry", None), (0, 2, None, 1)]


def test_each_look_is_split_into_partials_of_its_own(tmp_path: Path) -> None:
    world = World(tmp_path / "home", rows_per_partial=40)
    world.stream()
    world.register()
    world.ingest(ROWS)
    world.close(1)
    world.work("prepare", "allocate", "train", "partial")
    look_again(world, 2)
    worked_on = world.work("train", "partial", "place")
    assert [one for one in worked_on if one.startswith("partial")] == [
        f"partial/{PTK}/0/2/0",
        f"partial/{PTK}/0/2/1",
    ]
    assert [one.job_id for one in world.service.versions(PTK)] == [f"train/{PTK}/0", f"train/{PTK}/0/2"]
    world.service.close()


def test_looks_are_taken_one_after_the_other(world: World) -> None:
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")
    again = look_again(world, 2)
    assert again not in world.service.due()
    assert not world.service.work_on(again)
    assert world.service.work_on(f"train/{PTK}/0")
    world.work("place")
    assert world.service.work_on(again)


def test_a_recovery_takes_over_two_versions_of_one_window(world: World) -> None:
    world.register()
    home = world.service.settings.root
    earlier = catalog_of(home)
    world.publish(0)
    look_again(world, 2)
    world.work("train", "place")
    world.service.close()
    put_back(home, earlier)
    restored = World(home)
    restored.service.recover_ledger()
    restored.work("place")
    assert [one.job_id for one in restored.service.versions(PTK)] == [f"train/{PTK}/0", f"train/{PTK}/0/2"]
    restored.service.close()


def test_looks_expire_with_their_window(world: World) -> None:
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")
    again = look_again(world, 2)
    world.service.close_windows(STREAM, ORIGIN + 3 * DAY, expire_unfinished=True)
    world.work("expire")
    assert world.job(again).outcome is Outcome.EXPIRED
    assert world.train_block(0) == (0, 0)
