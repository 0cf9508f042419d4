"""Commands about streams: create, list, show, recommend, ingest, close, forget."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet
import typer
from rich.markup import escape

from ptkstore.cli.output import REFUSED, AsJson, Home, answers, console, opened, print_json, print_rows
from ptkstore.domain.streams import Policy, Stream
from ptkstore.errors import InvalidRequest, UnknownName

if TYPE_CHECKING:
    from ptkstore.application.read_exposure import Exposure

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
    train_partitions: Annotated[int, typer.Option(help="Parts that PTKs are trained on.")] = 1,
    accountant: Annotated[str, typer.Option(help="How losses add up: renyi, zcdp or basic.")] = "renyi",
    privacy_unit: Annotated[
        str, typer.Option(help="What is protected: record, user-in-window or user.")
    ] = "record",
    unit_column: Annotated[
        str | None, typer.Option(help="Column of the user's id, for the units of users.")
    ] = None,
    max_rows_per_unit: Annotated[
        int, typer.Option(help="Rows of a user that a window keeps, chosen at random.")
    ] = 1,
    user_shards: Annotated[int, typer.Option(help="Blocks of each part, for the unit user.")] = 1,
    block_by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN=V1,V2,...", help="Blocks by a public column; other values are refused."),
    ] = None,
    context: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TEAM,...", help="A context with a budget of its own; repeat it."),
    ] = None,
    no_collusion: Annotated[str, typer.Option(help="Why nobody learns from two contexts.")] = "",
    reserve: Annotated[
        list[str] | None,
        typer.Option(metavar="PTK=SHARE", help="A share of the budget for one PTK; repeat it."),
    ] = None,
    retire_below: Annotated[
        float | None, typer.Option(help="Blocks without room for this epsilon retire.")
    ] = None,
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
            train_partitions=train_partitions,
            accountant=accountant,
            privacy_unit=privacy_unit,
            unit_column=unit_column,
            max_rows_per_unit=max_rows_per_unit,
            user_shards=user_shards,
            block_by=None if block_by is None else _domain(block_by, _schema(schema)),
            contexts={name: value.split(",") for name, value in _pairs(context)},
            no_collusion=no_collusion,
            reserve={name: _number(value) for name, value in _pairs(reserve)},
            retire_below=retire_below,
            minimum_assurance=minimum_assurance,
            closing=closing,
        )
        if as_json:
            print_json({"stream": name})
        else:
            console.print(f"stream {name} is ready; ingest with: ptk ingest {name} FILE")


def _pairs(options: list[str] | None) -> list[tuple[str, str]]:
    pairs = [option.partition("=") for option in options or ()]
    for name, equals, value in pairs:
        if not (name and equals and value):
            raise InvalidRequest(f"{name!r}: write NAME=VALUE")
    return [(name, value) for name, _, value in pairs]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidRequest(f"{text!r} is no number") from None


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
    """Show a stream's schema and policy, and what is kept of it: since when, until when, and nothing older."""
    with opened(home) as store:
        with store.service.begin() as uow:
            stream = uow.streams.get(name)
            windows = [
                {
                    "window": w.id.index,
                    "start": w.start.isoformat(),
                    "end": w.end.isoformat(),
                    "state": w.state.value,
                }
                for w in uow.windows.of(name)
            ]
        exposure = store.service.exposure(name)
    until = {kept.window.id.index: kept.until.isoformat() for kept in exposure.kept}
    for row in windows:
        row["rows_until"] = until.get(int(row["window"]), "gone")
    detail: dict[str, Any] = {
        **_summary(stream),
        "columns": {column: kind.value for column, kind in stream.schema.columns},
        "time_column": stream.schema.time_column,
        "event_time_reached": exposure.reached.isoformat(),
        "exposure": {
            "rows_since": exposure.since.isoformat(),
            "retention_allows_since": exposure.allowed_since.isoformat(),
            "open_since": exposure.open_since.isoformat(),
            "overdue_windows": list(exposure.overdue),
            "remains_of_expired_windows": list(exposure.remains),
            "holds": exposure.holds,
        },
        "windows": windows,
    }
    if as_json:
        print_json(detail)
        return
    for key, value in detail.items():
        if key not in ("windows", "exposure"):
            console.print(f"[bold]{key}[/]: {escape(str(value))}", highlight=False)
    print_rows(windows, as_json=False, title="Windows", nothing="no window has closed yet")
    console.print(_told(exposure), highlight=False, soft_wrap=True)


