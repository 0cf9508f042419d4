"""The command that shows notices to owners."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from ptkstore.cli.output import DATES, Rows, reads, utc
from ptkstore.domain.codes import NOTICE, RUN
from ptkstore.sdk import Store


@reads
def notices(
    store: Store,
    team: Annotated[str | None, typer.Option(help="Notices to this team alone.")] = None,
    since: Annotated[datetime | None, typer.Option(formats=DATES, help="Notices since then, in UTC.")] = None,
) -> Rows:
    """Show notices to owners, oldest first: how trainings ended, dead letters, disabled endpoints, refusals."""
    nothing = "no notices yet" if team is None and since is None else "no notices match"
    return Rows(store.notices(team, utc(since)), "Notices", nothing, (NOTICE, RUN))
