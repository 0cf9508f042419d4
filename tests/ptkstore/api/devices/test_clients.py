"""The clients of devices against a real server: in Python, in JavaScript, and many by the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import structlog
from typer.testing import CliRunner

from ptklib.draw_discard import Device, ServerRefused
from ptkstore.cli.main import app
from ptkstore.domain.identity import Role
from ptkstore.errors import NotAllowed, UnknownName
from ptkstore.sdk import connect
from tests.ptkstore.api.devices.conftest import (
    COLUMNS,
    LIMITS,
    PTK,
    ROWS,
    STREAM,
    Phones,
    phones_of,
    specification,
)
from tests.support.api_server import Api
from tests.support.node import run_device


@pytest.fixture(scope="module", autouse=True)
def server_says_nothing() -> Iterator[None]:
    """The server's lines of its log would come between those of the commands, which run in the same process."""
    before = structlog.get_config()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), cache_logger_on_first_use=False)
    yield
    structlog.configure(**before)


@pytest.fixture
def phones(api: Api) -> Iterator[Phones]:
    with phones_of(api, window_ends=datetime.now(UTC) + timedelta(hours=1)) as made:
        yield made


def changed(before: dict[bytes, bytes], after: dict[bytes, bytes]) -> list[bytes]:
    return [after[place] for place in after if after[place] != before[place]]


def test_a_device_in_python_contributes(phones: Phones, tmp_path: Path) -> None:
    phones.tickets()
    before = phones.instances()
    device = Device(
        phones.api.url, tmp_path, limits=LIMITS, tickets=lambda: phones.tickets()[0], pace_seconds=0
    )
    kept = device.contribute(ROWS)
    (put,) = changed(before, phones.instances())
    assert len(put) == phones.n_bytes
    assert (kept.stream, kept.ptk, kept.window) == (STREAM, PTK, 4)
    assert kept.specification == phones.ptk.specification.digest
    with pytest.raises(ServerRefused) as caught:
        Device(phones.api.url, tmp_path / "other", limits=LIMITS).contribute(ROWS, "A" * 100)
    assert (caught.value.code, caught.value.counted) == ("ticket-forged", False)


def test_a_device_in_javascript_contributes(phones: Phones) -> None:
    tickets = phones.tickets(2)
    before = phones.instances()
    given: dict[str, Any] = {"url": phones.api.url, "stored": {}, "rows": ROWS, "options": {}}
    limits = LIMITS.to_json() | {"reports_per_window": 2}
    done = run_device(
        "contribute", given | {"limits": limits, "tickets": [tickets[0], tickets[0], tickets[1]]}
    )
    assert [one.get("code") for one in done["results"]] == [None, "limit-reached", "limit-reached"]
    assert done["results"][0]["kept"]["specification"] == phones.ptk.specification.digest
    (put,) = changed(before, phones.instances())
    assert np.frombuffer(put, "<i4").any()


def test_a_used_ticket_is_told_to_both(phones: Phones, tmp_path: Path) -> None:
    ticket, _ = phones.drawn()
    with pytest.raises(ServerRefused) as caught:
        Device(phones.api.url, tmp_path, limits=LIMITS, pace_seconds=0).contribute(ROWS, ticket)
    assert (caught.value.code, caught.value.counted) == ("ticket-used", False)
    given = {
        "url": phones.api.url,
        "stored": {},
        "rows": ROWS,
        "tickets": [ticket],
        "limits": LIMITS.to_json(),
    }
    (told,) = run_device("contribute", given)["results"]
    assert (told["problem"], told["counted"]) == ("ticket-used", False)


def test_a_changed_specification_is_asked_for_anew(phones: Phones, tmp_path: Path) -> None:
    phones.ptk = replace(phones.ptk, specification=specification(epsilon=4.0), report_epsilon=4.0)
    device = Device(
        phones.api.url, tmp_path, limits=LIMITS, tickets=lambda: phones.tickets()[0], pace_seconds=0
    )
    with pytest.raises(Exception, match="epsilon 4 and") as caught:
        device.contribute(ROWS)
    device.allow(caught.value.asked)  # type: ignore[attr-defined]
    assert device.contribute(ROWS).epsilon == pytest.approx(4.0)


