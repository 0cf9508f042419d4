"""Commands about streams: create, list, show, ingest, close."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet
import typer
from rich.markup import escape

from ptkstore.cli.output import REFUSED, AsJson, Home, answers, console, opened, print_json, print_rows
from ptkstore.domain.streams import Stream
from ptkstore.errors import InvalidRequest, UnknownName

stream_app = typer.Typer(no_args_is_help=True, help="Streams and their policies.")


@stream_app.command("create")
@answers
def create(
    name: str,
    team: Annotated[str, typer.Option(help="The owning team.")],
    schema: Annotated[
        str, typer.Option(help="Columns as name:type,...; types int64 float64 string bool timestamp.")
    ],
    time_column: Annotated[str, typer.Option(help="The event-time column.")],
    epsilon: Annotated[float, typer.Option(help="What a block may lose in all.")],
    delta: Annotated[float, typer.Option(help="What a block may lose in all.")] = 0.0,
    window: Annotated[str, typer.Option(help="Length of a tumbling window, such as 1d.")] = "1d",
    origin: Annotated[
        str | None, typer.Option(help="UTC start of the first window; today by default.")
    ] = None,
    lateness: Annotated[str | None, typer.Option(help="How late rows may come.")] = None,
    retention: Annotated[int, typer.Option(help="Further windows for which rows are kept.")] = 1,
    rows_per_window: Annotated[int, typer.Option(help="Public estimate of rows in a window.")] = 10_000,
    n_max: Annotated[int, typer.Option(help="Planning bound on rows in a window.")] = 1_000_000,
    accountant: Annotated[str, typer.Option(help="How losses add up.")] = "basic",
    privacy_unit: Annotated[str, typer.Option(help="What one neighbour adds or removes.")] = "record",
    minimum_assurance: Annotated[str, typer.Option(help="The least assurance of accepted PTKs.")] = "library",
    closing: Annotated[str, typer.Option(help="Who closes windows: clock or operator.")] = "clock",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Create a stream. Schema and policy are fixed from then on."""
    with opened(home) as store:
        store.create_stream(
            name,
            team=team,
            schema=_schema(schema),
            time_column=time_column,
            epsilon=epsilon,
            delta=delta,
            window=window,
            origin=origin,
            lateness=lateness,
            retention=retention,
            rows_per_window=rows_per_window,
            n_max=n_max,
            accountant=accountant,
            privacy_unit=privacy_unit,
            minimum_assurance=minimum_assurance,
            closing=closing,
        )
        if as_json:
            print_json({"stream": name})
        else:
            console.print(f"stream {name} is ready; ingest with: ptk ingest {name} FILE")


@stream_app.command("list")
@answers
def list_streams(home: Home = None, as_json: AsJson = False) -> None:
    """List streams."""
    with opened(home) as store:
        rows = [_summary(stream) for stream in store.service.streams()]
        print_rows(
            rows, as_json=as_json, title="Streams", nothing="no streams yet; see: ptk stream create --help"
        )


@stream_app.command("show")
@answers
def show(name: str, home: Home = None, as_json: AsJson = False) -> None:
    """Show a stream's schema, policy and windows."""
    with opened(home) as store, store.service.begin() as uow:
        stream = uow.streams.get(name)
        progress = uow.streams.progress(name)
        windows = [
            {
                "window": w.id.index,
                "start": w.start.isoformat(),
                "end": w.end.isoformat(),
                "state": w.state.value,
            }
            for w in uow.windows.of(name)
        ]
        detail: dict[str, Any] = {
            **_summary(stream),
            "columns": {column: kind.value for column, kind in stream.schema.columns},
            "time_column": stream.schema.time_column,
            "event_time_reached": progress.reached.isoformat(),
            "windows": windows,
        }
        if as_json:
            print_json(detail)
            return
        for key, value in detail.items():
            if key != "windows":
                console.print(f"[bold]{key}[/]: {escape(str(value))}", highlight=False)
        print_rows(windows, as_json=False, title="Windows", nothing="no window has closed yet")


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


def _schema(text: str) -> dict[str, str]:
    columns: dict[str, str] = {}
    for part in text.split(","):
        name, colon, kind = part.strip().partition(":")
        if not colon or name in columns:
            raise InvalidRequest(f"--schema is name:type,... with each name once, not {part.strip()!r}")
        columns[name] = kind
    return columns


def _summary(stream: Stream) -> dict[str, Any]:
    policy = stream.policy
    return {
        "stream": stream.name,
        "team": stream.team,
        "epsilon": policy.capacity.epsilon,
        "delta": policy.capacity.delta,
        "window": str(policy.window),
        "origin": policy.origin.isoformat(),
        "lateness": str(policy.lateness),
        "retention_windows": policy.retention_windows,
        "rows_per_window": policy.rows_per_window,
        "n_max": policy.n_max,
        "privacy_unit": policy.privacy_unit.value,
        "accountant": policy.accountant,
        "minimum_assurance": policy.minimum_assurance.value,
        "closing": policy.closing.value,
    }
