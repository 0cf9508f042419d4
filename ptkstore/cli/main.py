"""The command `ptk`."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from ptkstore.cli.lazily import LazyCommands

app = typer.Typer(
    cls=LazyCommands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"ptk {version('ptkstore')}")
        raise typer.Exit


@app.callback()
def ptk(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Share what sensitive event streams know, as differentially private feature models."""
    if callable(context.obj):
        context.obj()


def _configure_logging() -> None:
    from ptkstore.adapters.world import configure_logging

    configure_logging()


def main() -> None:
    """Entry point of the command."""
    app(obj=_configure_logging)  # once it is known which command is run: help needs no logs


if __name__ == "__main__":
    main()
