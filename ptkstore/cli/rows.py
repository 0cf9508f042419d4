"""Commands about a stream's rows: ingest, close, forget."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet
import typer
from rich.markup import escape

from ptkstore.cli.output import REFUSED, AsJson, Home, answers, console, opened, print_json
from ptkstore.errors import InvalidRequest, UnknownName


@answers
def ingest(
    stream: str,
    files: list[Path],
    batch: Annotated[
        str | None, typer.Option(help="A repeated batch stores nothing twice; for one file.")
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Ingest Parquet, Arrow, CSV or NDJSON files. The counts are for you alone and kept nowhere."""
    if batch is not None and len(files) > 1:
        raise InvalidRequest("--batch names one batch: give one file")
    replies = []
    with opened(home) as store:
        for file in files:
            reply = store.ingest(stream, read_table(file), batch)
            replies.append(reply)
            if as_json:
                continue
            if reply.repeated:
                told = f"batch {reply.batch_id} was ingested before; nothing stored twice"
            else:
                refused = ", ".join(f"{count} {reason}" for reason, count in reply.refused.items()) or "none"
                told = f"{reply.accepted} rows accepted; refused: {refused}"
            console.print(escape(f"{file}: {told}"))
    if as_json:
        rows = [asdict(reply) for reply in replies]
        print_json(rows[0] if len(rows) == 1 else rows)
    if any(reply.refused and not reply.accepted for reply in replies):
        raise typer.Exit(REFUSED)


@answers
def close(
    stream: str,
    until: Annotated[str | None, typer.Option(help="Event time that has passed; now by default.")] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Close the windows that are due; the schedule does it otherwise. Final: later rows are refused as late."""
    with opened(home) as store:
        closed = store.close_windows(stream, until)
        if as_json:
            print_json({"closed": closed})
        else:
            console.print(f"{closed} windows closed")


@answers
def forget(
    stream: str,
    unit: Annotated[str, typer.Argument(help="The user's id; - reads it from standard input.")],
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Erase a user's rows from all windows that are still kept. The answer is the same if there were none."""
    if unit == "-":  # arguments stay in the shell's history, and whoever lists processes sees them
        unit = sys.stdin.readline().rstrip("\r\n")
    with opened(home) as store:
        store.forget(stream, unit)
    if as_json:
        print_json({"stream": stream, "forgotten": True})
    else:
        console.print(
            f"no kept window of {stream} holds rows of this unit; spent budget and published states stay"
        )


def read_table(file: Path) -> pa.Table:
    """A table from a file, by its ending; messages name the file, never its content."""
    readers = {
        ".parquet": pyarrow.parquet.read_table,
        ".arrow": pyarrow.feather.read_table,
        ".feather": pyarrow.feather.read_table,
        ".csv": pyarrow.csv.read_csv,
        ".ndjson": pyarrow.json.read_json,
        ".jsonl": pyarrow.json.read_json,
    }
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise InvalidRequest(f"{file.name}: the ending must be one of {', '.join(readers)}")
    if not file.is_file():
        raise UnknownName("file", str(file))
    try:
        return reader(file)
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # their texts hold values
        raise InvalidRequest(f"{file.name} cannot be read as {file.suffix}") from None
