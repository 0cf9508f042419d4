"""The command `ptk work`."""

from __future__ import annotations

from typing import Annotated

import typer

from ptkstore.cli.output import AsJson, Home, answers, console, counted, opened, print_json, progress


@answers
def work(
    at_once: Annotated[int, typer.Option(help="Trainings beside each other, each in its own process.")] = 1,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Do all due work in this process, once; `ptk up` does it for good."""
    with opened(home) as store, progress("looking for due work") as tell:
        done = store.service.work_until_idle(at_once, tell)
    if as_json:
        print_json({"jobs": done})
    else:
        console.print(f"{counted(done, 'job')} done")
