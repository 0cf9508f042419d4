"""Kills of the API, the schedule, workers and the devices' Redis while devices report: no ticket counts twice."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from ptkstore.adapters.processes import Supervisor
from ptkstore.cli.service.machine import running
from ptkstore.domain.identity import Role
from ptkstore.domain.streams.streams import Stream
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity
from tests.support.device_streams import PHONES, PTK, SCHEMA, device_policy, phishy
from tests.support.waiting import free_port, until

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(600)]

KILLED = ("devices-redis", "api", "schedule", "devices-redis", "worker", "api")


class Phones(threading.Thread):
    """Devices that report one after the other, whatever fails, and try to use each ticket twice."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__()
        self._url, self._token = url, token
        self.stop = threading.Event()
        self.answers: Counter[int | str] = Counter()
        self.taken_twice = 0

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=20, trust_env=False) as client:
            while not self.stop.is_set():
                try:
                    self._reports(client)
                except httpx.HTTPError as error:
                    self.answers[type(error).__name__] += 1
                    time.sleep(0.05)

    def _reports(self, client: httpx.Client) -> None:
        bearer = {"Authorization": f"Bearer {self._token}"}
        body = {"ptk": PTK, "count": 5}
        reply = client.post(f"/v1/device-streams/{PHONES}/tickets", json=body, headers=bearer)
        for ticket in reply.json()["tickets"] if reply.status_code == 201 else ():
            headers = {"Authorization": f"Ticket {ticket}", "Content-Type": "application/octet-stream"}
            drawn = client.post("/v1/device/draw", headers=headers)
            if drawn.status_code != 200:
                self.answers[drawn.status_code] += 1
                continue
            puts = [client.post("/v1/device/put", headers=headers, content=drawn.content) for _ in range(2)]
            self.answers.update(put.status_code for put in puts)
            self.taken_twice += [put.status_code for put in puts].count(204) > 1


def kill(supervisor: Supervisor, name: str) -> None:
    pid = next(one.pid for one in supervisor.status() if one.name == name)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)


def until_thirty_more(phones: Sequence[Phones]) -> None:
    """Wait until so many reports more were taken."""

    def taken() -> int:
        return sum(one.answers[204] for one in phones)

    before = taken()
    until(lambda: taken() > before + 30, seconds=90)


def test_kills_lose_reports_of_seconds_and_no_ticket_counts_twice(tmp_path: Path) -> None:
    port = free_port()
    settings = Settings(home=tmp_path / "home")
    service = Service(settings)
    identity = Identity(service)
    service.create_stream(Stream(PHONES, "taxi", SCHEMA, device_policy()))
    service.register_ptk(team="taxi", name="phishy", stream=PHONES, estimator=phishy(), train_frequency="1d")
    identity.create_team("taxi")
    _, token = identity.issue_token("taxi", [Role.DEVICE_GATEWAY])
    with running(settings, api_port=port) as supervisor:
        phones = [Phones(f"http://127.0.0.1:{port}", token) for _ in range(3)]
        for one in phones:
            one.start()
        try:
            for name in KILLED:
                until_thirty_more(phones)
                kill(supervisor, name)
            until_thirty_more(phones)
        finally:
            for one in phones:
                one.stop.set()
            for one in phones:
                one.join()
        assert not any(one.taken_twice for one in phones)
        answers: Counter[int | str] = sum((one.answers for one in phones), Counter())
        assert set(answers) <= {204, 409, 401, 503, "ConnectError", "ReadError", "RemoteProtocolError"}, (
            answers
        )
        epoch = service.instances.epoch(PTK)
        assert epoch is not None
        assert service.instances.all(PTK, epoch.id).shape == (3, 4)

        def has_key() -> bool:
            last = service.checkpoints.newest(PTK)
            of_epoch = last is not None and last.startswith(epoch.id[:8])
            return of_epoch and (PTK, last) in service.keys.checkpoints()

        until(has_key, seconds=60)
        assert {ptk_id for ptk_id, _ in service.keys.checkpoints()} == {PTK}
    service.close()
