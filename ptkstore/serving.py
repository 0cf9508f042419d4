"""`python -m ptkstore.serving`: one process with the HTTP API, and the console beside it."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import RedirectResponse
from starlette.routing import Route

from ptkstore.api.__main__ import main as serve
from ptkstore.console.app import PREFIX, Console


def with_console(app: FastAPI) -> None:
    """Mount the console below `/console`, to which `/` leads.

    It asks the same parts for their health, counts the same requests and seeks near names at the same pace.
    """
    state = app.state
    console = Console(
        state.service, state.identity, state.parts.states, state.rates.take, state.near_names.allows
    )
    app.router.routes.append(Route("/", lambda _: RedirectResponse(f"{PREFIX}/", 307)))
    app.router.routes.append(Route(PREFIX, lambda _: RedirectResponse(f"{PREFIX}/", 308)))
    app.mount(PREFIX, console.app)


def main() -> None:
    """Serve the store that the environment names."""
    serve(with_console, "ptkstore.serving")


if __name__ == "__main__":
    main()
