"""`python -m ptkstore.api`: the process of the HTTP API."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from fastapi import FastAPI

from ptkstore.adapters.processes import listen
from ptkstore.adapters.runtime import configure_logging, log_no_texts
from ptkstore.api.server import serve
from ptkstore.settings import load_settings
from ptkstore.wiring import Service


def nothing(app: FastAPI) -> None:
    """Serve the API alone."""


def main(beside: Callable[[FastAPI], None] = nothing, module: str = "ptkstore.api") -> None:
    """Serve the API of the store that the environment names; `beside`, the wish of another `module`, may mount more."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--certificate", type=Path)
    parser.add_argument("--key", type=Path)
    given = parser.parse_args()
    configure_logging()
    log_no_texts()
    sockets = listen(given.host, given.port)  # first: who cannot listen leaves no new store
    service = Service(load_settings())
    try:
        serve(service, sockets, certificate=given.certificate, key=given.key, beside=beside)
    finally:
        service.close()


if __name__ == "__main__":
    main()
