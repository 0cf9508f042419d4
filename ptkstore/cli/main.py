"""The command `ptk`."""

from __future__ import annotations

import gc
from typing import Annotated

from ptkstore.cli.lacking import errors_in_one_line

with errors_in_one_line():
    import typer

    from ptkstore.adapters.runtime import configure_logging
    from ptkstore.cli.lazily import LazyCommands

app = typer.Typer(
    cls=LazyCommands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"ptk {version('ptkstore')}")
        raise typer.Exit


@app.callback()
def ptk(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Share what sensitive event streams know, as differentially private feature models."""


def main() -> None:
    """Entry point of the command."""
    with errors_in_one_line():
        configure_logging(when_needed=True)
        gc.set_threshold(100_000)  # imports make many objects and free none: collecting then costs a tenth
        try:
            app()
        finally:
            gc.freeze()  # the process ends: Python need not look through what the system takes back anyway


if __name__ == "__main__":
    main()
