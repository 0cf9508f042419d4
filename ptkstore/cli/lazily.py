"""Groups of commands whose modules are imported when one of their commands is run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ptkstore.cli.commands import COMMANDS

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter

WHOLE = 1_000
"""Characters of a sentence, none of which are cut off."""


class PlainGroup(TyperGroup):
    """Commands whose help is plain text, as Rich loads slowly."""

    def sections(self) -> dict[str, dict[str, str]]:
        """Return the headings of the help, and below each its commands with a sentence."""
        return {"Commands": {name: one.get_short_help_str(WHOLE) for name, one in self.commands.items()}}

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Print the sections, with whole sentences."""
        width = max(map(len, self.commands))
        for heading, lines in self.sections().items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), line) for name, line in lines.items()])


class LazyCommands(PlainGroup):
    """The commands of the table by person: name and help of each, until it is run."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for entries in COMMANDS.values():
            for name, entry in entries.items():
                self.add_command(TyperCommand(name, help=entry.summary), name)

    def sections(self) -> dict[str, dict[str, str]]:
        """Return the commands of the table by person."""
        return {
            person: {name: one.summary for name, one in entries.items()}
            for person, entries in COMMANDS.items()
        }

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Import the command that is run."""
        name, _, rest = super().resolve_command(ctx, args)
        if not ctx.resilient_parsing:
            return name, load(str(name)), rest
        from ptkstore.cli import completion  # what is typed is completed, and no command is run

        if name in completion.ARGUMENTS and completion.is_plain(rest):
            return name, completion.quickly(str(name)), rest
        return name, completion.with_names(load(str(name)), str(name)), rest


def load(name: str) -> Command:
    """Import the command of this name, or the group."""
    entry = next(entries[name] for entries in COMMANDS.values() if name in entries)
    alone = typer.Typer(callback=lambda: None, add_completion=False, rich_markup_mode=None)
    module, _, target_name = entry.place.partition(":")
    target = getattr(import_module(f"ptkstore.cli.{module}"), target_name)
    if isinstance(target, typer.Typer):
        alone.add_typer(target, name=name, cls=PlainGroup)
    else:
        alone.command(name, context_settings=dict(entry.settings))(target)
    group = typer.main.get_command(alone)
    assert isinstance(group, TyperGroup)
    return group.commands[name]
