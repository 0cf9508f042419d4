"""Output of every command: tables for people, JSON for programs, one line for an error."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, Protocol, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ptkstore.cli.tables import fitting
from ptkstore.errors import InvalidRequest, NotAllowed, PtkStoreError, UnknownName
from ptkstore.sdk.counting import counted as counted
from ptkstore.sdk.store import HomeStore, Store, connect, open_home
from ptkstore.settings import CATALOG, Settings, load_settings

Home = Annotated[
    Path | None, typer.Option("--home", help="The directory of the store; PTK_HOME or .ptk by default.")
]
HomeOrUrl = Annotated[
    Path | None,
    typer.Option("--home", help="The directory of the store; by default PTK_URL, else PTK_HOME or .ptk."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

DATES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]
"""How a time in UTC is typed."""

URL = "PTK_URL"
REFUSED, WRONG_USE = 1, 2
_LISTED_BY = {
    "stream": "ptk stream list",
    "PTK": "ptk list",
    "published version of PTK": "ptk list",
    "team": "ptk team list",
    "token": "ptk token list",
    "grant": "ptk grant list",
    "subscription": "ptk subscriptions",
}
"""The command that lists the names of a kind: where to look for one that is unknown and near none."""
_GET_A_ROLE = (
    "ask an administrator for the role (ptk grant add), or for a token that has it (ptk token create)"
)
_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Terminal(Console):
    """Prints texts and nothing that steers a terminal, whoever wrote it: descriptions, codes, addresses, names."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Every text comes by here, of cells and titles too; its lines stay."""
        return super().render_str("\n".join(map(_printable, text.split("\n"))), **how)


# piped, a table is as wide as it needs to be; a name such as `a:key:b` is no picture of a key
console = _Terminal(emoji=False) if sys.stdout.isatty() else _Terminal(width=200, emoji=False)
said = _Terminal(stderr=True, emoji=False)  # progress and errors


def answers(command: Callable[_P, None]) -> Callable[_P, None]:
    """Turn an error of the store into one line on standard error and the right exit code."""

    @wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except PtkStoreError as error:
            if type(error) is UnknownName and not error.hint and error.kind in _LISTED_BY:
                error.hint = f"see: {_LISTED_BY[error.kind]}"
            text = str(error) + (f"; {_GET_A_ROLE}" if type(error) is NotAllowed else "")
            if kwargs.get("as_json"):
                print_json({"error": {"code": error.code, "message": text, "page": error.page}})
            else:
                said.print(f"[bold red]{error.code}[/]: {escape(text)}", highlight=False, soft_wrap=True)
                if said.is_terminal:
                    said.print(f"[dim]{error.page}[/]", highlight=False, soft_wrap=True)
            raise typer.Exit(WRONG_USE if isinstance(error, InvalidRequest) else REFUSED) from None

    return run


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command: a document for programs, a text for people; exit code 1 if it `failed`.

    `about` is printed before the text, on standard error: a file or `$(...)` then holds the text alone.
    """

    document: Mapping[str, Any]
    text: str
    highlight: bool = True
    soft_wrap: bool = False
    about: str = ""
    failed: bool = False

    def show(self, *, as_json: bool) -> None:
        """Print the one or the other."""
        if as_json:
            print_json(self.document)
            return
        if self.about:
            said.print(self.about, highlight=False, soft_wrap=True)
        console.print(self.text, highlight=self.highlight, soft_wrap=self.soft_wrap)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that a command lists; `nothing` is printed for people if there are none.

    `uses` says what the codes in their column `code` are of; a sentence for each code is printed below the table.
    """

    rows: Sequence[Mapping[str, Any]]
    title: str
    nothing: str
    uses: tuple[str, ...] = ()

    def show(self, *, as_json: bool) -> None:
        """Print a table, or a JSON list."""
        print_rows(self.rows, as_json=as_json, title=self.title, nothing=self.nothing)
        if not as_json:
            print_meanings(self.rows, *self.uses)


def in_home(command: Callable[Concatenate[HomeStore, _P], Done | Rows | None]) -> Callable[..., None]:
    """Give a command the store in a home, and the options --home and --json; print what it returns.

    A command with a parameter `as_json` gets the option --json too: it may print by itself, and return nothing.
    """
    return _with_store(command, opened, Home)


def reads(command: Callable[Concatenate[Store, _P], Done | Rows | None]) -> Callable[..., None]:
    """Do as `in_home`, for a command that works over HTTP too."""
    return _with_store(command, reading, HomeOrUrl)


def _with_store(
    command: Callable[..., Done | Rows | None], opening: Callable[[Path | None], Store], option: Any
) -> Callable[..., None]:
    _, *own = signature(command, eval_str=True).parameters.values()
    takes_json = any(one.name == "as_json" for one in own)

    @wraps(command)
    def run(*, home: Path | None = None, as_json: bool = False, **given: Any) -> None:
        if takes_json:
            given["as_json"] = as_json
        with opening(home) as store:
            result = command(store, **given)
        if result is not None:
            result.show(as_json=as_json)
        if isinstance(result, Done) and result.failed:
            raise typer.Exit(REFUSED)

    options = (
        Parameter("home", Parameter.KEYWORD_ONLY, default=None, annotation=option),
        Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=AsJson),
    )
    params = [*(one for one in own if one.name != "as_json"), *options]
    run.__signature__ = Signature(params)  # type: ignore[attr-defined]
    return answers(run)


def opened(home: Path | None, *, make: bool = False) -> HomeStore:
    """Open the store in `home`; a home that is not there is made only on request, so that a mistyped one is refused.

    Raises
    ------
    InvalidRequest
        There is no store, and `make` is not set.
    """
    if not make:
        check_home(home)
    _check_is_meant(home)
    return open_home(home)


