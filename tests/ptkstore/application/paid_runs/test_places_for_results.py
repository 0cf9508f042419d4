"""Places for what is paid for: looked at before the loss is spent, and cleared away whatever fails meanwhile."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ptkstore.adapters.objects.lake import MANIFEST
from ptkstore.adapters.objects.names import STAGING
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.jobs import MAX_ATTEMPTS, JobState, Outcome
from ptkstore.errors import OutcomeUnknown, Unavailable
from ptkstore.ports.row_processes import STAGING_FAILED, RunFailed
from tests.support.catalog_faults import Faults
from tests.support.world import DAY, ORIGIN, STREAM, World

PTK = "taxi.speed"
TRAIN = f"train/{PTK}/0"
TENTH = 10**8


@pytest.fixture(params=["library", "own"])
def reserved(request: pytest.FixtureRequest, world: World) -> World:
    """A reservation on a window that nobody has opened."""
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate")
    if request.param == "own":  # but for the sandbox
        with world.service.begin() as uow:
            uow.ptks.replace(replace(uow.ptks.get(PTK), assurance=Assurance.ASSERTED))
            uow.commit()
    return world


def expect_put_off(world: World) -> None:
    with pytest.raises(Unavailable):
        world.service.work_on(TRAIN)
    assert world.job(TRAIN).state is JobState.READY
    assert world.train_block(0) == (TENTH, 0)
    assert len(world.trainer.requests) == 0


def expect_published(world: World) -> None:
    world.clock.pass_(minutes=2)
    world.work()
    assert world.job(TRAIN).outcome is Outcome.PUBLISHED
    assert world.train_block(0) == (0, TENTH)
    assert len(world.trainer.requests) == 1
    assert world.service.keys.draft_ids() == ()
    assert world.notices() == []


def refuse(*_: object) -> None:
    raise Unavailable("the file system refuses to write (ENOSPC)")


def test_a_draft_whose_key_cannot_be_made_costs_nothing(
    reserved: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(reserved.service.keys, "draft_key", refuse)
        expect_put_off(reserved)
    expect_published(reserved)


def test_staging_that_takes_no_file_costs_nothing(reserved: World) -> None:
    place = Path(reserved.service.raw.url) / STAGING
    shutil.rmtree(place, ignore_errors=True)
    place.write_bytes(b"")  # no folder, as on a disk that takes nothing
    expect_put_off(reserved)
    place.unlink()
    expect_published(reserved)


@pytest.mark.parametrize("files", [{}, {"state.json": b"{"}, {"state.json": b"{}"}], ids=str)
def test_a_state_that_cannot_be_read_is_not_gone_on_from(
    world: World, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]
) -> None:
    world.register()
    world.publish(0)
    monkeypatch.setattr("ptkstore.application.training.train_ptk.state_files_of", lambda *_: files)
    world.publish(1)
    expect_begun_anew(world)


def expect_begun_anew(world: World) -> None:
    with world.service.begin() as uow:
        second = uow.versions.get(PTK, 2)
    assert [block["number"] // 128 for block in second.content["blocks"]] == [1]
    assert second.content["state"]["n_releases"] == 1
    assert world.trainer.requests[1].previous_state is None
    assert world.notices() == [(f"{PTK} version 2", "previous-state-unreadable")]
    assert world.train_block(1) == (0, TENTH)


@pytest.mark.long
@pytest.mark.parametrize("kept", [None, 0, 20], ids=["missing", "empty", "cut"])
@pytest.mark.parametrize("name", [MANIFEST, "*.parquet"])
def test_a_version_that_the_lake_lost_or_damaged_is_not_gone_on_from(
    world: World, name: str, kept: int | None
) -> None:
    world.register()
    world.publish(0)
    harm(world, name, kept)
    world.publish(1)
    expect_begun_anew(world)
    world.publish(2)
    with world.service.begin() as uow:
        third = uow.versions.get(PTK, 3)
    assert [block["number"] // 128 for block in third.content["blocks"]] == [1, 2]
    assert len(world.notices()) == 1


def harm(world: World, name: str, kept: int | None) -> None:
    """Cut a file of version 1 in the lake, or take it away."""
    (file,) = (Path(world.service.lake.manifest_url(PTK, 1).removeprefix("file://")).parent).glob(name)
    content = file.read_bytes()
    file.unlink()
    if kept is not None:
        file.write_bytes(content[:kept])


def test_a_lake_that_is_another_puts_a_training_off(world: World) -> None:
    world.register()
    world.publish(0)
    versions = Path(world.service.lake.manifest_url(PTK, 1).removeprefix("file://")).parents[2]
    away = versions.rename(versions.with_name("away"))
    expect_second_waits(world, "none of the versions")
    away.rename(versions)
    expect_gone_on_from(world)


def test_a_lake_that_does_not_answer_puts_a_training_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.register()
    world.publish(0)
    with monkeypatch.context() as patch:
        patch.setattr(world.service.lake, "read_version", refuse)
        expect_second_waits(world)
    expect_gone_on_from(world)


def expect_second_waits(world: World, says: str = "") -> None:
    """The second window's training spends nothing now."""
    world.ingest((1.5,))
    world.close(2)
    world.work("prepare", "allocate")
    with pytest.raises(Unavailable, match=says):
        world.service.work_on(f"train/{PTK}/1")
    assert world.train_block(1) == (TENTH, 0)


def expect_gone_on_from(world: World) -> None:
    """It is trained later, from the state of the first."""
    world.clock.pass_(minutes=2)
    world.work()
    assert world.trainer.requests[1].previous_state is not None
    assert world.notices() == []


