"""Names are printed as they are: a `:key:` in one is no picture, brackets are no markup, and none steers a terminal."""

import ast
import json
import re
from dataclasses import replace
from typing import Any

import pytest
import typer
from rich.table import Table
from typer.testing import CliRunner

from ptkstore.cli.output import answers, console, loss_text, one_line, print_json, print_rows, said
from ptkstore.cli.service.catalog import catalog_app
from ptkstore.domain.audit import AuditEntry
from ptkstore.domain.notices import Notice
from ptkstore.domain.subscriptions import DeadLetter
from ptkstore.errors import Refused
from tests.support.command_line import Line
from tests.support.world import NOW, World

NAME = "etl:key:prod"
HOSTILE = "all is \x1b[2J\x1b[H\x1b]52;c;cm0gLXJmIH4=\x07well\x9b1A\u202e\u2066\r\nbudget: untouched [/b]"
PTK = "taxi.speed"
ENDPOINT = "redis-stream:heard"


@pytest.mark.parametrize(
    ("loss", "shown"),
    [
        (0.0, "0"),
        (0.1999961583, "0.199997"),
        (1.0, "1"),
        (0.1, "0.1"),
        (1e-6, "1e-06"),
        (1.00000049e-6, "1.00001e-06"),
        (12.3456701, "12.3457"),
        (float("inf"), "inf"),
    ],
)
def test_a_loss_is_shown_rounded_up(loss: float, shown: str) -> None:
    assert loss_text(loss) == shown


def test_names_in_lines_tables_and_errors_stay_as_they_are(capsys):
    console.print(f"[bold]role[/]: {NAME}")
    said.print(f"role {NAME}")
    print_rows([{NAME: f"{NAME} [bold]"}], as_json=False, title=NAME, nothing="")
    out, err = capsys.readouterr()
    assert [line.count(NAME) for line in out.splitlines() if NAME in line] == [1, 1, 1, 1]
    assert f"{NAME} [bold]" in out
    assert err == f"role {NAME}\n"


def test_an_error_names_what_was_asked_for():
    app = typer.Typer()

    @app.command()
    @answers
    def fail() -> None:
        raise Refused(f"no role {NAME} [/bold]")

    assert f"no role {NAME} [/bold]" in CliRunner().invoke(app).stderr


def test_a_path_with_brackets_is_told_whole(tmp_path):
    from ptkstore.adapters.sql import SqlCatalog

    home, copy = tmp_path / "home", tmp_path / "of[may]" / "a:key:.db"
    SqlCatalog(f"sqlite:///{home / 'catalog.db'}").close()
    copy.parent.mkdir()
    told = CliRunner().invoke(catalog_app, ["backup", str(copy), "--home", str(home)])
    assert told.stdout == f"the catalog was copied to {copy}\n"


def steers(text: str) -> str:
    """What of a printed text is more than characters and ends of lines."""
    return "".join(c for c in text if not c.isprintable() and c != "\n")


def test_no_print_hands_on_what_steers_a_terminal(capsys):
    table = Table(title=HOSTILE.replace("[/b]", ""))
    table.add_column(HOSTILE.replace("[/b]", ""))
    for way in (console, said):
        way.print(HOSTILE, markup=False)
        way.print(table, HOSTILE, markup=False)
        way.print(f"[bold]{one_line(HOSTILE)}[/]", highlight=False, soft_wrap=True)
    print_rows([{HOSTILE: HOSTILE}], as_json=False, title="", nothing="")
    out, err = capsys.readouterr()
    assert (steers(out), steers(err)) == ("", "")
    line = "all is ?[2J?[H?]52;c;cm0gLXJmIH4=?well?1A??  budget: untouched [/b]"
    assert one_line(HOSTILE) == line.replace("[/b]", "\\[/b]")
    assert line in out
    assert line in err
    print_json({"description": HOSTILE})
    assert json.loads(capsys.readouterr().out) == {"description": HOSTILE}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A store in which every text that others may write is hostile."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    world = World(tmp_path / "home")
    world.stream()
    world.register()
    with world.service.begin() as uow:  # as stores before this one took it
        uow.ptks.replace(replace(uow.ptks.get(PTK), description=HOSTILE))
        uow.commit()
    world.publish(0)
    world.publish(1)
    with world.service.begin() as uow:
        uow.notify_owner(Notice(NOW, "taxi", HOSTILE, ptk_id=PTK, text=f"{PTK} {HOSTILE}"))
        uow.notify_owner(Notice(NOW, "taxi", HOSTILE, "taxi", text=f"taxi {HOSTILE}"))
        uow.commit()
    yield world
    world.service.close()


def test_no_command_hands_on_what_others_wrote_to_steer_a_terminal(home, tmp_path, monkeypatch):
    ptk = Line(tmp_path / "home")
    subscribed = ptk.json("subscribe", PTK, "--endpoint", ENDPOINT)["id"]
    with home.service.begin() as uow:
        uow.subscriptions.add_dead_letter(DeadLetter(subscribed, 1, HOSTILE, NOW))
        uow.commit()
    hostile = AuditEntry(NOW, "r", "taxi", "", "ptk.update", HOSTILE, HOSTILE)
    monkeypatch.setattr("ptkstore.wiring.identity.Identity.audit_log", lambda *_, **__: (hostile,))
    asked = {
        ("show", PTK): 3,
        ("stream", "show", "taxi"): 2,
        ("notices",): 4,
        ("deliveries", subscribed): 1,
        ("audit-log",): 2,
        ("list",): 0,
        ("versions", PTK): 0,
        ("diff", PTK, "v1", "v2"): 0,
        ("lineage", PTK): 0,
        ("subscriptions",): 0,
        ("stream", "list"): 0,
        ("budget", "taxi"): 0,
        ("ledger", "verify"): 0,
    }
    for words, times in asked.items():
        printed = ptk.run(*words).stdout
        assert steers(printed) == "", words
        assert printed.count("cm0gLXJmIH4=") >= times, words
        assert not [line for line in printed.splitlines() if line.startswith("budget:")], words
        assert "cm0gLXJmIH4=" in json.dumps(ptk.json(*words)) or not times
    assert ptk.json("show", PTK)["description"] == HOSTILE


def test_commands_print_by_nothing_else(repository):
    """What is written past the two consoles is JSON, or a key that the service made."""
    prints = re.compile(r"(.*\.)?(print|echo|secho|log|Console)|sys\.std(out|err)\..*write.*|os\.write")
    found = set()
    for path in sorted((repository / "ptkstore" / "cli").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if prints.fullmatch(called) and called not in {"console.print", "said.print"}:
                found.add((path.name, called))
    assert found == {
        ("output.py", "sys.stdout.write"),
        ("lookups.py", "where.print"),  # one of the two consoles
        ("up.py", "where.print"),
        ("main.py", "typer.echo"),  # our own version
        ("lacking.py", "sys.stderr.write"),  # where Rich may be what is missing
        ("ledger.py", "(said if as_json else console).print"),
        ("ledger.py", "sys.stdout.write"),
        ("ledger.py", "sys.stdout.buffer.write"),
    }


def test_a_table_has_each_column_that_some_row_has(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [{"look": 1, "version": 7}, {"look": 2, "windows": [3, 4], "version": 8}]
    print_rows(rows, as_json=False, title="", nothing="")
    first, second = (line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if "│" in line)
    assert [cell.strip() for cell in first] == ["1", "7", ""]
    assert [cell.strip() for cell in second] == ["2", "8", "[3, 4]"]
