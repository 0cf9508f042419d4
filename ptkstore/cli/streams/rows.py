"""Commands about a stream's rows: ingest, close, forget."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import typer
from rich.markup import escape

from ptkstore.application.ingest.ingest_records import IngestReply
from ptkstore.application.ingest.row_texts import Columns, ndjson_fault, read_csv, read_ndjson
from ptkstore.cli.output import REFUSED, AsJson, Done, console, counted, in_home, print_json, progress, reads
from ptkstore.errors import InvalidRequest, SchemaMismatch, UnknownName
from ptkstore.sdk import Store
from ptkstore.sdk.store import HomeStore


@in_home
def ingest(
    store: HomeStore,
    stream: str,
    files: list[Path],
    batch: Annotated[
        str | None, typer.Option(help="A repeated batch stores nothing twice; for one file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ingest Parquet, Arrow, CSV or NDJSON files, the last two read as the stream declares its columns.

    The counts are for you alone and kept nowhere.
    """
    if batch is not None and len(files) > 1:
        raise InvalidRequest("--batch names one batch: give one file")
    replies, told = [], list[str]()
    columns = columns_of(store, stream)
    try:
        with progress(f"reading {files[0].name}", len(files)) as tell:
            for number, file in enumerate(files):
                tell(f"reading {file.name}", number)
                table = read_table(file, columns)
                tell(f"storing {file.name}", number)
                reply = store.ingest(stream, table, batch)
                replies.append(reply)
                told.append(f"{file}: {_outcome(reply)}")
    finally:  # also of the files before one that fails
        for line in told if not as_json else ():
            console.print(escape(line))
    if as_json:
        rows = [asdict(reply) for reply in replies]
        print_json(rows[0] if len(rows) == 1 else rows)
    if any(reply.refused and not reply.accepted for reply in replies):
        raise typer.Exit(REFUSED)


def _outcome(reply: IngestReply) -> str:
    if reply.repeated:
        return f"batch {reply.batch_id} was ingested before; nothing stored twice"
    refused = ", ".join(f"{count} {reason}" for reason, count in reply.refused.items()) or "none"
    return f"{counted(reply.accepted, 'row')} accepted; refused: {refused}"


@in_home
def close(
    store: HomeStore,
    stream: str,
    until: Annotated[
        str | None,
        typer.Option(
            help="Event time that has passed; now by default, to be said where the operator closes."
        ),
    ] = None,
) -> Done:
    """Close the windows that are due; the schedule does it otherwise, but on streams that their operator closes.

    Final: later rows are refused as late. There windows also expire by these closings alone, never by the clock.
    """
    text = f"closing windows of {stream}"
    with progress(text, steps=True) as tell:
        closed = store.close_windows(stream, until, tell=lambda done, total: tell(text, done, total))
    return Done({"closed": closed}, f"{counted(closed, 'window')} closed")


@reads
def forget(
    store: Store,
    stream: str,
    unit: Annotated[str, typer.Argument(help="The id of the user; - reads it from standard input.")],
) -> Done:
    """Erase the rows of a user from all windows that are still kept. The answer is the same if there were none."""
    if unit == "-":  # arguments stay in the shell's history, and whoever lists processes sees them
        unit = sys.stdin.readline().rstrip("\r\n")
    with progress(f"erasing from the windows of {stream} that are kept"):
        store.forget(stream, unit)
    text = (
        f"no kept window of {stream} has rows of this unit; spent budget and published states stay. The audit trail "
        "has stream.forget with the time, and not the unit"
    )
    return Done({"stream": stream, "forgotten": True}, text)


def columns_of(store: Store, stream: str) -> Columns:
    """Return the declared columns of a stream; raise `UnknownName` if there is none."""
    return dict(store.service.stream(stream).schema.columns)


def read_table(file: Path, columns: Columns) -> pa.Table:
    """Read a table by the ending of its file; messages name the file, columns and rows, never its content.

    In CSV and NDJSON the types of `columns` hold, and those of other columns are guessed.
    """
    readers: dict[str, Callable[[Path, Columns], pa.Table]] = {
        ".parquet": lambda one, _: pyarrow.parquet.read_table(one),
        ".arrow": lambda one, _: pyarrow.feather.read_table(one),
        ".feather": lambda one, _: pyarrow.feather.read_table(one),
        ".csv": read_csv,
        ".ndjson": _ndjson,
        ".jsonl": _ndjson,
    }
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise InvalidRequest(f"{file.name}: the ending must be one of {', '.join(readers)}")
    if not file.is_file():
        raise UnknownName("file", str(file))
    try:
        return reader(file, columns)
    except SchemaMismatch as error:
        raise SchemaMismatch(f"{file.name}: {error}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # their texts hold values
        raise InvalidRequest(f"{file.name} cannot be read as {file.suffix}") from None


def _ndjson(file: Path, columns: Columns) -> pa.Table:
    try:
        table = read_ndjson(file, columns, undeclared="infer", threads=True)
    except pa.ArrowInvalid:
        fault = ndjson_fault(file.read_bytes(), columns)
        if fault is None:
            raise
    else:
        empty = [name for name in columns if table[name].null_count == table.num_rows]
        content = file.read_bytes() if empty else b""
        return table.drop_columns([name for name in empty if json.dumps(name).encode() not in content])
    raise SchemaMismatch(fault)
