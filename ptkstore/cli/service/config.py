"""The command `ptk config`."""

from __future__ import annotations

from ptkstore.cli.output import AsJson, Home, answers, print_rows
from ptkstore.settings import load_settings, shown_settings


@answers
def config(home: Home = None, as_json: AsJson = False) -> None:
    """Print the settings with their sources, secrets masked."""
    print_rows(shown_settings(load_settings(home)), as_json=as_json, title="Settings", nothing="")
