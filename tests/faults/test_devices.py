"""Kills of the API, the schedule, workers and the devices' Redis while devices report."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest
import redis

from ptkstore.adapters.devices.keys import counts_key
from ptkstore.adapters.processes import Supervisor
from ptkstore.cli.service.machine import running
from ptkstore.domain.identity import Role
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.tickets import Ticket
from ptkstore.ports.devices import Epoch
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity
from tests.support.device_streams import PHONES, PTK, SCHEMA, device_policy, phishy
from tests.support.waiting import free_port, until
from tests.support.world import DAY, ORIGIN

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(1_500)]

REPORTS = 100_000
KILLED = ("devices-redis", "api", "worker", "devices-redis", "schedule", "api", "worker")
WAIT_SECONDS = 300.0
LOST = (0, 503)
"""Answers after which a report may have been taken all the same; 0 is none at all."""


class Wire:
    """A connection to the API that is made anew whenever it breaks."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=20)

    def ask(
        self, path: str, authorization: str, body: bytes = b"", kind: str = "octet-stream"
    ) -> tuple[int, bytes]:
        """The status and body of an answer; 0 where there was no whole one."""
        headers = {"Authorization": authorization, "Content-Type": f"application/{kind}"}
        try:
            self._connection.request("POST", path, body=body, headers=headers)
            reply = self._connection.getresponse()
            status, content = reply.status, reply.read()
        except (OSError, HTTPException):
            self._connection.close()
            status, content = 0, b""
        if status in LOST:
            time.sleep(0.2)
        return status, content

    def put(self, ticket: str, report: bytes) -> int:
        return self.ask("/v1/device/put", f"Ticket {ticket}", report)[0]


class Phones(threading.Thread):
    """Devices that report one after the other, whatever fails; one in ten tries to use its ticket twice."""

    def __init__(self, port: int, token: str, read: Callable[[str], Ticket]) -> None:
        super().__init__()
        self._wire, self._token, self._read = Wire(port), token, read
        self.stop = threading.Event()
        self.answers: Counter[int] = Counter()
        self.taken: Counter[str] = Counter()
        """By epoch, as those of which nobody can tell."""
        self.perhaps_taken: Counter[str] = Counter()
        self.taken_twice = 0
        self.recent: deque[tuple[str, bytes]] = deque(maxlen=50)

    def run(self) -> None:
        asked = json.dumps({"ptk": PTK, "count": 200}).encode()
        path = f"/v1/device-streams/{PHONES}/tickets"
        while not self.stop.is_set():
            status, content = self._wire.ask(path, f"Bearer {self._token}", asked, "json")
            for ticket in json.loads(content)["tickets"] if status == 201 else ():
                if self.stop.is_set() or not self._reports(ticket):
                    break

    def _reports(self, ticket: str) -> bool:
        """Whether other tickets of the epoch may be good."""
        status, drawn = self._wire.ask("/v1/device/draw", f"Ticket {ticket}")
        self.answers[status] += 1
        if status != 200:
            return status != 409
        puts = [self._wire.put(ticket, drawn)]
        while puts[-1] in LOST and not self.stop.is_set():  # the same report, as devices do
            puts.append(self._wire.put(ticket, drawn))
        if self.taken.total() % 10 == 0:
            puts.append(self._wire.put(ticket, drawn))
        self.answers.update(puts)
        epoch = self._read(ticket).epoch
        if 204 in puts:
            self.taken[epoch] += 1
            self.recent.append((ticket, drawn))
        elif not set(puts).isdisjoint(LOST):
            self.perhaps_taken[epoch] += 1
        self.taken_twice += puts.count(204) > 1
        return True


class Crowd:
    """All phones, the service that they report to, and its instances."""

    def __init__(self, service: Service, phones: Sequence[Phones]) -> None:
        self.service, self.phones = service, phones

    def taken(self, epoch: str | None = None) -> int:
        """How many reports were taken, by what phones were answered."""
        return sum(one.taken.total() if epoch is None else one.taken[epoch] for one in self.phones)

    def until_more(self, n: int) -> None:
        """Wait until so many reports more were taken."""
        before = self.taken()
        until(lambda: self.taken() >= before + n, seconds=WAIT_SECONDS + n / 100)

    def epoch(self) -> Epoch:
        found = self.service.instances.epoch(PTK)
        assert found is not None
        return found

    def counted(self, epoch: Epoch) -> Mapping[str, int]:
        """Reports of an epoch that were put, and those `before` that what it began with counts for."""
        with redis.Redis.from_url(self.service.devices_redis_url) as client:
            found = client.hgetall(counts_key(PTK, epoch.id))
        return Counter({name.decode(): int(count) for name, count in found.items()})

    def until_written_after(self) -> None:
        """Wait for a checkpoint that has all that is counted now: one that was begun after another was written."""
        for _ in range(2):
            before = self.service.checkpoints.newest(PTK)
            until(lambda: self.service.checkpoints.newest(PTK) != before, seconds=WAIT_SECONDS)  # noqa: B023

    def use_again(self, wire: Wire) -> None:
        """Tickets that were taken a moment ago are taken no second time, whatever was killed meanwhile."""
        for one in self.phones:
            for ticket, report in one.recent.copy():
                while (status := wire.put(ticket, report)) in LOST:
                    pass
                assert status == 409


