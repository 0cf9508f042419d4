"""The command `ptk up`: every process of the service on this machine."""

from __future__ import annotations

import http.client
import queue
import signal
import threading
import time
from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console

from ptkstore.adapters.processes import RedisServer
from ptkstore.cli.output import Home, answers, console, progress, said
from ptkstore.settings import Settings, load_settings, shown_value

HOST = "127.0.0.1"
PATIENCE_SECONDS = 60.0
LOOK_EVERY_SECONDS = 0.1
ENDS_KEPT = 100
"""Ends of processes that are yet to be told, while the terminal stands still; others stay in the logs alone."""


@answers
def up(
    api_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Also serve the HTTP API on this port of loopback.")
    ] = None,
    home: Home = None,
) -> None:
    """Run every process of the service on this machine until interrupted."""
    from ptkstore.cli.service.machine import running

    settings = load_settings(home)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    ends: queue.Queue[str] = queue.Queue(ENDS_KEPT)

    def ended(name: str, pid: int, code: int | None) -> None:
        """Keep what to say of a process that ended: a terminal that stands still must not stop the supervisor."""
        if code is not None and not stop.is_set():
            how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
            log = settings.root / "log" / f"{name}.log"
            with suppress(queue.Full):
                ends.put_nowait(f"{name} (process {pid}) {how}; it is started again; see {log}")

    with running(settings, api_port=api_port, listener=ended) as supervisor:
        names = ", ".join(status.name for status in supervisor.status())
        _say(f"running {names} in {settings.root}; logs in {settings.root / 'log'}; stop with Ctrl-C")
        redis = shown_value(settings, "redis_url") or RedisServer(settings.root).client_url
        _say(f"Redis: {redis}")
        if api_port is not None:
            with progress("waiting for the API to answer"):
                answered = _wait_for_api(api_port, stop)
            _say_address(api_port, settings, answered=answered, stopped=stop.is_set())
        while not stop.wait(LOOK_EVERY_SECONDS):
            with suppress(queue.Empty):
                _say(ends.get_nowait(), said)
        _say("stopping, which may take some seconds")
    _say("stopped")


def _wait_for_api(port: int, stop: threading.Event) -> bool:
    """Return whether it answers before the wait ends, or somebody stops the service."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not server_answers(port):
        if stop.wait(LOOK_EVERY_SECONDS) or time.monotonic() > until:
            return False
    return True


def _say_address(port: int, settings: Settings, *, answered: bool, stopped: bool) -> None:
    """Say where the API is, or where its log is."""
    if not answered:
        if not stopped:
            log = settings.root / "log" / "api.log"
            _say(f"the API does not answer after {PATIENCE_SECONDS:g} s; see {log}", said)
        return
    _say(f"API: http://{HOST}:{port} (OpenAPI at /openapi.json); console: http://{HOST}:{port}/console/")


def server_answers(port: int) -> bool:
    """Tell whether an HTTP API answers on this port of loopback."""
    connection = http.client.HTTPConnection(HOST, port, timeout=1.0)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _say(text: str, where: Console = console) -> None:
    """A message that cannot be written, on a full disk or a closed pipe, does not end the service."""
    with suppress(OSError, SystemExit):  # of a closed pipe Rich makes an exit
        where.print(text, markup=False, highlight=False, soft_wrap=True)
