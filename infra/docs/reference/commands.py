"""The page of the commands, made from the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from infra.docs.reference.marks import MADE, prose, table
from ptkstore.cli.commands import COMMANDS
from ptkstore.cli.lazily import load

INTRODUCTION = """\
# The command line

`ptk` works in a home on this machine, which `--home` or `PTK_HOME` names. Commands that read also work over HTTP: set `PTK_URL` and `PTK_TOKEN`.

- `--home` and `--json` are options of almost every command, and no table below repeats them. `--json` prints JSON for programs instead of tables.
- The exit code is 0 when the command is done, 1 when it was refused or failed, and 2 when it was called wrongly.
- An error begins with its code. [Error codes](errors.md) says what to do about each.
- `ptk COMMAND --help` shows the same text as this page. `ptk --install-completion` completes commands, options and names.
"""


def page() -> str:
    """Return the page."""
    return "\n".join([INTRODUCTION.rstrip(), "", MADE, "", *_sections()]).rstrip() + "\n"


def _sections() -> Iterator[str]:
    for person, entries in COMMANDS.items():
        yield f"## {person}\n"
        for name in entries:
            yield from _command(f"ptk {name}", load(name))


def _command(name: str, command: Any) -> Iterator[str]:
    yield f"### {name}\n"
    if command.help:
        yield f"{prose(command.help)}\n"
    within = getattr(command, "commands", None)
    if within is not None:
        for one, below in within.items():
            yield from _command(f"{name} {one}", below)
        return
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    shown = [one for one in options if one.name not in ("home", "as_json")]
    yield f"```\n{' '.join([name, '[OPTIONS]' if options else '', *map(_named, arguments)])}\n```\n"
    if arguments:
        rows = [[f"`{_name(one)}`", prose(one.help or ""), _value(one)] for one in arguments]
        yield f"{table(['argument', 'meaning', 'value'], rows)}\n"
    if shown:
        rows = [[_spelled(one), prose(one.help or ""), _value(one)] for one in shown]
        yield f"{table(['option', 'meaning', 'value'], rows)}\n"


def _named(argument: Any) -> str:
    name = f"{_name(argument)}{'...' if argument.nargs == -1 else ''}"
    return name if argument.required else f"[{name}]"


def _spelled(option: Any) -> str:
    return " ".join(f"`{one}`" for one in [*option.opts, *option.secondary_opts])


def _value(one: Any) -> str:
    """Say what a value is of, and what it is where none is given."""
    words = (
        []
        if getattr(one, "is_flag", False)
        else [f"`{one.metavar or _kind(one.type_descriptor.annotation)}`"]
    )
    if one.required and one.param_type_name == "option":
        words.append("required")
    if getattr(one, "multiple", False):
        words.append("may be repeated")
    usual = one.default
    if usual not in (None, False, (), [], "") and not callable(usual) and not one.required:
        words.append(f"default `{getattr(usual, 'value', usual)}`")
    return ", ".join(words)


def _kind(annotation: Any) -> str:
    """Return what is typed for a value of this type."""
    within = [one for one in get_args(annotation) if one is not type(None)]
    if get_origin(annotation) is Literal:
        return " or ".join(map(str, within))
    if within:
        return _kind(within[0])
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(str(one.value) for one in annotation)
    return {str: "TEXT", Path: "PATH", int: "INTEGER", float: "NUMBER", datetime: "TIME"}.get(
        annotation, "TEXT"
    )


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())
