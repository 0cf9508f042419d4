"""Files that nobody can reach go; everything that anybody can reach, or that is not ours, stays."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ptkstore.application.operations import collect_garbage
from ptkstore.domain.jobs import JobKind
from ptkstore.errors import InvalidRequest
from tests.support.world import STREAM, World

WEEK = timedelta(days=7)


def lake(world: World) -> Path:
    return Path(world.service.settings.lake)


def raw(world: World) -> Path:
    return Path(world.service.settings.raw)


def age(*roots: Path, by: timedelta = 2 * WEEK) -> None:
    """Make every file as old as that."""
    then = time.time() - by.total_seconds()
    for root in roots:
        for path in root.rglob("*"):
            os.utime(path, (then, then))


def put(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def found(world: World, *, delete: bool = False) -> list[tuple[str, str, bool]]:
    return [(one.path, one.reason, one.kept) for one in world.service.garbage(WEEK, delete=delete)]


def test_a_store_in_use_holds_no_garbage_however_old(world: World) -> None:
    ptk_id = world.register()
    world.publish(0)
    world.ingest([1.5])
    world.publish(2)
    age(lake(world), raw(world))
    before = files(lake(world)), files(raw(world))
    assert found(world, delete=True) == []
    assert (files(lake(world)), files(raw(world))) == before
    assert world.service.lake.read_version(ptk_id, 1)


def test_leftovers_of_dead_writers_go_when_they_are_old_enough(world: World) -> None:
    ptk_id = world.register()
    world.publish(0)
    world.ingest([1.5])
    folder = lake(world) / "ptks" / ptk_id
    kept = files(lake(world)), files(raw(world))
    left = {
        put(folder / "v00000001" / "t-0.parquet"): "not-in-manifest",
        put(folder / "v00000001" / ".unfinished-00"): "not-in-manifest",
        put(folder / "v00000009" / "t-0.parquet"): "never-elected",
        put(raw(world) / STREAM / "1" / "batches" / "dead.parquet"): "never-committed",
    }
    assert found(world) == []  # young: their writers may be alive
    age(lake(world), raw(world))
    roots = (lake(world), raw(world))
    expected = {
        (str(path.relative_to(next(r for r in roots if path.is_relative_to(r)))), reason, False)
        for path, reason in left.items()
    }
    assert set(found(world)) == expected
    assert all(path.exists() for path in left)  # a look changes nothing
    assert set(found(world, delete=True)) == expected
    assert (files(lake(world)), files(raw(world))) == kept
    assert found(world, delete=True) == []


def test_files_of_expired_windows_go(world: World) -> None:
    world.ingest([0.5])
    for window in range(1, 5):
        world.close(window)
        world.work("prepare", "allocate", "expire")
    late = put(raw(world) / STREAM / "0" / "parts" / "0.parquet")
    age(raw(world))
    assert found(world, delete=True) == [(f"{STREAM}/0/parts/0.parquet", "expired-window", False)]
    assert not late.exists()


def test_an_elected_version_that_is_not_placed_yet_stays(world: World) -> None:
    ptk_id = world.register()
    world.ingest([0.5])
    world.close(1)
    world.work("prepare", "allocate", "train")
    (version,) = _elected(world, ptk_id)
    half = put(lake(world) / "ptks" / ptk_id / f"v{version:08d}" / "t-0.parquet")
    age(lake(world), raw(world))
    assert found(world, delete=True) == []
    assert half.exists()


def test_versions_that_the_catalog_has_forgotten_stay_for_a_recovery(world: World) -> None:
    ptk_id = world.register()
    world.publish(0)
    folder = lake(world) / "ptks" / ptk_id
    manifest = (folder / "v00000001" / "manifest.json").read_text()
    named = [p.name for p in (folder / "v00000001").iterdir() if p.name != "manifest.json"]
    for name in named:
        put(folder / "v00000002" / name, (folder / "v00000001" / name).read_bytes())
    put(folder / "v00000002" / "manifest.json", manifest.replace('"version":1', '"version":2').encode())
    age(lake(world))
    assert found(world, delete=True) == []


def test_what_is_not_ours_is_told_and_kept(world: World) -> None:
    ptk_id = world.register()
    world.publish(0)
    strange = [
        put(lake(world) / "notes.txt"),
        put(lake(world) / "ptks" / "No PTK" / "v00000001" / "a"),
        put(lake(world) / "ptks" / ptk_id / "v00000003" / "manifest.json", b"{}"),
        put(raw(world) / "other_stream" / "0" / "batches" / "a.parquet"),
        put(raw(world) / "notes.txt"),
    ]
    age(lake(world), raw(world))
    told = found(world, delete=True)
    assert {reason for _, reason, _ in told} == {"unknown-file"}
    assert all(kept for _, _, kept in told)
    assert len(told) == len(strange)
    assert all(path.exists() for path in strange)


def test_a_file_of_a_version_that_is_elected_and_placed_between_look_and_deletion_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ptk_id = world.register()
    world.publish(0)
    world.publish(1)
    folder = lake(world) / "ptks" / ptk_id
    (first,) = (path for path in (folder / "v00000001").iterdir() if path.name != "manifest.json")
    left = put(
        folder / "v00000003" / first.name, first.read_bytes()
    )  # of a rollback that died and was undone
    age(lake(world))
    look = collect_garbage.find_garbage

    def looking(*given: Any, **more: Any) -> tuple[collect_garbage.Garbage, ...]:
        seen = look(*given, **more)
        world.service.rollback_ptk(ptk_id, 1)
        world.work("place")
        return seen

    monkeypatch.setattr(collect_garbage, "find_garbage", looking)
    name = str(left.relative_to(lake(world)))
    assert found(world, delete=True) == [(name, "never-elected", False)]
    assert world.cursor(JobKind.PLACE, ptk_id).position == 3
    (_, files_of_third), (_, files_of_first) = (world.service.lake.read_version(ptk_id, n) for n in (3, 1))
    assert files_of_third == files_of_first


def test_less_than_an_hour_is_refused(world: World) -> None:
    with pytest.raises(InvalidRequest, match="one hour"):
        world.service.garbage(timedelta(minutes=59))


def _elected(world: World, ptk_id: str) -> list[int]:
    with world.service.begin() as uow:
        return [version.number for version in uow.versions.of(ptk_id)]
