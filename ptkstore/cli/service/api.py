"""The command `ptk api`: serve the HTTP API and the console."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ptkstore.adapters.processes import check_port
from ptkstore.cli.output import Home, answers, check_store
from ptkstore.cli.service.machine import environment
from ptkstore.errors import InvalidRequest
from ptkstore.settings import load_settings


@answers
def api(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on.")] = 8000,
    certificate: Annotated[
        Path | None, typer.Option(help="PEM file of the certificate, to serve https.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="PEM file of its private key.")] = None,
    home: Home = None,
) -> None:
    """Serve the HTTP API and the console until interrupted. The first token is made by ptk token create --admin."""
    if (certificate is None) != (key is None):
        raise InvalidRequest("--certificate and --key go together")
    settings = load_settings(home)
    check_store(settings)
    files = () if certificate is None else ("--certificate", str(certificate), "--key", str(key))
    argv = (sys.executable, "-m", "ptkstore.serving", "--host", host, "--port", str(port), *files)
    check_port(host, port)  # told here in one line; the server listens itself
    sys.stdout.flush()
    sys.stderr.flush()
    # In the place of this process, so that signals reach the server itself.
    os.execve(sys.executable, argv, environment(settings))
