"""The command `ptk ui`: the console of a home on this machine, without a token to paste."""

from __future__ import annotations

import os
import platform
import secrets
import signal
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from ptkstore.adapters.processes import OneTimeLinks, check_port
from ptkstore.adapters.processes.logs import open_log
from ptkstore.adapters.processes.private_paths import private_directory
from ptkstore.cli.officers.identity import ADMINISTRATORS
from ptkstore.cli.output import Home, answers, check_store, console, opened
from ptkstore.cli.service.up import HOST, LOOK_EVERY_SECONDS, PATIENCE_SECONDS, server_answers
from ptkstore.domain.audit import subject_of
from ptkstore.domain.identity import STREAM_ROLES, Action, Role
from ptkstore.errors import Unavailable
from ptkstore.sdk.store import HomeStore
from ptkstore.settings import Settings, load_settings

LIFE = timedelta(hours=12)  # as long as a session of the console lives
LABEL = "ptk ui"
ROLES = STREAM_ROLES - {Role.DEVICE_GATEWAY} | {Role.ADMINISTRATOR}
STOPS_WITHIN_SECONDS = 30.0


@answers
def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port of the HTTP API on loopback.")] = 8000,
    team: Annotated[
        str | None,
        typer.Option(
            help="The team whose pages you see: by default the one team that owns streams, else administrators."
        ),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open a browser, or only print the link.")] = True,
    home: Home = None,
) -> None:
    """Open the console of a home on this machine, signed in by a link that works once.

    If no server answers on the port, this command serves the API and the console until it is interrupted. The link
    works for two minutes, at this address alone. The person who opens it acts for the team, and is an administrator.
    """
    settings = load_settings(home)
    check_store(settings)
    with _served(settings, port) as server:
        with opened(home) as store:
            url = _link(store, settings, port, team, browser=browser)
        if url is not None:
            _say(f"open within two minutes, once: {url}")
        if server is not None:
            _say(
                f"serving the API and the console of {settings.root}; ptk up runs its workers; stop with Ctrl-C"
            )
            server.wait()


@contextmanager
def _served(settings: Settings, port: int) -> Iterator[subprocess.Popen[bytes] | None]:
    """A server on the port: one that answers already, or a new one as long as this block."""
    if server_answers(port):
        yield None
        return
    from ptkstore.cli.service.machine import environment

    check_port(HOST, port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupted)
    command = (sys.executable, "-m", "ptkstore.serving", "--host", HOST, "--port", str(port))
    log = settings.root / "log" / "ui.log"
    private_directory(log.parent, tighten=True)
    with (
        os.fdopen(open_log(log), "ab") as output,
        subprocess.Popen(command, env=environment(settings), stdout=output, stderr=output) as server,
    ):
        try:
            _wait_for(server, port, log)
            yield server
        except KeyboardInterrupt:
            pass
        finally:
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(STOPS_WITHIN_SECONDS)
            server.kill()


def _wait_for(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not server_answers(port):
        if server.poll() is not None or time.monotonic() > until:
            raise Unavailable(f"the server does not answer on port {port}; see {log}")
        time.sleep(LOOK_EVERY_SECONDS)


def _link(store: HomeStore, settings: Settings, port: int, team: str | None, *, browser: bool) -> str | None:
    """Open a browser with a new link, or return the link where there is none."""
    address = f"{HOST}:{port}"
    owners = {stream.team for stream in store.service.streams()}
    holder = team or (min(owners) if len(owners) == 1 else ADMINISTRATORS)
    identity = store.service.identity
    with identity.recorded(Action.TOKEN_ISSUE, subject_of("team", holder), secrets.token_hex(8), None):
        if holder in {*owners, ADMINISTRATORS}:  # who works in a home may never have needed the team
            identity.create_team(holder)
        token, _ = identity.issue_token(holder, ROLES, label=LABEL, life=LIFE)  # nobody gets its text
    links = OneTimeLinks(settings.root)
    secret = links.make(token.id, address, store.service.clock.now())
    url = f"http://{address}/console/open?link={secret}"
    if browser and _has_browser():
        page = links.write_page(secret, url)
        with suppress(webbrowser.Error):
            if webbrowser.open(page.as_uri()):
                _say("the console opens in your browser; if it does not: ptk ui --no-browser")
                return None
    return url


def _has_browser() -> bool:
    """Tell whether a browser with a window can be started; one in this terminal would be in the way."""
    if platform.system() == "Linux":
        return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    return not os.environ.get("SSH_CONNECTION")


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    sys.stdout.flush()
