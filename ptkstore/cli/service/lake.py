"""Commands about files: what nobody can reach any more, where a state comes from, and where a window's rows went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer

from ptkstore.application.operations.collect_garbage import USUAL_AGE
from ptkstore.application.streams.exposure import windows_text
from ptkstore.cli.output import (
    DATES,
    AsJson,
    Rows,
    as_utc,
    console,
    counted,
    in_home,
    print_rows,
    progress,
    reads,
)
from ptkstore.cli.ptks.versions import version_number
from ptkstore.domain.accounting.assurances import assured_of
from ptkstore.domain.durations import duration
from ptkstore.errors import InvalidRequest
from ptkstore.sdk import Store
from ptkstore.sdk.documents.lineage import ancestor_document, descendant_document
from ptkstore.sdk.store import HomeStore

lake_app = typer.Typer(no_args_is_help=True, help="Files of lake and raw zone.")


@lake_app.command("garbage")
@in_home
def garbage(
    store: HomeStore,
    older_than: Annotated[
        str, typer.Option(help="Only files of at least this age, for example 12h or 7d.")
    ] = f"{USUAL_AGE.days}d",
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete them; without it nothing changes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show, or delete, files that nobody can reach: of writers that died, and of windows that have expired.

    Files that are marked as kept are not the service's own or cannot be read; they stay.
    """
    garbage_files = store.service.garbage(duration(older_than), delete=delete)
    rows = [asdict(one) for one in garbage_files]
    print_rows(rows, as_json=as_json, title="Garbage", nothing="nothing that could go")
    if not as_json and rows:
        count = sum(not one.kept for one in garbage_files)
        console.print(f"{counted(count, 'file')} {'deleted' if delete else 'would be deleted; add --delete'}")


@reads
def lineage(
    store: Store,
    name: Annotated[
        str, typer.Argument(metavar="PTK|STREAM", help="A PTK, or a stream with --window or --from.")
    ],
    version: Annotated[str | None, typer.Option(help="Of the PTK, as 3 or v3; the newest otherwise.")] = None,
    window: Annotated[
        int | None, typer.Option(min=0, help="Of the stream: show which versions its rows went into.")
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            "--from", formats=DATES, help="Of the stream: its windows with time from then on, in UTC."
        ),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option("--to", formats=DATES, help="With --from: windows that began before then."),
    ] = None,
    as_json: AsJson = False,
) -> Rows:
    """Show the versions whose states went into one, back to the first trainings, or those that a window went into."""
    start, end = as_utc(since), as_utc(until)
    if end is not None and (start is None or end <= start):
        raise InvalidRequest(
            "--to is the end of a period that begins at --from: give both, the earlier time first"
        )
    if start is not None:
        if version is not None or window is not None:
            raise InvalidRequest(
                "--from names windows by their times: give it without --window and --version"
            )
        return _of_period(store, name, start, end, as_json=as_json)
    if version is not None and window is not None:
        raise InvalidRequest(
            "--version is for the origins of a PTK's state, --window for where rows went: give one"
        )
    if window is not None:
        return _descendants(store, name, window, as_json=as_json)
    if "." not in name:
        raise InvalidRequest(f"{name!r} is no PTK: write <team>.<name>, or a stream with --window or --from")
    number = None if version is None else version_number(version)
    rows = [ancestor_document(ancestor) for ancestor in store.lineage(name, number)]
    if not as_json:
        rows = [_for_people(row) for row in rows]
    return Rows(rows, f"Lineage of {name}", "nothing is published yet")


def _for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """A version's row with its lists as texts, and who vouches for it in one cell."""
    shown = {name: value for name, value in row.items() if name != "asserted_by"}
    return {**shown, "made_from": ", ".join(row["made_from"]), "assurance": assured_of(row).words()}


def _check_stream(name: str) -> None:
    if "." in name:
        raise InvalidRequest(
            f"{name!r} is no stream: a window is of a stream, which has a name without a dot"
        )


def _of_period(store: Store, stream: str, since: datetime, until: datetime | None, *, as_json: bool) -> Rows:
    """Versions that any window of a period went into; the period takes in each window that it meets."""
    _check_stream(stream)
    met = [
        one.id.index
        for one in store.service.windows(stream)
        if one.end > since and (until is None or one.start < until)
    ]
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    with progress(f"following windows of {stream}", len(met)) as tell:
        for done, index in enumerate(sorted(met)):
            tell(f"following window {index} of {stream}", done)
            for version in store.lineage_of_window(stream, index):
                row = rows.setdefault(
                    (version.ptk_id, version.version), {**descendant_document(version), "windows": []}
                )
                row["windows"].append(index)
    listed = [rows[key] for key in sorted(rows)]
    period = f"from {since:%Y-%m-%d %H:%M}" + ("" if until is None else f" to {until:%Y-%m-%d %H:%M}")
    if not as_json:
        listed = [{**_described(row), "windows": windows_text(row["windows"])} for row in listed]
    nothing = f"no closed window of {stream} {period} UTC went into a published version"
    return Rows(listed, f"Versions that windows of {stream} {period} UTC went into", nothing)


def _described(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**_for_people(row), "newest": "newest" if row["newest"] else ""}


def _descendants(store: Store, stream: str, window: int, *, as_json: bool) -> Rows:
    _check_stream(stream)
    rows = [descendant_document(version) for version in store.lineage_of_window(stream, window)]
    if not as_json:
        rows = [_described(row) for row in rows]
    nothing = f"window {window} of {stream} went into no published version"
    return Rows(rows, f"Versions that window {window} of {stream} went into", nothing)
