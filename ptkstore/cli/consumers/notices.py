"""The command that shows what owners are told."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from ptkstore.cli.output import AsJson, HomeOrUrl, answers, print_rows, reading


@answers
def notices(
    team: Annotated[str | None, typer.Option(help="Notices to this team alone.")] = None,
    since: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="Notices since then, in UTC."),
    ] = None,
    home: HomeOrUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show notices to owners, oldest first: how trainings ended, dead letters, disabled endpoints, refusals."""
    with reading(home) as store:
        rows = store.notices(team, None if since is None else since.isoformat() + "+00:00")
    print_rows(rows, as_json=as_json, title="Notices", nothing="no notices yet")
