"""The command that plans a stream's rows: `ptk stream recommend`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ptkstore.cli.output import AsJson, console, counted, print_json, print_rows, reads
from ptkstore.errors import InvalidRequest
from ptkstore.sdk import Store
from ptkstore.sdk.counting import spoken


@reads
def recommend(
    store: Store,
    name: str,
    partitions: Annotated[
        int | None, typer.Option(help="The most train partitions; the number in the policy by default.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Write a chart here: .svg, .png or .pdf.", dir_okay=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recommend the rows and the window length that the PTKs of a stream need, planned as its windows are.

    Only public numbers go in: the policy, what PTKs declare, and what their profiles have released. Each point says
    how many rows a window's train partitions need together. It does so for a number of PTKs (against ptks), or for all
    of them at another capacity (against budget). `first_feasible_rows` are those of the least number of partitions with
    a plan.
    """
    from ptkstore.sdk.documents.recommendations import advice_document

    if figure is not None and figure.suffix not in (".svg", ".png", ".pdf"):
        raise InvalidRequest("--figure must end in .svg, .png or .pdf")
    advice = store.service.recommend_rows(name, partitions)
    if figure is not None:
        from ptkstore.cli.streams.row_charts import save_rows

        save_rows(advice.lines, advice.policy.rows_per_window, figure)
    document = advice_document(advice)
    lines = document.pop("lines")
    points = [
        {"line": line, "against": against, **{name: point[name] for name in point if name != "bound"}}
        for line, one in lines.items()
        for against in ("ptks", "budget")
        for point in one[f"by_{against}"]
    ]
    refusals = {line: one["refusal"] for line, one in lines.items() if one["refusal"]}
    if as_json:
        print_json({**document, "refusals": refusals, "points": points})
        return
    if figure is not None:
        console.print(f"{figure}: rows needed, drawn", markup=False)
    _print_points(points)
    for line, reason in refusals.items():
        console.print(escape(f"{line}: {reason}"))
    if advice.n_rows and advice.window is not None:
        least = spoken(advice.window.total_seconds(), most=2)
        window = spoken(advice.policy.window.total_seconds(), most=2)
        console.print(
            f"Recommended: {counted(advice.n_rows, 'row')} in all train partitions (N), so windows of at least "
            f"{least} (T), as the policy expects {counted(advice.policy.rows_per_window, 'row')} per {window}"
        )


def _print_points(points: list[dict[str, Any]]) -> None:
    """The table, and how to read it."""
    shown = [{**point, "rows": "no plan"} if point["rows"] is None else point for point in points]
    print_rows(shown, as_json=False, title="Rows needed", nothing="no PTK is registered yet")
    if points:
        console.print(
            "Each row answers one question. against ptks: the rows that the first 1, 2, ... PTKs of the line need at "
            "today's epsilon. against budget: the rows that all PTKs need, were the epsilon per block another.\n"
            "rows: the rows that a window needs in all its train partitions together. first_feasible_rows: the same "
            "with the least number of partitions that has a plan.",
            soft_wrap=True,
        )
    if any(point["rows"] is None for point in points):
        console.print(
            "no plan: no number of partitions was found with which so many PTKs keep their targets within this epsilon"
        )
