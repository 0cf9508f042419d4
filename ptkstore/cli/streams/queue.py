"""The command that says who waits on an adaptive stream: `ptk queue`."""

from __future__ import annotations

from ptkstore.cli.output import AsJson, print_json, print_rows, reads
from ptkstore.sdk import Store


@reads
def queue(store: Store, stream: str, as_json: AsJson = False) -> None:
    """Say which PTKs wait on an adaptive stream, since when, with which allowances, and for what.

    `windows` counts those that a PTK has an allowance on. `largest_share` is its largest allowance on one of them, as a
    share of what a block may lose in all. With --json, each allowance is there.
    """
    waiting = store.queue(stream)
    if as_json:
        print_json(waiting)
        return
    rows = [
        {
            **{name: one[name] for name in ("ptk_id", "since", "looks", "verdict", "waits_for")},
            "windows": len({share["window"] for share in one["allowances"]}),
            "largest_share": max((share["share"] for share in one["allowances"]), default=0.0),
        }
        for one in waiting
    ]
    print_rows(rows, as_json=False, title=f"Queue of {stream}", nothing="nobody waits")