def test_the_key_of_a_draft_goes_even_if_its_files_stay(
    reserved: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserved.steps.at["trained"] = lambda: reserved.service.deregister_ptk(PTK)
    monkeypatch.setattr(reserved.service.staging, "delete", refuse)
    with suppress(Unavailable):
        reserved.service.work_on(TRAIN)
    assert len(reserved.drafts()) == 1
    assert reserved.service.keys.draft_ids() == ()


def test_the_key_of_a_placed_draft_goes_even_if_its_files_stay(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.register()
    world.ingest()
    world.close(1)
    with monkeypatch.context() as patch:
        patch.setattr(world.service.staging, "delete", refuse)
        with pytest.raises(Unavailable):
            world.work()
        assert world.service.keys.draft_ids() == ()
    world.clock.pass_(minutes=2)
    world.work()
    assert world.drafts() == []
    assert [one.number for one in world.service.versions(PTK)] == [1]


def test_keys_of_all_drafts_go_with_their_window_even_if_files_stay(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.register()
    world.ingest()
    world.close(1)
    for name in ("a", "b"):
        world.service.keys.draft_key(f"taxi.0.{name}")
    world.service.close_windows(STREAM, ORIGIN + 3 * DAY, expire_unfinished=True)
    with monkeypatch.context() as patch:
        patch.setattr(world.service.raw, "delete_window", refuse)
        patch.setattr(world.service.staging, "delete", refuse)
        with pytest.raises(Unavailable):
            world.service.work_on("expire/taxi/0")
    assert world.service.keys.draft_ids() == ()


def test_keys_of_drafts_go_with_their_window_even_if_staging_cannot_be_listed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.register()
    world.ingest()
    world.close(1)
    staging, keys = world.service.staging, world.service.keys
    for draft_id in ("taxi.0.a", "taxi.1.b"):
        staging.write(draft_id, {"state.json": b"{}"}, keys.draft_key(draft_id))
    staging.write("taxi.0.c", {"state.json": b"{}"}, bytes(32))  # its key is gone
    world.service.close_windows(STREAM, ORIGIN + 3 * DAY, expire_unfinished=True)
    with monkeypatch.context() as patch:
        patch.setattr(staging, "drafts", refuse)
        with pytest.raises(Unavailable):
            world.service.work_on("expire/taxi/0")
        assert keys.draft_ids() == ("taxi.1.b",)
    assert world.job("expire/taxi/0").state is JobState.READY
    world.clock.pass_(minutes=2)
    world.service.work_on("expire/taxi/0")
    assert world.job("expire/taxi/0").outcome is Outcome.DONE
    assert staging.drafts() == ("taxi.1.b",)


@pytest.fixture
def merging(catalog_faults: Faults) -> Faults:
    """A training whose four partials are collected."""
    world = catalog_faults.world
    world.service.__dict__["settings"] = world.service.settings.model_copy(update={"rows_per_partial": 20})
    world.stream()
    world.register()
    world.ingest([i / 200 for i in range(160)])
    world.close(1)
    world.work("prepare", "allocate")
    assert world.service.work_on(TRAIN)
    world.work("partial")
    return catalog_faults


def expect_nothing_left(world: World, outcome: Outcome) -> None:
    assert (world.job(TRAIN).state, world.job(TRAIN).outcome) == (JobState.ENDED, outcome)
    assert world.drafts() == []
    assert world.service.keys.draft_ids() == ()


def test_partials_go_with_a_training_whose_end_nobody_heard(merging: Faults) -> None:
    world = merging.world

    def train(*_: Any) -> RunFailed:
        merging.unanswered(True)
        return RunFailed("memory-limit")

    world.trainer.train = train  # type: ignore[method-assign,assignment]
    assert world.service.work_on(TRAIN)
    expect_nothing_left(world, Outcome.FAILED)


def test_partials_go_with_a_training_that_ended_unheard_before_it_began_again(merging: Faults) -> None:
    world = merging.world
    with world.service.begin() as uow:
        uow.jobs.save(replace(uow.jobs.lock(TRAIN), attempt=MAX_ATTEMPTS))
        uow.commit()
    world.steps.at["claimed"] = lambda: merging.unanswered(True)
    assert world.service.work_on(TRAIN)
    expect_nothing_left(world, Outcome.FAILED)


def test_a_partial_that_staging_does_not_take_is_collected_again(split: World) -> None:
    world = split
    world.trainer.failing = RunFailed(STAGING_FAILED)
    with pytest.raises(Unavailable):
        world.work("partial")
    assert world.service.keys.draft_ids() == ()
    world.clock.pass_(minutes=2)
    world.work()
    assert len(world.trainer.collected) == 5
    expect_nothing_left(world, Outcome.PUBLISHED)
    assert world.train_block(0) == (0, TENTH)


def test_a_version_whose_name_may_not_last_is_made_to_before_its_draft_goes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.register()
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate", "train")
    place, create = world.service.lake._place, world.service.lake._place.create
    made = []

    def unsure(path: str, content: bytes) -> bool:
        made.append((Path(path).name, len(world.service.keys.draft_ids())))
        done = create(path, content)
        if path.endswith(MANIFEST) and len([name for name, _ in made if name == MANIFEST]) == 1:
            raise OutcomeUnknown("a crash may still undo it")
        return done

    monkeypatch.setattr(place, "create", unsure)
    with pytest.raises(OutcomeUnknown):
        world.work("place")
    world.clock.pass_(minutes=2)
    world.work()
    assert [one for one in made if one[0] == MANIFEST] == [(MANIFEST, 1), (MANIFEST, 1)]
    assert world.service.keys.draft_ids() == ()
    assert [one.number for one in world.service.versions(PTK)] == [1]
