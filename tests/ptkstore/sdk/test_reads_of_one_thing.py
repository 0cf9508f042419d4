"""A read of one stream, PTK or version asks for that one, however many others there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Never

import pytest

from ptkstore import errors as e
from ptkstore.adapters.sql.jobs.jobs import SqlJobs
from ptkstore.adapters.sql.ptks.ptks import SqlPtks
from ptkstore.adapters.sql.streams import SqlStreams
from ptkstore.cli.consumers.lookups import _selection
from ptkstore.cli.streams.rows import columns_of
from ptkstore.console.pages.pages import Pages
from ptkstore.domain.identity import Principal, Role
from ptkstore.sdk import Store
from ptkstore.wiring.identity import Identity
from tests.support.command_line import Line
from tests.support.world import World

PTK = "taxi.speed"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path / "home")
    made.stream()
    made.register()
    made.publish(0)
    for kind, name in ((SqlStreams, "all"), (SqlJobs, "placed")):
        monkeypatch.setattr(kind, name, listed)
    find = SqlPtks.find

    def found_of_a_team(*which: Any, team: str | None = None, **more: Any) -> Any:
        return listed() if team is None else find(*which, team=team, **more)

    monkeypatch.setattr(SqlPtks, "find", found_of_a_team)
    return made


def listed(*_: object, **__: object) -> Never:
    raise AssertionError("everything was listed")


def test_the_client_reads_one_thing(world: World) -> None:
    store = Store(world.service)
    assert store.ptk(PTK).version == 1
    assert len(store.budget("taxi")) == len(store.budget("taxi", tight=True)) > 0
    assert columns_of(store, "taxi")["speed"].value == "float64"
    assert world.service.version(PTK, 1).content["ptk_id"] == PTK
    assert world.service.newest_version("taxi.other") == 0
    assert [_selection(text, store).view for text in (PTK, "taxi__speed", "ptk_state:version")] == [
        "taxi__speed",
        "taxi__speed",
        "ptk_state",
    ]


@pytest.mark.parametrize(
    "ask", [lambda s: s.stream("tax"), lambda s: s.ptk("taxi.spee"), lambda s: s.version(PTK, 9)]
)
def test_what_is_not_there_is_unknown(world: World, ask) -> None:
    with pytest.raises(e.UnknownName):
        ask(world.service)


def test_commands_and_the_console_read_one_thing(world: World, tmp_path: Path) -> None:
    world.service.close()
    line = Line(tmp_path / "home")
    assert line.json("show", PTK)["newest"]["version"] == 1
    pages = Pages(world.service, Identity(world.service), lambda: ({}, ()), lambda: True)
    who = Principal("taxi", "x", frozenset(Role))
    assert pages.ptk(who, PTK)["ptk"]["ptk_id"] == PTK
