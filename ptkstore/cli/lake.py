"""Commands about files: what nobody can reach any more, and where a state comes from."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ptkstore.application.collect_garbage import USUAL_AGE
from ptkstore.cli.output import AsJson, Home, answers, console, opened, print_rows
from ptkstore.cli.versions import version_number
from ptkstore.domain.ptks import duration

lake_app = typer.Typer(no_args_is_help=True, help="Files of lake and raw zone.")


@lake_app.command("garbage")
@answers
def garbage(
    older_than: Annotated[
        str, typer.Option(help="Only files of at least this age, for example 12h or 7d.")
    ] = f"{USUAL_AGE.days}d",
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete them; without it nothing changes.")
    ] = False,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Show, or delete, files that nobody can reach: of writers that died, and of windows that have expired.

    Files that are marked as kept are not the service's own or cannot be read; they stay.
    """
    with opened(home) as store:
        found = store.service.garbage(duration(older_than), delete=delete)
    rows = [asdict(one) for one in found]
    print_rows(rows, as_json=as_json, title="Garbage", nothing="nothing that could go")
    if not as_json and rows:
        count = sum(not one.kept for one in found)
        console.print(f"{count} files {'deleted' if delete else 'would be deleted; add --delete'}")


@answers
def lineage(
    ptk_id: str,
    version: Annotated[str | None, typer.Option(help="As 3 or v3; the newest otherwise.")] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Show the versions whose states went into one, of whatever PTK, back to the first trainings."""
    number = None if version is None else version_number(version)
    with opened(home) as store:
        found = store.lineage(ptk_id, number)
    rows = [{**asdict(one), "made_from": ", ".join(one.made_from)} for one in found]
    if as_json:
        rows = [asdict(one) for one in found]
    print_rows(rows, as_json=as_json, title=f"Lineage of {ptk_id}", nothing="nothing is published yet")
