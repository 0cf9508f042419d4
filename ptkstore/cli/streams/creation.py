"""The commands that make a stream and let it grow: `ptk stream create`, `ptk stream add-column`."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer

from ptkstore.cli.output import AsJson, Done, Home, answers, in_home, opened
from ptkstore.domain.streams.policies import POLICY_FIELDS, RowPlace
from ptkstore.errors import InvalidRequest
from ptkstore.sdk.store import HomeStore
from ptkstore.sdk.streams import StreamMethods


def _with_policy(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each argument of `Store.create_stream`, but for those that it has itself."""
    helps = {field.argument: field.help for field in POLICY_FIELDS}
    params, own = (signature(one, eval_str=True).parameters for one in (StreamMethods.create_stream, command))
    options = [
        own.get(name) or one.replace(annotation=Annotated[one.annotation, _option(one, helps[name])])
        for name, one in params.items()
        if name != "self"
    ]
    last = [one for name, one in own.items() if name not in params and one.kind is not Parameter.VAR_KEYWORD]
    command.__signature__ = Signature([*options, *last])  # type: ignore[attr-defined]
    return command


def _option(argument: Parameter, text: str) -> Any:
    flags = [f"--{argument.name.replace('_', '-')}"] if argument.default is False else []
    return typer.Option(*flags, help=text)


@answers
@_with_policy
def create(
    name: str,
    *,
    team: Annotated[str, typer.Option(help="The owning team.")],
    schema: Annotated[
        str, typer.Option(help="Columns as name:type,...; types int64 float64 string bool timestamp.")
    ],
    time_column: Annotated[str, typer.Option(help="The event-time column.")],
    epsilon: Annotated[
        float | None,
        typer.Option(help="The most that a block may lose in all; needed unless rows stay on devices."),
    ] = None,
    delta: Annotated[float, typer.Option(help="The most that a block may lose in all.")] = 0.0,
    origin: Annotated[
        str | None, typer.Option(help="UTC start of the first window; the present window by default.")
    ] = None,
    block_by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN=V1,V2,...", help="Blocks by a public column; other values are refused."),
    ] = None,
    contexts: Annotated[
        list[str] | None,
        typer.Option(
            "--context", metavar="NAME=TEAM,...", help="A context with a budget of its own; repeat it."
        ),
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
    home: Home = None,
    as_json: AsJson = False,
    **policy: Any,
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
            origin=origin,
            block_by=None if block_by is None else _domain(block_by, _schema(schema)),
            contexts={name: value.split(",") for name, value in _pairs(contexts)},
            no_collusion=no_collusion,
            reserve={name: _number(value) for name, value in _pairs(reserve)},
            retire_below=retire_below,
            **policy,
        )
    text = f"stream {name} is ready; ingest with: ptk ingest {name} FILE"
    if policy["rows"] == RowPlace.ON_DEVICES:
        text = (
            f"stream {name} is ready; its rows stay on devices, which train the PTKs that you register on it"
        )
    Done({"stream": name}, text).show(as_json=as_json)


@in_home
def add_column(
    store: HomeStore,
    stream: str,
    column: str,
    type: Annotated[str, typer.Argument(help="int64, float64, string or bool.")],
    default: Annotated[str, typer.Option(help="The public value that rows without one have.")],
) -> Done:
    """Add a column with a default to a stream; repeating it changes nothing.

    Rows that came before into open windows have the default, and so have rows that come without a value.
    """
    value = _number(default) if type == "float64" else _value(default, type)
    version = store.evolve_stream(stream, add_column=column, type=type, default=value)
    text = f"stream {stream} has the column {column}: version {version} of its schema"
    return Done({"stream": stream, "column": column, "schema_version": version}, text)


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
    """Return a value of the column's type, or the text itself if that is impossible. The policy refuses it then."""
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return int(text) if kind == "int64" else text
    except ValueError:
        return text
