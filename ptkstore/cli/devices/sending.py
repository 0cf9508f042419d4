"""Devices that send reports: one with the rows of a file, or many to try a server out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from ptkstore.cli.devices.common import Folder, told
from ptkstore.cli.output import (
    REFUSED,
    AsJson,
    Done,
    answers,
    console,
    counted,
    one_line,
    print_json,
    progress,
    reads,
)
from ptkstore.errors import InvalidRequest
from ptkstore.sdk import Store

if TYPE_CHECKING:
    import pyarrow as pa

TICKET = "PTK_TICKET"
TICKETS_AT_ONCE = 500
Server = Annotated[
    str, typer.Option(help="The server that devices ask: https://host, or http on this machine.")
]
Rows = dict[str, list[Any]]


@answers
def contribute(file: Path, folder: Folder, server: Server, as_json: AsJson = False) -> None:
    """Send one report on the rows of a file, with the ticket in PTK_TICKET.

    The folder says what is allowed (ptk device allow), and keeps what is lost. No row is sent.
    """
    from ptklib.draw_discard import Device
    from ptkstore.cli.streams.rows import read_table

    ticket = os.environ.get(TICKET)
    if not ticket:
        raise InvalidRequest(f"put a ticket in {TICKET}; the backend of the app gets tickets from the server")
    with told():
        kept = Device(server, folder).contribute(read_table(file, {}), ticket)
    text = f"one report to {kept.ptk}: epsilon {kept.epsilon:.6g}"
    Done(kept.to_json(), one_line(text)).show(as_json=as_json)


@reads
def simulate(
    store: Store,
    stream: str,
    ptk_id: str,
    file: Path,
    server: Server,
    by: Annotated[
        str | None, typer.Option(help="The column that names the device; else each row is one.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, max=64, help="Devices at once.")] = 8,
    as_json: AsJson = False,
) -> None:
    """Let many devices contribute, each with its own rows and ticket, and count what became of it.

    For trying a server out: they allow what the specification asks, remember nothing, and do not hide how long they
    compute. Nobody counts what is lost, so the server has to be on this machine.
    """
    from ptkstore.cli.streams.rows import read_table

    if not _is_loopback(server):
        raise InvalidRequest(
            "nobody counts what the rows of a file lose here: name a server on this machine, http://127.0.0.1"
        )
    devices = devices_of(read_table(file, {}), by)
    done = count(1)
    with progress("devices", len(devices)) as tell:
        outcomes = contribute_all(
            devices,
            server,
            tickets=lambda n: store.issue_tickets(stream, ptk_id, n).tickets,
            threads=threads,
            tell=lambda: tell("devices", next(done)),
        )
    taken = outcomes.pop("taken", 0)
    if as_json:
        print_json({"devices": len(devices), "taken": taken, "refused": dict(outcomes)})
    else:
        refused = ", ".join(f"{n} {code}" for code, n in sorted(outcomes.items())) or "none"
        console.print(one_line(f"{counted(taken, 'report')} taken; refused: {refused}"), highlight=False)
    if devices and not taken:
        raise typer.Exit(REFUSED)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def devices_of(table: pa.Table, by: str | None) -> list[Rows]:
    """Return the rows of each device, by the names of columns."""
    rows: Rows = table.to_pydict()
    if by is None:
        return [{name: [column[row]] for name, column in rows.items()} for row in range(table.num_rows)]
    if by not in rows:
        raise InvalidRequest(f"the file has no column {by}")
    places: dict[Any, list[int]] = {}
    for place, device in enumerate(rows.pop(by)):
        places.setdefault(device, []).append(place)
    return [{name: [column[row] for row in own] for name, column in rows.items()} for own in places.values()]


def contribute_all(
    devices: Sequence[Rows],
    server: str,
    *,
    tickets: Callable[[int], Sequence[str]],
    threads: int,
    tell: Callable[[], None],
) -> Counter[str]:
    """Let each device send a report; return how many ended how: ``taken``, or the code of an error."""
    outcomes: Counter[str] = Counter()
    with ThreadPoolExecutor(threads) as pool:
        for own in _parts(devices):
            for outcome in pool.map(
                lambda pair: _outcome(server, *pair), zip(own, tickets(len(own)), strict=True)
            ):
                outcomes[outcome] += 1
                tell()
    return outcomes


def _outcome(server: str, rows: Rows, ticket: str) -> str:
    from ptklib.draw_discard import Device, DeviceError, ServerRefused

    with TemporaryDirectory(prefix="ptk-device-") as home:
        device = Device(server, home, ask=lambda _: True, pace_seconds=0.0)
        try:
            device.contribute(rows, ticket)
        except ServerRefused as error:
            return error.code
        except DeviceError as error:
            return type(error).__name__
    return "taken"


def _parts(devices: Sequence[Rows]) -> Iterator[Sequence[Rows]]:
    for start in range(0, len(devices), TICKETS_AT_ONCE):
        yield devices[start : start + TICKETS_AT_ONCE]
