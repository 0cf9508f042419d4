"""Names are printed as they are: a `:key:` in one is no picture, and brackets are no markup."""

import typer
from typer.testing import CliRunner

from ptkstore.cli.catalog import catalog_app
from ptkstore.cli.output import answers, console, print_rows, said
from ptkstore.errors import Refused

NAME = "etl:key:prod"


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
