"""The command `ptk demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ptkstore.cli.output import AsJson, Home, answers, print_json


@answers
def demo(
    data: Annotated[
        Path | None, typer.Option(help="Parquet file of TLC trips; generated trips otherwise.")
    ] = None,
    home: Home = None,
    report: Annotated[
        Path | None, typer.Option(help="Report JSON, with a page beside it; outside the home.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=60, help="How many days, one window each.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Run the main job end to end on real parts: trips in, private features out, looked up through Feast."""
    from ptkstore.cli.demo.run import run_demo

    made = run_demo(data, home, report, days, quiet=as_json)
    if as_json:
        print_json(made.to_json())
