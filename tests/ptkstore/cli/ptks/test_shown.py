"""`ptk show` for people: tables on a terminal, stable lines where it is piped."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ptkstore.cli import output
from ptkstore.cli.ptks import shown
from tests.support.command_line import Line
from tests.support.world import World

PTK = "taxi.speed"


@pytest.fixture
def line(tmp_path: Path) -> Line:
    world = World(tmp_path / "home")
    world.stream()
    world.register(config={"pinned": {"partition": 0}})
    world.publish(0)
    world.service.close()
    return Line(tmp_path / "home")


def test_piped_each_field_is_a_line(line: Line) -> None:
    told = line.run("show", PTK).stdout.splitlines()
    assert told[:6] == [
        "ptk: taxi.speed",
        "family: HistoricalStatistics",
        "description: ",
        "stream: taxi",
        "target: 0.1",
        "assurance: library",
    ]
    assert {'config.bounds: {"speed": [0.0, 60.0]}', 'config.pinned: {"partition": 0}'} <= set(told)
    assert {"newest.version: 1", "newest.epsilon: 0.1", "newest.assurance: library"} <= set(told)
    assert not any(text.startswith(("tau", "newest.event")) for text in told)
    assert line.json("show", PTK)["tau"] == line.json("show", PTK)["target"] == 0.1


def test_on_a_terminal_fields_are_tables(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = output._Terminal(force_terminal=True, width=100, file=screen, color_system=None)
    monkeypatch.setattr(shown, "console", terminal)
    line.run("show", PTK)
    drawn = screen.getvalue()
    assert "┌" in drawn
    for words in ("│ ptk ", "│ taxi.speed ", "Config", "Newest", "│ window end "):
        assert words in drawn
