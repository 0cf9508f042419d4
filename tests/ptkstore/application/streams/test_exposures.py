"""The exposure of several streams at once: as that of each alone, in as many statements as that of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ptkstore.adapters.sql.streams import SqlWindows
from ptkstore.application.streams import exposure as module
from ptkstore.application.streams.exposure import Exposure, exposures_of
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import Unavailable, UnknownName
from tests.support.device_streams import SCHEMA, device_policy
from tests.support.statements import counted
from tests.support.world import DAY, ORIGIN, STREAM, World, trips

NAMES = (STREAM, "bikes", "rides")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Three streams of which three windows have expired, and one whose rows stay on devices."""
    made = World(tmp_path / "home")
    for name in NAMES:
        made.stream(name, scheduler=Scheduler.ADAPTIVE if name == "bikes" else Scheduler.ALLOCATE)
        for day in range(5):
            made.service.ingest(name, trips((day + 0.5,)))
        made.service.close_windows(name, ORIGIN + 5 * DAY, expire_unfinished=True)
    made.work("prepare", "expire")
    made.service.create_stream(Stream("phones", "taxi", SCHEMA, device_policy()))
    yield made
    made.service.close()


def at_once(world: World, *names: str) -> dict[str, Exposure]:
    service = world.service
    streams = [one for one in service.streams() if one.name in (names or (*NAMES, "phones"))]
    return exposures_of(
        streams, service.ptks(), begin=service.read, clock=world.clock, private=service.private_places
    )


def leave_draft(world: World, stream: str, window: int, name: str = "a" * 32) -> str:
    draft = f"{stream}.{window}.{name}"
    world.service.staging.write(draft, {"state.json": b"{}"}, world.service.keys.draft_key(draft))
    return draft


def test_several_at_once_are_as_each_alone(world: World) -> None:
    world.register("several", stream="bikes", windows=(1, 2))
    world.service.close_windows(
        "rides", ORIGIN + 7 * DAY, expire_unfinished=True
    )  # nobody lets its windows expire
    leave_draft(world, STREAM, 1)
    found = at_once(world)
    assert found == {name: world.service.exposure(name) for name in (*NAMES, "phones")}
    assert {name: (one.holds, one.remains) for name, one in found.items()} == {
        STREAM: (False, (1,)),
        "bikes": (True, ()),
        "rides": (False, ()),
        "phones": (True, ()),
    }
    assert found["bikes"].most_windows == 2
    assert at_once(world, "none") == {}


def test_the_catalog_is_asked_as_often_for_all_as_for_one(world: World) -> None:
    with counted(world) as one:
        at_once(world, STREAM)
    with counted(world) as all_of_them:
        at_once(world)
    assert len(all_of_them) == len(one)


def test_windows_that_expired_are_not_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    kept = SqlWindows.kept
    monkeypatch.setattr(SqlWindows, "of", lambda *_: pytest.fail("all windows were read"))
    monkeypatch.setattr(
        SqlWindows, "kept", lambda *given: [read.append(len(found := kept(*given))), found][1]
    )
    exposure = world.service.exposure(STREAM)
    assert [one.window.id.index for one in exposure.kept] == [3, 4]
    assert read == [2]


@pytest.mark.parametrize("at_most", [200, 0])
def test_a_draft_that_was_elected_is_no_remainder(
    world: World, monkeypatch: pytest.MonkeyPatch, at_most: int
) -> None:
    monkeypatch.setattr(module, "ASKED_AT_ONCE", at_most)
    world.register(stream=STREAM)
    world.service.ingest(STREAM, trips((5.5,)))
    world.service.close_windows(STREAM, ORIGIN + 6 * DAY, expire_unfinished=True)
    world.work("prepare", "allocate", "train")
    with world.service.begin() as uow:
        (elected,) = uow.versions.draft_ids()
    world.service.close_windows(STREAM, ORIGIN + 9 * DAY, expire_unfinished=True)
    world.work("expire")
    assert elected in world.drafts()  # it waits for its place in the lake
    assert world.service.exposure(STREAM).holds
    leave_draft(world, STREAM, 5)
    assert world.service.exposure(STREAM).remains == (5,)


def test_files_of_windows_that_have_not_closed_and_of_other_streams_are_none(world: World) -> None:
    leave_draft(world, STREAM, 7)
    leave_draft(world, "bikes", 1)
    world.service.raw.write_part(WindowId("bikes", 0), 0, trips(), bytes(32))
    found = at_once(world)
    assert {name: one.remains for name, one in found.items() if one.remains} == {"bikes": (0, 1)}


def test_streams_whose_stores_are_away_are_left_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, windows = type(world.service.keys), type(world.service.keys).windows

    def away_for_one(store: object, stream: str) -> object:
        if stream == "bikes":
            raise Unavailable("the key store does not answer")
        return windows(store, stream)  # type: ignore[arg-type]

    monkeypatch.setattr(keys, "windows", away_for_one)
    assert sorted(at_once(world)) == ["phones", "rides", STREAM]

    def away(_: object) -> object:
        raise Unavailable("the staging does not answer")

    monkeypatch.setattr(type(world.service.staging), "drafts", away)
    assert sorted(at_once(world)) == ["phones"]  # of which no draft is private


def test_an_unknown_stream_has_no_exposure(world: World) -> None:
    with pytest.raises(UnknownName):
        world.service.exposure("none")
