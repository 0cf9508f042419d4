"""Groups of commands whose modules are imported when one of their commands is run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ptkstore.cli.commands import COMMANDS, Entry

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter

WHOLE = 1_000
"""Characters of a sentence, none of which are cut off."""


class PlainGroup(TyperGroup):
    """Commands whose help is plain text, as Rich loads slowly."""

    def sections(self) -> dict[str, dict[str, str]]:
        """Headings of the help, and under each the commands with a sentence on each."""
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
        """A section for each person."""
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
    """The command of this name, or the group, with all it imports."""
    entry = next(entries[name] for entries in COMMANDS.values() if name in entries)
    alone = typer.Typer(callback=lambda: None, add_completion=False, rich_markup_mode=None)
    target = _imported(entry)
    if isinstance(target, typer.Typer):
        alone.add_typer(target, name=name, cls=PlainGroup)
    else:
        alone.command(name, context_settings=dict(entry.settings))(target)
    group = typer.main.get_command(alone)
    assert isinstance(group, TyperGroup)
    return group.commands[name]


def _imported(entry: Entry) -> Any:
    module, _, name = entry.place.partition(":")
    return getattr(import_module(f"ptkstore.cli.{module}"), name)
