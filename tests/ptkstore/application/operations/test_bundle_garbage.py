"""Bundles of team code: a team keeps so many, and those that nothing needs any more go."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ptkstore.application.operations import bundle_garbage
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.ptks.bundles import sha256_of
from ptkstore.domain.versions.versions import Version
from ptkstore.errors import OutcomeUnknown, Refused, Unavailable, UnknownName
from ptkstore.ports.row_processes import RunFailed
from tests.support.team_code import GOOD, Inspector, bundle_with, described
from tests.support.world import DAY, NOW, ORIGIN, World, trips

WEEK = timedelta(days=7)
FIRST, SECOND, THIRD = (bundle_with(GOOD + f"# {number}\n") for number in range(3))
A, B, C = map(sha256_of, (FIRST, SECOND, THIRD))
SECOND_GOES_FIRST = B < A


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home", bundles_per_team=2)
    made.service.__dict__["sandbox"] = Inspector()
    made.stream("open", minimum_assurance=Assurance.ASSERTED)
    yield made
    made.service.close()


def age(world: World, by: timedelta = 2 * WEEK) -> None:
    then = time.time() - by.total_seconds()
    for path in Path(world.service.settings.lake).rglob("*"):
        os.utime(path, (then, then))


def files(world: World) -> set[str]:
    root = Path(world.service.settings.lake)
    return {str(p.relative_to(root)) for p in (root / "bundles").rglob("*") if p.is_file()}


def of(sha256: str, bundle: bytes, *teams: str) -> set[str]:
    return {f"bundles/{sha256}.tar", *(f"bundles/teams/{team}/{sha256}-{len(bundle)}" for team in teams)}


def put(world: World, bundle: bytes, team: str = "taxi") -> None:
    world.service.put_bundle(bundle, team=team)


def collect(world: World) -> set[str]:
    found = world.service.garbage(WEEK, delete=True)
    assert all(one.reason == "code-not-needed" and not one.kept for one in found)
    return {one.path for one in found}


def register(world: World, bundle: bytes) -> str:
    put(world, bundle)
    return world.register("trips", stream="open", estimator=described(bundle))


def manifest(ptk_id: str, number: int, bundle: bytes) -> str:
    content: dict[str, Any] = {
        "format_version": 1,
        "ptk_id": ptk_id,
        "version": number,
        "files": [],
        "config": described(bundle),
    }
    return json.dumps(content)


def test_a_team_keeps_so_many_and_another_team_its_own(world: World) -> None:
    put(world, FIRST)
    put(world, SECOND)
    with pytest.raises(Refused, match=r"'taxi' may keep 2 bundles of 104857600 bytes .* ptk lake garbage"):
        put(world, THIRD)
    assert files(world) == of(A, FIRST, "taxi") | of(B, SECOND, "taxi")  # nothing of the refused one is left
    put(world, FIRST)  # what is kept may come again
    put(world, THIRD, "ads")
    put(world, SECOND, "ads")
    assert files(world) == of(A, FIRST, "taxi") | of(B, SECOND, "taxi", "ads") | of(C, THIRD, "ads")


def test_a_team_keeps_so_many_bytes(tmp_path: Path) -> None:
    world = World(tmp_path / "home", bundle_mib_per_team=1)
    large = [bundle_with(f"# {number}\n" + "#" * 600_000) for number in range(2)]
    put(world, large[0])
    with pytest.raises(Refused, match="500 bundles of 1048576 bytes"):
        put(world, large[1])
    assert files(world) == of(sha256_of(large[0]), large[0], "taxi")
    world.service.close()


def test_of_uploads_at_once_no_more_are_kept_than_a_team_may(world: World) -> None:
    many = [bundle_with(f"# {number}\n") for number in range(12)]
    with ThreadPoolExecutor(12) as pool:
        ended = [pool.submit(put, world, one) for one in many]
    refused = [one.exception() for one in ended if one.exception() is not None]
    assert all(isinstance(error, Refused) for error in refused)
    assert len(refused) >= 10
    assert len([path for path in files(world) if path.endswith(".tar")]) == 12 - len(refused)


def test_uploads_that_no_ptk_names_go_once_they_are_old_and_leave_room(world: World) -> None:
    put(world, FIRST)
    put(world, SECOND, "ads")
    assert collect(world) == set()  # young: a registration may be on its way
    age(world)
    assert world.service.garbage(WEEK) != ()
    assert files(world) == of(A, FIRST, "taxi") | of(B, SECOND, "ads")  # a look changes nothing
    assert collect(world) == of(A, FIRST, "taxi") | of(B, SECOND, "ads")
    assert files(world) == set()
    put(world, SECOND)
    put(world, THIRD)


def test_a_bundle_that_comes_again_is_young_again(world: World) -> None:
    put(world, FIRST)
    age(world)
    put(world, FIRST)
    assert collect(world) == set()


def test_what_a_ptk_is_registered_with_stays_and_what_it_had_before_goes(world: World) -> None:
    ptk_id = register(world, FIRST)
    age(world)
    assert collect(world) == set()
    put(world, SECOND)
    world.service.update_ptk(ptk_id, estimator=described(SECOND))
    age(world)
    assert collect(world) == of(A, FIRST, "taxi")
    world.service.deregister_ptk(ptk_id)
    age(world)
    assert collect(world) == of(B, SECOND, "taxi")


def test_what_a_version_was_made_with_stays(world: World) -> None:
    ptk_id = register(world, SECOND)
    put(world, FIRST)
    with world.service.begin() as uow:
        text = manifest(ptk_id, 1, FIRST)
        uow.versions.add(Version(ptk_id, 1, f"place/{ptk_id}", "draft", 0, NOW, text))
        uow.commit()
    world.service.deregister_ptk(ptk_id)
    age(world)
    assert collect(world) == of(B, SECOND, "taxi")
    assert world.service.bundles.get(A) == FIRST


def test_what_a_version_that_the_catalog_has_forgotten_was_made_with_stays(world: World) -> None:
    put(world, FIRST)
    put(world, SECOND)
    folder = Path(world.service.settings.lake) / "ptks" / "taxi.lost" / "v00000001"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(manifest("taxi.lost", 1, FIRST))
    age(world)
    assert collect(world) == of(B, SECOND, "taxi")
    put(world, SECOND)
    (folder / "manifest.json").write_text("{}")  # nobody knows what it needs
    age(world)
    kept = world.service.garbage(WEEK, delete=True)
    assert [(one.path, one.kept) for one in kept] == [("ptks/taxi.lost/v00000001/manifest.json", True)]
    assert files(world) == of(A, FIRST, "taxi") | of(B, SECOND, "taxi")


def test_while_a_training_is_under_way_its_teams_code_stays_whatever_is_registered_now(world: World) -> None:
    ptk_id = register(world, FIRST)
    put(world, THIRD, "ads")
    seen: list[set[str]] = []

    def meanwhile() -> None:
        put(world, SECOND)
        world.service.update_ptk(ptk_id, estimator=described(SECOND))
        age(world)
        seen.append(collect(world))

    world.service.ingest("open", trips((0.5, 0.6)))
    world.service.close_windows("open", ORIGIN + DAY)
    world.trainer.meanwhile = meanwhile
    world.trainer.failing = RunFailed("team-code-failed")
    world.work()
    assert seen == [of(C, THIRD, "ads")]
    assert world.service.bundles.get(A) == FIRST


def test_a_bundle_that_is_registered_while_garbage_is_collected_is_there_afterwards(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world, FIRST)
    age(world)
    remove = type(world.service.lake).remove

    def removing(lake: Any, path: str) -> None:
        if path.endswith(".tar"):
            monkeypatch.setattr(type(world.service.lake), "remove", remove)
            world.register("trips", stream="open", estimator=described(FIRST))
            age(world)
        remove(lake, path)

    monkeypatch.setattr(type(world.service.lake), "remove", removing)
    world.service.garbage(WEEK, delete=True)
    assert world.service.bundles.get(A) == FIRST
    assert files(world) == of(A, FIRST, "taxi")


def test_a_bundle_that_goes_while_it_is_examined_is_there_once_it_is_registered(world: World) -> None:
    put(world, FIRST)
    inspector: Any = world.service.sandbox

    def check() -> None:
        age(world)
        collect(world)
        with pytest.raises(UnknownName):
            world.service.bundles.get(A)

    inspector.check = check
    world.register("trips", stream="open", estimator=described(FIRST))
    assert world.service.bundles.get(A) == FIRST


def test_a_bundle_that_comes_again_while_another_goes_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bundle in (FIRST, SECOND):
        put(world, bundle)
    age(world)
    remove = type(world.service.lake).remove
    gone: list[str] = []

    def removing(lake: Any, path: str) -> None:
        if not gone:
            put(world, FIRST if SECOND_GOES_FIRST else SECOND)
        gone.append(path)
        remove(lake, path)

    monkeypatch.setattr(type(world.service.lake), "remove", removing)
    world.service.garbage(WEEK, delete=True)
    assert gone[0] == f"bundles/{min(A, B)}.tar"
    later, bundle = (A, FIRST) if SECOND_GOES_FIRST else (B, SECOND)
    assert files(world) == of(later, bundle, "taxi")


def test_code_that_is_registered_while_one_archive_goes_outlives_what_breaks_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world, FIRST)
    age(world)
    remove = type(world.service.lake).remove

    def removing(lake: Any, path: str) -> None:
        monkeypatch.setattr(type(world.service.lake), "remove", remove)
        world.register("trips", stream="open", estimator=described(FIRST))
        remove(lake, path)
        raise OutcomeUnknown("no answer came")

    monkeypatch.setattr(type(world.service.lake), "remove", removing)
    with pytest.raises(OutcomeUnknown):
        world.service.garbage(WEEK, delete=True)
    assert world.service.bundles.get(A) == FIRST


def test_an_archive_comes_back_where_the_catalog_does_not_say_whether_it_is_needed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world, FIRST)
    age(world)
    remove = type(world.service.lake).remove

    def no_answer(*_: Any, **__: Any) -> Any:
        raise Unavailable("the catalog does not answer")

    def removing(lake: Any, path: str) -> None:
        remove(lake, path)
        monkeypatch.setattr(type(world.service.catalog), "_begin", no_answer)

    monkeypatch.setattr(type(world.service.lake), "remove", removing)
    with pytest.raises(Unavailable):
        world.service.garbage(WEEK, delete=True)
    assert world.service.bundles.get(A) == FIRST


def test_a_collection_of_code_keeps_no_writer_waiting_and_reads_a_forgotten_version_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for team, bundle in (("taxi", FIRST), ("taxi", SECOND), ("ads", THIRD)):
        put(world, bundle, team)
    folder = Path(world.service.settings.lake) / "ptks" / "taxi.lost" / "v00000001"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(manifest("taxi.lost", 1, FIRST))
    age(world)
    read: list[str] = []
    manifest_of = type(world.service.lake).manifest

    def reading(lake: Any, ptk_id: str, number: int) -> Any:
        read.append(ptk_id)
        return manifest_of(lake, ptk_id, number)

    begin = type(world.service.catalog).begin

    def beginning(catalog: Any, *, reads: bool = False) -> Any:
        assert reads
        return begin(catalog, reads=reads)  # type: ignore[call-arg]

    monkeypatch.setattr(type(world.service.lake), "manifest", reading)
    monkeypatch.setattr(type(world.service.catalog), "begin", beginning)
    found = {f"bundles/{sha256}.tar" for sha256 in (B, C)}
    assert {one.path for one in world.service.garbage(WEEK) if one.path.endswith(".tar")} == found
    read.clear()
    bundle_garbage.remove(
        sorted(found), WEEK.total_seconds(), world.service.read, world.service.lake, world.service.bundles
    )
    assert read == ["taxi.lost"]
    assert world.service.bundles.get(A) == FIRST
    assert not found & files(world)


def test_what_dead_uploads_claimed_blocks_nobody_for_long(world: World) -> None:
    for bundle in (FIRST, SECOND):
        world.service.bundles.claim("taxi", sha256_of(bundle), len(bundle))
    with pytest.raises(Refused):  # they may be on their way
        put(world, THIRD)
    age(world, timedelta(minutes=16))
    put(world, THIRD)
    assert files(world) == of(C, THIRD, "taxi")


def test_what_a_dead_upload_claimed_is_nothing_that_a_team_keeps(world: World) -> None:
    put(world, FIRST)
    put(world, SECOND)
    world.service.bundles.claim("taxi", C, len(THIRD))
    age(world, timedelta(minutes=16))
    with pytest.raises(Refused):
        put(world, THIRD)
    assert files(world) == of(A, FIRST, "taxi") | of(B, SECOND, "taxi")


def test_what_a_team_keeps_may_come_again_also_beyond_its_quota(world: World) -> None:
    for bundle in (FIRST, SECOND):
        put(world, bundle)
    age(world)
    world.service.settings.__dict__["bundles_per_team"] = 1
    put(world, FIRST)
    with pytest.raises(Refused):
        put(world, THIRD)
    assert world.service.bundles.age(A) < WEEK.total_seconds() < world.service.bundles.age(B)


def test_many_bundles_go_at_once(world: World) -> None:
    for team, bundle in (("taxi", FIRST), ("taxi", SECOND), ("ads", THIRD)):
        put(world, bundle, team)
    age(world)
    assert len(collect(world)) == 6
    assert files(world) == set()


def test_the_probe_of_the_lake_is_the_services_own(world: World) -> None:
    world.service.lake.check_writable()
    age(world)
    assert collect(world) == set()
