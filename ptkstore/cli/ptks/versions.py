"""Commands about published versions: what differs between two, back to an older one, online again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ptkstore.cli.output import (
    AsJson,
    Done,
    console,
    counted,
    in_home,
    one_line,
    print_json,
    print_rows,
    reads,
)
from ptkstore.cli.tables import minute
from ptkstore.errors import InvalidRequest
from ptkstore.sdk import Store
from ptkstore.sdk.store import HomeStore

if TYPE_CHECKING:
    from ptkstore.application.states.diff_versions import ColumnDiff


@reads
def diff(
    store: Store,
    ptk_id: str,
    one: Annotated[str, typer.Argument(metavar="V1", help="A version, as 1 or v1.")],
    other: Annotated[str, typer.Argument(metavar="V2", help="Another one.")],
    as_json: AsJson = False,
) -> None:
    """Show what differs between two published versions of a PTK."""
    difference = store.diff(ptk_id, version_number(one), version_number(other))
    if as_json:
        print_json(asdict(difference))
        return
    facts = [
        {
            "fact": "target" if name == "tau" else name,
            f"v{difference.versions[0]}": _fact(before),
            f"v{difference.versions[1]}": _fact(after),
        }
        for name, (before, after) in difference.facts.items()
    ]
    print_rows(facts, as_json=False, title=f"{ptk_id}: manifests", nothing="the manifests promise the same")
    for table in difference.tables:
        console.print(
            f"{one_line(table.table)}: {counted(table.n_added, 'row')} added, "
            f"{table.n_dropped} dropped, {table.n_kept} kept",
            highlight=False,
        )
        for names, word in ((table.columns_added, "new"), (table.columns_dropped, "dropped")):
            if names:
                console.print(f"  {word} columns: {one_line(', '.join(names))}", highlight=False)
        rows = [_column(column, difference.versions) for column in table.columns]
        told = {name for row in rows for name, value in row.items() if value is not None}
        rows = [{name: value for name, value in row.items() if name in told} for row in rows]
        print_rows(rows, as_json=False, title="", nothing="  no column in common but the keys")


def _column(column: ColumnDiff, numbers: Sequence[int]) -> dict[str, Any]:
    """What changed in a column, beside its noise: without that nobody sees which changes say anything."""
    row = asdict(column)
    noises = zip(numbers, row.pop("noise"), strict=True)
    return row | {f"noise_v{number}": None if ends is None else _ends(*ends) for number, ends in noises}


def _ends(least: float, most: float) -> float | str:
    """One number where all rows have the same noise."""
    return most if least == most else f"{least:.3g} to {most:.3g}"


def _fact(value: object) -> str:
    """A fact of a manifest; a window by its number and its days."""
    if isinstance(value, Mapping) and set(value) == {"index", "start", "end"}:
        return f"window {value['index']}, {minute(value['start'])} to {minute(value['end'])}"
    return str(value)


@in_home
def rollback(
    store: HomeStore,
    ptk_id: str,
    to: Annotated[str, typer.Option(help="The version to go back to, as 1 or v1.")],
) -> Done:
    """Publish an older version again as the newest one; it costs no budget."""
    number = version_number(to)
    version = store.rollback(ptk_id, number)
    text = f"{ptk_id} v{version} repeats v{number}; workers publish it and tell the subscribers"
    return Done({"ptk": ptk_id, "version": version, "repeats": number}, text, highlight=False)


@in_home
def materialize(store: HomeStore, ptk_id: str) -> Done:
    """Write the rows of the newest version online again, after the online store lost them; it costs no budget."""
    version = store.materialize(ptk_id)
    text = f"workers write {ptk_id} v{version} online again"
    return Done({"ptk": ptk_id, "version": version}, text, highlight=False)


def version_number(text: str) -> int:
    """Read the number in `3` or `v3`."""
    digits = text.removeprefix("v")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 10):
        raise InvalidRequest(f"{text!r} is no version; write 3 or v3")
    return int(digits)