def test_a_gateway_gets_tickets_by_the_client(phones: Phones) -> None:
    with connect(phones.api.url, token=phones.api.token(Role.DEVICE_GATEWAY)) as store:
        issued = store.issue_tickets(STREAM, PTK, 3)
        assert len(set(issued.tickets)) == 3
        assert issued.expires > phones.api.world.clock.now()
        assert issued.tickets[0] not in repr(issued)
        with pytest.raises(UnknownName):
            store.issue_tickets(STREAM, "taxi.other")
    assert phones.draw(issued.tickets[0]).status_code == 200
    with connect(phones.api.url, token=phones.api.token(Role.CONSUMER)) as store, pytest.raises(NotAllowed):
        store.issue_tickets(STREAM, PTK)
    (here,) = phones.api.world.service.issue_tickets(STREAM, PTK, 1).tickets
    assert phones.draw(here).status_code == 200


def ptk(phones: Phones, *words: str, code: int = 0, **environment: str) -> Any:
    token = phones.api.token(Role.DEVICE_GATEWAY)
    env = {"PTK_URL": phones.api.url, "PTK_TOKEN": token, "COLUMNS": "200"} | environment
    result = CliRunner().invoke(app, ["device", *words], env=env)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Rows of 40 devices: 30 have one, and 10 have two."""
    rows = {name: [0.5] * 50 for name in COLUMNS} | {"device": [f"d{i % 40}" for i in range(50)]}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    return str(tmp_path / "rows.parquet")


def test_many_devices_contribute_each_with_a_ticket_of_its_own(phones: Phones, table: str) -> None:
    words = ["simulate", STREAM, PTK, table, "--server", phones.api.url, "--threads", "4"]
    assert ptk(phones, *words, "--by", "device").stdout == "40 reports taken; refused: none\n"
    told = json.loads(ptk(phones, *words, "--json").stdout)
    assert told == {"devices": 50, "taken": 50, "refused": {}}


def test_reports_that_a_server_refuses_are_counted_by_their_code(phones: Phones, table: str) -> None:
    phones.ptk = replace(phones.ptk, report_epsilon=3.0)
    words = ["simulate", STREAM, PTK, table, "--server", phones.api.url, "--by", "device"]
    assert ptk(phones, *words, code=1).stdout == "0 reports taken; refused: 40 UntrustedAnswer\n"
    assert "has no column nobody" in ptk(phones, *words[:-1], "nobody", code=2).stderr


@pytest.mark.parametrize("server", ["https://ptk.invalid", "https://192.0.2.1", "https://127.0.0.1.invalid"])
def test_rows_of_people_are_sent_to_no_server_elsewhere(phones: Phones, table: str, server: str) -> None:
    words = ["simulate", STREAM, PTK, table, "--server", server]
    assert "on this machine" in ptk(phones, *words, code=2).stderr
    assert phones.redis.keys("*") == []  # not even tickets


def test_one_device_contributes_the_rows_of_a_file(phones: Phones, table: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "device")
    (ticket,) = phones.tickets()
    words = ["contribute", table, folder, "--server", phones.api.url]
    assert "put a ticket in PTK_TICKET" in ptk(phones, *words, code=2, PTK_TICKET="").stderr
    assert "nothing is allowed yet" in ptk(phones, *words, code=1, PTK_TICKET=ticket).stderr
    allowed = [word for name in COLUMNS for word in ("--column", name)]
    numbers = ["--report-epsilon", "3.5", "--reports-per-window", "1", "--reports-in-all", "8"]
    ptk(phones, "allow", folder, *numbers, *allowed)
    assert ptk(phones, *words, PTK_TICKET=ticket).stdout == f"one report to {PTK}: epsilon 3.47\n"
    assert "used up" in ptk(phones, *words, code=1, PTK_TICKET=phones.tickets()[0]).stderr
