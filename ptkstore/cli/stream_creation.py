"""The commands that make a stream and let it grow: `ptk stream create`, `ptk stream add-column`."""

from __future__ import annotations

from typing import Annotated

import typer

from ptkstore.cli.output import AsJson, Home, answers, console, opened, print_json
from ptkstore.errors import InvalidRequest


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
        str | None, typer.Option(help="UTC start of the first window; the present window by default.")
    ] = None,
    lateness: Annotated[str | None, typer.Option(help="How late rows may come.")] = None,
    future_skew: Annotated[
        str, typer.Option(help="How far ahead of the clock the time of a row may lie.")
    ] = "5m",
    retention: Annotated[int, typer.Option(help="Further windows for which rows are kept.")] = 1,
    rows_per_window: Annotated[int, typer.Option(help="Public estimate of rows in a window.")] = 10_000,
    n_max: Annotated[int, typer.Option(help="Planning bound on rows in a window.")] = 1_000_000,
    train_partitions: Annotated[int, typer.Option(help="Parts that PTKs are trained on.")] = 1,
    profile_share: Annotated[
        float, typer.Option(help="Part of a window kept for profiles by samples.")
    ] = 0.1,
    profile_max_age: Annotated[int, typer.Option(help="Windows after which a profile is renewed.")] = 30,
    accountant: Annotated[str, typer.Option(help="How losses add up: renyi, zcdp or basic.")] = "renyi",
    privacy_unit: Annotated[
        str, typer.Option(help="What is protected: record, user-in-window or user.")
    ] = "record",
    unit_column: Annotated[
        str | None, typer.Option(help="Column of user ids, for the units of users.")
    ] = None,
    max_rows_per_unit: Annotated[
        int, typer.Option(help="Rows of a user that a window keeps, chosen at random.")
    ] = 1,
    user_shards: Annotated[int, typer.Option(help="Blocks of each part, for the unit user.")] = 1,
    max_cell_bytes: Annotated[
        int, typer.Option(help="The longest text of a cell, in bytes; longer ones are refused.")
    ] = 65_536,
    block_by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN=V1,V2,...", help="Blocks by a public column; other values are refused."),
    ] = None,
    context: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TEAM,...", help="A context with a budget of its own; repeat it."),
    ] = None,
    no_collusion: Annotated[
        str, typer.Option(help="Why contexts share no readers and do not react to each other.")
    ] = "",
    reserve: Annotated[
        list[str] | None,
        typer.Option(metavar="PTK=SHARE", help="A share of the budget for one PTK; repeat it."),
    ] = None,
    retire_below: Annotated[
        float | None, typer.Option(help="Blocks without room for this epsilon retire.")
    ] = None,
    minimum_assurance: Annotated[str, typer.Option(help="The least assurance of accepted PTKs.")] = "library",
    asserted_text: Annotated[
        bool, typer.Option("--asserted-text", help="Let own code release texts and keys it did not declare.")
    ] = False,
    closing: Annotated[str, typer.Option(help="Who closes windows: clock or operator.")] = "clock",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Create a stream. Its policy is fixed from then on; its schema may grow: `ptk stream add-column`."""
    with opened(home, make=True) as store:
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
            future_skew=future_skew,
            retention=retention,
            rows_per_window=rows_per_window,
            n_max=n_max,
            train_partitions=train_partitions,
            profile_share=profile_share,
            profile_max_age=profile_max_age,
            accountant=accountant,
            privacy_unit=privacy_unit,
            unit_column=unit_column,
            max_rows_per_unit=max_rows_per_unit,
            user_shards=user_shards,
            max_cell_bytes=max_cell_bytes,
            block_by=None if block_by is None else _domain(block_by, _schema(schema)),
            contexts={name: value.split(",") for name, value in _pairs(context)},
            no_collusion=no_collusion,
            reserve={name: _number(value) for name, value in _pairs(reserve)},
            retire_below=retire_below,
            minimum_assurance=minimum_assurance,
            asserted_text=asserted_text,
            closing=closing,
        )
        if as_json:
            print_json({"stream": name})
        else:
            console.print(f"stream {name} is ready; ingest with: ptk ingest {name} FILE")


@answers
def add_column(
    stream: str,
    column: str,
    type: Annotated[str, typer.Argument(help="int64, float64, string or bool.")],
    default: Annotated[str, typer.Option(help="The public value that rows without one have.")],
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Add a column with a default to a stream; repeating it changes nothing.

    Rows that came before into open windows have the default, and so have rows that come without a value.
    """
    with opened(home) as store:
        value = _number(default) if type == "float64" else _value(default, type)
        version = store.evolve_stream(stream, add_column=column, type=type, default=value)
        if as_json:
            print_json({"stream": stream, "column": column, "schema_version": version})
        else:
            console.print(f"stream {stream} has the column {column}: version {version} of its schema")


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
