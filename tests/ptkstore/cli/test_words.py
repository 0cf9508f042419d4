"""Numbers, spans and progress as people read them."""

from __future__ import annotations

import inspect
import io
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import ptkstore
from ptkstore.adapters.sql.migrating import SqlCatalogSchema
from ptkstore.application.profiling.read_profile import ProfileView
from ptkstore.cli import output
from ptkstore.cli.commands import COMMANDS
from ptkstore.cli.lazily import load
from ptkstore.cli.main import app
from ptkstore.cli.output import counted, progress
from ptkstore.cli.ptks.profiles import _line
from ptkstore.cli.service import catalog
from ptkstore.domain.durations import duration, duration_text
from ptkstore.settings import CATALOG
from tests.support.command_line import CREATE, Line
from tests.support.local import local
from tests.support.waiting import until
from tests.support.world import trips


def plain(screen: io.StringIO) -> str:
    return re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())


@pytest.fixture
def ptk(tmp_path: Path) -> Line:
    line = Line(tmp_path / "home")
    line.run(*CREATE)
    return line


def test_one_thing_has_no_plural() -> None:
    assert [counted(n, "window") for n in (0, 1, 2)] == ["0 windows", "1 window", "2 windows"]
    assert [counted(n, "entry", "entries") for n in (0, 1)] == ["0 entries", "1 entry"]


def test_commands_count_so(ptk: Line, tmp_path: Path) -> None:
    pq.write_table(trips((0.5,)), tmp_path / "trips.parquet")
    assert "1 row accepted" in ptk.run("ingest", "taxi", str(tmp_path / "trips.parquet")).stdout
    assert ptk.run("close", "taxi", "--until", "2026-01-06").stdout == "1 window closed\n"
    assert ptk.run("close", "taxi", "--until", "2026-01-06").stdout == "0 windows closed\n"
    assert "taxi: 1 entry over 3 blocks" in ptk.run("ledger", "verify").stdout


@pytest.mark.parametrize("text", ["1d", "36h", "90m", "45s", "1h"])
def test_a_span_is_written_as_it_is_read(text: str) -> None:
    assert duration_text(duration(text)) == text


def test_no_span_is_zero_seconds() -> None:
    assert duration_text(timedelta()) == "0s"


def test_no_part_of_a_second_is_lost() -> None:
    assert duration_text(timedelta(seconds=1.5)) == "0:00:01.500000"


def test_streams_are_shown_with_such_spans(ptk: Line) -> None:
    (shown,) = ptk.json("stream", "list")
    assert (shown["window"], shown["lateness"]) == ("1d", "0s")
    assert "window: 1d\n" in ptk.run("stream", "show", "taxi").stdout


def test_work_tells_what_it_does(ptk: Line) -> None:
    ptk.run("close", "taxi", "--until", "2026-01-06")
    told: list[str] = []
    with ptkstore.connect(ptk.home) as store:
        done = local(store).work_until_idle(tell=told.append)
    begun = [text for text in told if not text.startswith("waiting")]
    assert len(begun) == done > 0
    assert begun[0].startswith("prepare/taxi")
    assert begun[0].endswith("(0 done)")


