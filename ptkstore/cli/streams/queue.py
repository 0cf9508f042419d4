"""The command that says who waits on an adaptive stream, and how earlier waits ended: `ptk queue`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ptkstore.cli.output import AsJson, print_json, print_rows, reads
from ptkstore.sdk import Store


@reads
def queue(
    store: Store,
    stream: str,
    ended: Annotated[
        bool, typer.Option("--ended", help="Say how waits ended instead, of the 60 that began last.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say which PTKs wait on an adaptive stream, since when and for what, or how earlier waits ended.

    `windows` counts those that a PTK has an allowance on. `largest_share` is its largest allowance on one of them, as a
    share of what a block may lose in all. With --json, each allowance and each verdict is there.
    """
    found = store.queue(stream, ended=ended)
    if as_json:
        print_json(found)
    elif ended:
        rows = [_ended(one) for one in found]
        print_rows(rows, as_json=False, title=f"Ended waits on {stream}", nothing="no wait has ended")
    else:
        rows = [_waiting(one) for one in found]
        print_rows(rows, as_json=False, title=f"Queue of {stream}", nothing="nobody waits")


def _waiting(one: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: one[name] for name in ("ptk_id", "since", "looks", "verdict", "waits_for")},
        "windows": len({share["window"] for share in one["allowances"]}),
        "largest_share": max((share["share"] for share in one["allowances"]), default=0.0),
    }


def _ended(one: dict[str, Any]) -> dict[str, Any]:
    verdicts = one["verdicts"]
    return {
        **{name: one[name] for name in ("ptk_id", "since", "until", "end")},
        "looks": len(verdicts),
        "verdict": verdicts[-1]["decision"] if verdicts else None,
    }