def _told(exposure: Exposure) -> str:
    """One line an officer can read."""
    if exposure.holds:
        return (
            f"[green]holds[/]: what is kept and is no DP output depends on events from {exposure.since.isoformat()} "
            f"on; retention allows from {exposure.allowed_since.isoformat()} on. Files, keys and drafts of every "
            "expired window are gone"
        )
    late = ", ".join(map(str, exposure.overdue)) or "none"
    left = ", ".join(map(str, exposure.remains)) or "none"
    return (
        f"[red]does not hold[/]: windows past their retention that have not expired yet: {late}; expired windows of "
        f"which files, keys or drafts are left: {left}. Close and work, or run: ptk up"
    )


@stream_app.command("recommend")
@answers
def recommend(
    name: str,
    partitions: Annotated[
        int | None, typer.Option(help="The most train partitions; the policy's number by default.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Write a chart here: .svg, .png or .pdf.", dir_okay=False)
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Recommend the rows and the window length that a stream's PTKs need, from public numbers alone."""
    from ptkstore.application.recommend_rows import recommend_rows

    if figure is not None and figure.suffix not in (".svg", ".png", ".pdf"):
        raise InvalidRequest("--figure must end in .svg, .png or .pdf")
    with opened(home) as store:
        advice = recommend_rows(name, partitions=partitions, begin=store.service.begin)
    if figure is not None:
        from ptkstore.cli.row_charts import save_rows

        save_rows(advice.lines, advice.policy.rows_per_window, figure)
    points = [
        {
            "line": line,
            "against": against,
            "ptks": point.n_ptks,
            "epsilon": point.capacity.epsilon,
            "rows": point.n_rows,
            "partitions": point.partitions,
            "first_feasible_rows": point.first_feasible_rows,
        }
        for line, found in advice.lines.items()
        for against, points in (("ptks", found.by_ptks), ("budget", found.by_budget))
        for point in points
    ]
    refusals = {line: str(found.refusal) for line, found in advice.lines.items() if found.refusal}
    if as_json:
        print_json(
            {
                "stream": name,
                "rows": advice.n_rows,
                "window_seconds": None if advice.window is None else advice.window.total_seconds(),
                "rows_per_window": advice.policy.rows_per_window,
                "refusals": refusals,
                "points": points,
            }
        )
        return
    print_rows(points, as_json=False, title="Rows needed", nothing="no PTK is registered yet")
    for line, reason in refusals.items():
        console.print(escape(f"{line}: {reason}"))
    if advice.n_rows:
        console.print(
            f"N: {advice.n_rows} rows in all train partitions; T: windows of at least {advice.window}, at "
            f"{advice.policy.rows_per_window} rows per {advice.policy.window}"
        )


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


def _schema(text: str) -> dict[str, str]:
    columns: dict[str, str] = {}
    for part in text.split(","):
        name, colon, kind = part.strip().partition(":")
        if not colon or name in columns:
            raise InvalidRequest(f"--schema is name:type,... with each name once, not {part.strip()!r}")
        columns[name] = kind
    return columns


def _domain(text: str, schema: dict[str, str]) -> dict[str, list[str | int | bool]]:
    column, equals, values = text.partition("=")
    if not equals or not values:
        raise InvalidRequest(f"--block-by is COLUMN=V1,V2,..., not {text!r}")
    return {column: [_value(value, schema.get(column)) for value in values.split(",")]}


def _value(text: str, kind: str | None) -> str | int | bool:
    """A value as its column holds it; the text itself where that is impossible, for the policy to refuse."""
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return int(text) if kind == "int64" else text
    except ValueError:
        return text


def _units(policy: Policy) -> dict[str, Any]:
    """What a policy says beyond the record, where it does."""
    told: dict[str, Any] = {}
    if policy.unit_column is not None:
        told |= {"unit_column": policy.unit_column, "max_rows_per_unit": policy.max_rows_per_unit}
    if policy.user_shards > 1:
        told["user_shards"] = policy.user_shards
    if policy.attribute is not None:
        told["block_by"] = {policy.attribute: list(policy.attribute_values)}
    return told


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
        **_units(policy),
        "accountant": policy.accountant,
        "minimum_assurance": policy.minimum_assurance.value,
        "closing": policy.closing.value,
    }
