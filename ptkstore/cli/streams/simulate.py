"""The command that simulates a stream under other schedulers: `ptk simulate`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from ptkstore.cli.output import AsJson, console, counted, print_json, print_rows, progress, reads
from ptkstore.sdk import Store


@reads
def simulate(
    store: Store,
    stream: str,
    rate: Annotated[float, typer.Option(help="How many PTKs arrive per window, in the mean.")],
    windows: Annotated[int, typer.Option(help="How many windows are simulated.")] = 100,
    scheduler: Annotated[
        list[str] | None,
        typer.Option(
            help="conserve, aggressive, guided (these by default), arrival, dpf, dpack or budgeting; may be repeated."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The public seed that PTKs and times are drawn with.")] = 0,
    least_significance: Annotated[
        float | None, typer.Option(help="L of budgeting; by default that of the stream.")
    ] = None,
    most_significance: Annotated[
        float | None, typer.Option(help="U of budgeting; by default that of the stream.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say when the PTKs of a stream would be released under other schedulers.

    The stream's own PTKs arrive again, drawn at random. Only public numbers go in: the policy, what PTKs declare, and
    what their profiles and versions have released. Nothing is changed.
    """
    chosen = {} if scheduler is None else {"schedulers": scheduler}
    text = f"simulating {counted(windows, 'window')} of {stream}"
    with progress(text, steps=True) as tell:
        found = store.simulate(
            stream,
            rate=rate,
            windows=windows,
            seed=seed,
            least_significance=least_significance,
            most_significance=most_significance,
            tell=lambda done, total: tell(text, done, total),
            **chosen,
        )
    if as_json:
        print_json(found)
        return
    arrived = f"{counted(found['arrived'], 'PTK')} in {counted(windows, 'window')}"
    rows = [
        {name: "not released" if value is None else value for name, value in one.items()}
        for one in found["schedulers"]
        if found["arrived"]
    ]
    title = f"Simulation of {stream}, {arrived}"
    print_rows(rows, as_json=False, title=title, nothing=f"no PTK arrives: {arrived}")
    if found["without_menu"]:
        console.print(
            "Nothing is known of what these need, so their first look counts as accepted: "
            + escape(", ".join(found["without_menu"])),
            soft_wrap=True,
        )
    for one in found["refused"]:
        console.print(escape(f"refused by {one['scheduler']}: {one['reason']}"), soft_wrap=True)
