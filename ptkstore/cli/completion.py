"""Names that a shell completes: read from the catalog, or none where that cannot be read at once."""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from typer._click import Command

_SECONDS: Final = 2.0
"""A shell waits for no longer."""

_COMMANDS: Final = {
    (
        "ptk",
    ): "show, versions, lineage, set-config, set-target, test-privacy, lookup, featurize, subscribe, rollback, "
    "materialize, resume",
    ("ptk", "version", "version"): "diff",
    ("subscription",): "deliveries, redeliver, disable, enable, rotate-secret",
    ("stream",): (
        "ingest, close, forget, budget, queue, simulate, ledger export, stream add-column, stream show, "
        "stream recommend"
    ),
    ("token",): "token rotate, token revoke",
    ("team", "stream"): "grant add, grant remove",
}
ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    command: kinds for kinds, commands in _COMMANDS.items() for command in commands.split(", ")
}
"""What the first arguments of a command name."""

OPTIONS: Final = {"team": "team", "stream": "stream", "to": "version", "version": "version"}
"""What an option names, by its parameter."""


def with_names(command: Command, path: str) -> Command:
    """Give a command, or the commands of a group, the names that its parameters complete."""
    for name, inner in getattr(command, "commands", {}).items():
        with_names(inner, f"{path} {name}")
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    kinds = dict(zip((str(one.name) for one in arguments), ARGUMENTS.get(path, ()), strict=False))
    kinds |= {str(one.name): OPTIONS[str(one.name)] for one in command.params if one.name in OPTIONS}
    for one in command.params:
        if (kind := kinds.get(str(one.name))) is not None:
            one._custom_shell_complete = _completed_by(kind)
    return command


def is_plain(words: Sequence[str]) -> bool:
    """Return whether a line has arguments alone so far, and none of them is an option that is being typed."""
    typed = [*words, *os.environ.get("COMP_WORDS", os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()[1:]]
    return not any(word.startswith("-") for word in typed)


def quickly(name: str) -> Command:
    """Make a command that only completes its arguments, and so imports nothing of the real one."""

    def nothing() -> None:
        """Not run."""

    given = {
        f"argument_{number}": Annotated[str | None, typer.Argument(autocompletion=_named(kind))]
        for number, kind in enumerate(ARGUMENTS[name])
    }
    nothing.__annotations__ = {**given, "return": None}
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    nothing.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(one, keyword, default=None, annotation=kind) for one, kind in given.items()]
    )
    alone = typer.Typer(add_completion=False)
    alone.command(name)(nothing)
    return typer.main.get_command(alone)


def _named(kind: str) -> Callable[[typer.Context, str], list[str]]:
    def names(context: typer.Context, incomplete: str) -> list[str]:
        return [one for one in _names(kind, context) if one.startswith(incomplete)]

    return names


def _completed_by(kind: str) -> Callable[[Any, Any, str], list[str]]:
    named = _named(kind)
    return lambda context, _, incomplete: named(context, incomplete)


def _names(kind: str, context: typer.Context) -> list[str]:
    """The names; none where anything at all is in the way, as a shell has no place for an error."""
    try:
        home = context.params.get("home")
        if home is None and (url := os.environ.get("PTK_URL")):
            return _names_behind(url, kind)
        from ptkstore.adapters.sql.names import names_in_file, names_on_server
        from ptkstore.settings import CATALOG, load_settings

        typed = (*context.params.values(), *context.args)  # args: before an option without its value
        ptk_id = next((one for one in typed if isinstance(one, str) and "." in one), "")
        settings = load_settings(home)
        with _at_once():
            if settings.database_url is None:
                return names_in_file(settings.root / CATALOG, kind, ptk_id)
            return names_on_server(settings.database_url, kind, ptk_id)
    except Exception:  # noqa: BLE001
        return []


def _names_behind(url: str, kind: str) -> list[str]:
    """Names of streams and PTKs that the token in `PTK_TOKEN` may see; others are not asked for."""
    from ptkstore.sdk.remote.transport import Transport, path_of

    listing = {"stream": ("streams", "name"), "ptk": ("ptks", "ptk_id")}.get(kind)
    if listing is None:
        return []
    transport = Transport(url, os.environ.get("PTK_TOKEN", ""))
    with _at_once():
        return sorted(transport.pages(path_of(listing[0]), lambda one: str(one[listing[1]])))


@contextmanager
def _at_once() -> Iterator[None]:
    """`TimeoutError` after as long as a shell waits, for example for a database that does not answer."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