def test_progress_is_for_terminals(ptk: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ptk.run("work").stderr == ""
    screen = io.StringIO()
    monkeypatch.setattr(output, "said", output._Terminal(file=screen, force_terminal=True, width=80))
    with progress("looking") as tell:
        tell("prepare/taxi/0 [bold](1 done)")
    assert "prepare/taxi/0 [bold](1 done)" in screen.getvalue()


def test_progress_with_a_number_of_steps_says_how_many_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(output, "said", output._Terminal(file=screen, force_terminal=True, width=100))
    with progress("reading a.csv", 3) as tell:
        tell("storing [b].csv\x1b[2J", 2)
    told = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    assert "storing [b].csv?[2J" in told
    assert "2/3" in told
    assert "--:--" in told or re.search(r"\d\d:\d\d", told)


def test_a_total_may_change_while_steps_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(output, "said", output._Terminal(file=screen, force_terminal=True, width=100))
    with progress("training", 6000) as tell:
        tell("training", 1999, 3999)
    told = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    assert "1999/3999" in told


def test_a_backup_says_how_much_is_written_where_somebody_looks(
    ptk: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ptk.run("catalog", "backup", str(tmp_path / "quiet.db")).stderr == ""
    assert json.loads(ptk.run("catalog", "backup", str(tmp_path / "b.db"), "--json").stdout)["file"].endswith(
        "b.db"
    )
    screen = io.StringIO()
    terminal = output._Terminal(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr(output, "said", terminal)
    monkeypatch.setattr(catalog, "said", terminal)
    monkeypatch.setattr(catalog, "MEGABYTE", 1_000)
    monkeypatch.setattr(catalog, "LOOK_SECONDS", 0.001)
    copied = SqlCatalogSchema.copy_to
    size = (ptk.home / CATALOG).stat().st_size // 1_000

    def slowly(schema: SqlCatalogSchema, path: Path) -> None:
        copied(schema, path)
        until(lambda: f"{path.stat().st_size // 1_000}/{size}" in plain(screen))

    monkeypatch.setattr(SqlCatalogSchema, "copy_to", slowly)
    ptk.run("catalog", "backup", str(tmp_path / "c.db"))
    assert "copying the catalog to c.db, MB" in plain(screen)


def test_the_age_of_a_profile_is_counted_so_too() -> None:
    view = ProfileView("samples", (), state="answered", age=1, max_age=1)
    assert "answered, 1 of 1 window old" in _line(view)


def test_the_help_lists_commands_under_the_people_who_use_them() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120"}).output
    sections = dict(re.findall(r"^([A-Z][\w ]+):\n(.*?)(?:\n\n|\Z)", shown, re.DOTALL | re.MULTILINE))
    assert list(sections) == [
        "Options",
        "Everybody",
        "PTK developers",
        "Consumers",
        "Producers",
        "Privacy officers",
        "Administrators",
    ]
    assert "  lookup " in sections["Consumers"]
    assert "  ledger " in sections["Privacy officers"]


def _helps(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """Every text that a shell shows of a command and its options, by the words that show it."""
    yield name, (command.help or "").split("\n\n")[0]
    yield from ((name, getattr(one, "help", None) or "") for one in command.params)
    for word, one in getattr(command, "commands", {}).items():
        yield from _helps(one, f"{name} {word}")


def test_no_help_has_an_apostrophe() -> None:
    """The completion of zsh shows help without them."""
    told = [one for entries in COMMANDS.values() for name in entries for one in _helps(load(name), name)]
    assert len(told) > 100
    assert [(name, text) for name, text in told if "'" in text] == []


def _leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The commands that do something, by their words."""
    if not hasattr(command, "commands"):
        yield name, command
    for word, one in getattr(command, "commands", {}).items():
        yield from _leaves(one, f"{name} {word}")


def _opens_url(command: Any) -> bool:
    return command.__annotations__.get("store") == "Store" or "_store" in command.__code__.co_names


def test_the_help_of_exactly_the_commands_that_work_over_http_names_ptk_url() -> None:
    commands = dict(
        pair for entries in COMMANDS.values() for name in entries for pair in _leaves(load(name), name)
    )
    opens_url = {name for name, one in commands.items() if _opens_url(inspect.unwrap(one.callback))}
    assert {"list", "lineage", "stream show", "token list", "plan", "destroy"} <= opens_url
    runner = CliRunner()
    assert opens_url == {
        name for name in commands if "PTK_URL" in runner.invoke(app, [*name.split(), "--help"]).stdout
    }


@pytest.mark.parametrize("name", [name for entries in COMMANDS.values() for name in entries])
def test_the_help_says_of_a_command_what_the_command_says_of_itself(name: str) -> None:
    """The table of commands is all that `ptk --help` reads."""
    (entry,) = [entries[name] for entries in COMMANDS.values() if name in entries]
    assert (load(name).help or "").split("\n\n")[0].replace("\n", " ") == entry.summary