def kill(supervisor: Supervisor, name: str) -> None:
    def pid() -> int | None:
        return next(one.pid for one in supervisor.status() if one.name == name)

    until(lambda: pid() is not None, seconds=WAIT_SECONDS)
    os.kill(pid() or 0, signal.SIGKILL)


def test_kills_lose_what_came_since_a_checkpoint_at_most_and_no_ticket_counts_twice(tmp_path: Path) -> None:
    port = free_port()
    settings = Settings(home=tmp_path / "home", device_reports_per_second=0.0, publish_tick_seconds=0.5)
    service = Service(settings)
    identity = Identity(service)
    service.create_stream(Stream(PHONES, "taxi", SCHEMA, device_policy()))
    service.register_ptk(team="taxi", name="phishy", stream=PHONES, estimator=phishy(), train_frequency="1d")
    identity.create_team("taxi")
    _, token = identity.issue_token("taxi", [Role.DEVICE_GATEWAY])

    def read(text: str) -> Ticket:
        found = service.devices.read_ticket(text)
        assert isinstance(found, Ticket)
        return found

    with running(settings, api_port=port) as supervisor:
        crowd = Crowd(service, [Phones(port, token, read) for _ in range(4)])
        for one in crowd.phones:
            one.start()
        try:
            for window, name in enumerate(KILLED):
                crowd.until_more(REPORTS // (len(KILLED) + 1))
                strike(name, window, crowd, supervisor)
                crowd.use_again(Wire(port))
            crowd.until_more(REPORTS - crowd.taken())
        finally:
            for one in crowd.phones:
                one.stop.set()
            for one in crowd.phones:
                one.join()
        assert not any(one.taken_twice for one in crowd.phones)
        answers = sum((one.answers for one in crowd.phones), Counter[int]())
        assert set(answers) <= {0, 200, 204, 409, 503}, answers
        check_end(crowd)
    service.close()


def strike(name: str, window: int, crowd: Crowd, supervisor: Supervisor) -> None:
    """Close a window, kill a process meanwhile, and look at what is counted once reports are taken again."""
    epoch = crowd.epoch()
    kept = crowd.counted(epoch)["before"] + crowd.taken(epoch.id)
    if name == "devices-redis":
        crowd.until_written_after()
        crowd.until_more(500)
    crowd.service.close_windows(PHONES, ORIGIN + (window + 1) * DAY)
    kill(supervisor, name)
    crowd.until_more(100)
    now = crowd.epoch()
    assert (now == epoch) == (name != "devices-redis")
    counted = crowd.counted(now)
    if now == epoch:
        assert counted["before"] + counted["put"] >= kept
    else:
        assert counted["before"] >= kept


def check_end(crowd: Crowd) -> None:
    """Each report that was answered counts, and no ticket counts twice; versions have no gap; keys are those needed."""
    service, epoch = crowd.service, crowd.epoch()
    taken, perhaps = crowd.taken(epoch.id), sum(one.perhaps_taken[epoch.id] for one in crowd.phones)
    assert taken <= crowd.counted(epoch)["put"] <= taken + perhaps
    assert service.instances.all(PTK, epoch.id).shape == (3, 4)
    until(lambda: len(service.versions(PTK)) >= len(KILLED), seconds=WAIT_SECONDS)
    versions = service.versions(PTK)
    assert [one.number for one in versions] == list(range(1, len(KILLED) + 1))
    assert [one.window_index for one in versions] == list(range(len(KILLED)))

    def has_key() -> bool:
        last = service.checkpoints.newest(PTK)
        of_epoch = last is not None and last.startswith(epoch.id[:8])
        return of_epoch and (PTK, last) in service.keys.checkpoints()

    until(has_key, seconds=60)
    assert {ptk_id for ptk_id, _ in service.keys.checkpoints()} == {PTK}