def reading(home: Path | None) -> Store:
    """Open the store that a command reads over HTTP too: in `home` where that is named, else behind `PTK_URL`."""
    return at_url(os.environ[URL]) if behind_url(home) else opened(home)


def behind_url(home: Path | None) -> bool:
    """Return whether a command that reads asks the store behind `PTK_URL`."""
    return home is None and bool(os.environ.get(URL))


def at_url(url: str) -> Store:
    """Open the store behind a URL, with the token in `PTK_TOKEN`."""
    if "://" not in url:  # or it would be taken for a directory, and be made
        raise InvalidRequest(
            f"{URL} names a store by https://host, not by {url!r}; a directory is named by --home"
        )
    return connect(url)


def seen(read: Callable[[], _T]) -> _T | None:
    """Return what a part of a page shows; None where the token may not read that part."""
    try:
        return read()
    except NotAllowed:
        return None


def check_home(home: Path | None) -> Settings:
    """Return the settings of a store that is there; raise `InvalidRequest` if none is."""
    _check_is_meant(home)
    settings = load_settings(home)
    check_store(settings)
    return settings


def check_store(settings: Settings) -> None:
    """Raise `InvalidRequest` unless there is a store; a catalog elsewhere is checked by whoever opens it."""
    if settings.database_url is None and not (settings.root / CATALOG).is_file():
        raise InvalidRequest(
            f"there is no store in {settings.root}: name another by --home or PTK_HOME, or begin one with "
            "ptk stream create, ptk team create, ptk token create --admin or ptk up"
        )


def _check_is_meant(home: Path | None) -> None:
    """Refuse a home that nobody named while `PTK_URL` is set: the answer would be of another store."""
    if home is None and os.environ.get(URL):
        raise InvalidRequest(
            f"{URL} names a store behind HTTP, and this command works in a home only: name one by --home, or unset "
            f"{URL}. These work over HTTP: commands that read, commands about subscriptions, and ptk forget, plan, "
            "apply and destroy. In Python, ptkstore.connect(URL, token=...) works over HTTP as well"
        )


def as_utc(typed: datetime | None) -> datetime | None:
    """Read a time that was typed without its offset as UTC."""
    return None if typed is None else typed.replace(tzinfo=UTC)


def utc(typed: datetime | None) -> str | None:
    """Write a time that was typed without its offset as the store takes it."""
    return None if typed is None else f"{typed.isoformat()}+00:00"


def one_line(value: object) -> str:
    """Write a text of somebody else as one line without markup: none of it passes for another line."""
    return escape(_printable(str(value)))


class Tell(Protocol):
    """Is told what is done next, how many steps are `done`, and of how many if that changes."""

    def __call__(self, text: str, done: int | None = None, total: int | None = None) -> None: ...


@contextmanager
def progress(first: str, total: int | None = None, *, steps: bool = False) -> Iterator[Tell]:
    """Show what is done now, and for how long, as a line on standard error that goes away.

    With a `total` of steps it shows how many are done, and how long the rest may take; with `steps` too, whose total
    comes later. Nothing is shown where standard error is no terminal.
    """
    if not said.is_terminal:
        yield lambda text, done=None, total=None: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.progress import TimeRemainingColumn as Remaining

    counts = (BarColumn(), MofNCompleteColumn(), Remaining(compact=True)) if steps or total else ()
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *counts, Elapsed())
    with Progress(*columns, console=said, transient=True) as bar:
        task = bar.add_task(_printable(first), total=total)
        yield lambda text, done=None, total=None: bar.update(
            task, description=_printable(text), completed=done, total=total
        )


def print_json(value: object) -> None:
    """Print one JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, sort_keys=True, default=str) + "\n")


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    *,
    as_json: bool,
    title: str,
    nothing: str,
    number: Callable[[float], str] = "{:.6g}".format,
) -> None:
    """Print rows as a table, whose fractions `number` writes, or as a JSON list."""
    if as_json:
        print_json(list(rows))
        return
    if not rows:
        console.print(nothing)
        return

    def cell(value: object) -> str:
        if isinstance(value, bool) and console.is_terminal:
            return "yes" if value else "no"
        return number(value) if isinstance(value, float) else _text(value)

    if console.is_terminal:
        for part in fitting(rows, title, console.width, cell):
            console.print(part, highlight=False, soft_wrap=False)
        return
    table = Table(title=title, title_justify="left", header_style="bold")
    columns = dict.fromkeys(column for row in rows for column in row)
    for column in columns:
        first = next(row[column] for row in rows if column in row)
        table.add_column(
            one_line(column), overflow="fold", justify="left" if isinstance(first, str) else "right"
        )
    for row in rows:
        table.add_row(*(cell(row.get(column)) for column in columns))
    console.print(table)


def print_meanings(rows: Sequence[Mapping[str, Any]], *uses: str) -> None:
    """Print what the codes of rows say, a sentence for each, for codes of these `uses`."""
    from ptkstore.domain.codes import sentences_of

    for code, sentence in sentences_of((row.get("code") for row in rows), *uses).items():
        console.print(
            f"[bold]{one_line(code)}[/]: {one_line(sentence)}",
            highlight=False,
            soft_wrap=not console.is_terminal,
        )


def loss_text(amount: float) -> str:
    """Write an epsilon or delta with six digits, rounded up, so that no figure is better than it is."""
    if not amount or not math.isfinite(amount):
        return f"{amount:g}"
    exact = Decimal(repr(amount))
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 5), ROUND_CEILING)):.6g}"


def _text(value: object) -> str:
    return "" if value is None else one_line(value)


def _printable(text: str) -> str:
    """Without controls, overrides of the writing direction and what has no character."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)
