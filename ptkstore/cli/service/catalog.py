"""Commands about the catalog's schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ptkstore.cli.output import (
    REFUSED,
    AsJson,
    Done,
    Home,
    answers,
    check_home,
    console,
    print_json,
    progress,
    said,
)
from ptkstore.ports.operations import SchemaState
from ptkstore.settings import CATALOG, Settings

if TYPE_CHECKING:
    from ptkstore.wiring import Service

MEGABYTE = 1_000_000
LOOK_SECONDS = 0.5

catalog_app = typer.Typer(no_args_is_help=True, help="The schema of the catalog, and its upgrades.")


@catalog_app.command("status")
@answers
def status(home: Home = None, as_json: AsJson = False) -> None:
    """Show the schema of the catalog, the one that this program needs, and the upgrades between them."""
    with closing(_service(home)) as service:
        _tell(service.catalog_schema.state(), as_json=as_json)


@catalog_app.command("upgrade")
@answers
def upgrade(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit code 1 if an upgrade is needed.")
    ] = False,
    backed_up: Annotated[
        bool, typer.Option("--backed-up", help="A copy of the catalog exists; PostgreSQL needs this said.")
    ] = False,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Bring the catalog to the schema of this program, in one transaction.

    Stop all processes first: while a job is being worked on, this is refused. A SQLite catalog is copied to backups/
    beside it. There is no way back but that copy.
    """
    with closing(_service(home)) as service:
        if check:
            state = service.catalog_schema.state()
            _tell(state, as_json=as_json)
            if not state.up_to_date:
                raise typer.Exit(REFUSED)
            return
        text = "copying and upgrading the catalog"
        with progress(text, steps=True) as tell:
            done = service.upgrade_catalog(
                backed_up=backed_up, tell=lambda number, total: tell(text, number, total)
            )
    copy = None if done.copy is None else str(done.copy)
    if as_json:
        print_json(
            {"from": done.before.current, "to": done.before.needed, "copy": copy, "done": done.before.pending}
        )
    elif done.before.up_to_date:
        console.print(f"the catalog has schema {done.before.needed} already")
    else:
        console.print(f"upgraded from schema {done.before.current} to {done.before.needed}")
        if copy:
            console.print(f"the catalog of before: {escape(copy)}", soft_wrap=True)


@catalog_app.command("backup")
@answers
def backup(
    file: Annotated[Path, typer.Argument(help="The new file to write.")],
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Copy a SQLite catalog to a new file, also while the service runs; for PostgreSQL use pg_dump.

    The copy has no keys. Never keep keys beside it.
    """
    with closing(_service(home)) as service, _growing(file, service.settings):
        service.catalog_schema.copy_to(file.absolute())
    text = f"the catalog was copied to {escape(str(file))}"
    Done({"file": str(file)}, text, soft_wrap=True).show(as_json=as_json)


@contextmanager
def _growing(file: Path, settings: Settings) -> Iterator[None]:
    """Show how much of a copy is written, as far as the file beside the catalog tells."""
    catalog = settings.root / CATALOG
    whole = catalog.stat().st_size if settings.database_url is None else 0
    text, ended = f"copying the catalog to {file.name}, MB", Event()
    with progress(text, max(1, whole // MEGABYTE) if whole else None) as tell:

        def look() -> None:
            while not ended.wait(LOOK_SECONDS):
                with suppress(OSError):
                    tell(text, file.stat().st_size // MEGABYTE)

        watching = Thread(target=look, daemon=True)
        if said.is_terminal:
            watching.start()
        try:
            yield
        finally:
            ended.set()
            if watching.ident is not None:
                watching.join()


def _service(home: Path | None) -> Service:
    """A service whose catalog may be of a schema that no other command opens."""
    from ptkstore.wiring import LocalService

    return LocalService(check_home(home))


def _tell(state: SchemaState, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "schema": state.current,
                "needed": state.needed,
                "up_to_date": state.up_to_date,
                "pending": state.pending,
            }
        )
        return
    text = "there is no catalog yet" if state.current is None else f"the catalog has schema {state.current}"
    console.print(f"{text}; this program needs {state.needed}")
    for one in state.pending:
        console.print(f"  upgrade {one}")
    if state.pending:
        console.print("stop all processes of the service, then run: ptk catalog upgrade")
