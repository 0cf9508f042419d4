"""The command `ptk work`."""

from __future__ import annotations

from typing import Annotated

import typer

from ptkstore.cli.output import Done, counted, in_home, progress
from ptkstore.sdk.store import HomeStore


@in_home
def work(
    store: HomeStore,
    at_once: Annotated[
        int,
        typer.Option(
            help="Preparations and runs beside each other; each reads rows in a process of its own."
        ),
    ] = 1,
) -> Done:
    """Do all due work on this machine, then end; `ptk up` does it for good.

    It waits for work that others do and for the next publish tick. It closes no window: the schedule of `ptk up` and
    `ptk close` do. It does not retry a delivery that failed.
    """
    with progress("looking for due work") as tell:
        done = store.service.work_until_idle(at_once, tell)
    return Done({"jobs": done}, f"{counted(done, 'job')} done")
