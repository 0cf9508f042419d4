"""Server-sent events of new versions."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ptkstore.api.limits import Limits
from ptkstore.domain.identity import Role
from tests.support.api_server import Api, problem
from tests.support.waiting import until

PATH = "/v1/ptks/taxi.speed/events"
# Heartbeats come quickly, so that a test sees what happens at one.
QUICK = Limits(event_heartbeat=0.2, event_poll=0.05, event_streams=3, event_streams_per_team=2)
LONG_SECONDS = 60.0


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with Api(tmp_path / "home", QUICK) as api:
        api.world.stream()
        api.world.register()
        api.identity.create_team("taxi")
        yield api


class Listener:
    """Reads an event stream in a thread."""

    def __init__(self, client: httpx.Client, **headers: str) -> None:
        self._client, self._headers = client, headers
        self.events: queue.Queue[dict[str, Any]] = queue.Queue()
        self.opened, self.ended = threading.Event(), threading.Event()
        self.beats = 0
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Listener:
        self._thread.start()
        assert self.opened.wait(LONG_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave.set()
        self._thread.join(LONG_SECONDS)
        assert not self._thread.is_alive()

    def _listen(self) -> None:
        event: dict[str, Any] = {}
        with self._client.stream("GET", PATH, headers=self._headers) as reply:
            assert reply.headers["content-type"].startswith("text/event-stream")
            for line in reply.iter_lines():
                self.opened.set()  # the first line comes once it is known what is new
                self.beats += line.startswith(":")
                name, _, value = line.partition(": ")
                if name in ("id", "event", "data"):
                    event[name] = value
                elif not line and event:
                    self.events.put(event)
                    event = {}
                if self._leave.is_set():
                    return
        self.ended.set()

    def next(self) -> dict[str, Any]:
        return self.events.get(timeout=LONG_SECONDS)


@pytest.mark.long
def test_new_versions_are_told_in_order_once_they_are_online(api: Api) -> None:
    with Listener(api.acting(Role.CONSUMER)) as listener:
        for day in range(3):
            api.world.publish(day)
        events = [listener.next() for _ in range(3)]
    assert [(e["id"], e["event"]) for e in events] == [(str(n), "ptk.state.published") for n in (1, 2, 3)]
    (first, *_) = api.world.service.versions("taxi.speed")
    data = json.loads(events[0]["data"])
    assert (data["type"], data["data"]["version"], data["data"]["sha256"]) == (
        "ptk.state.published",
        1,
        first.sha256,
    )
    assert "speed_mean" not in events[0]["data"]  # thin: no feature values


@pytest.mark.long
def test_a_listener_that_comes_back_hears_what_it_missed_and_nothing_twice(api: Api) -> None:
    for day in range(3):
        api.world.publish(day)
    client = api.acting(Role.CONSUMER)
    with Listener(client, **{"Last-Event-ID": "1"}) as listener:
        assert [listener.next()["id"] for _ in range(2)] == ["2", "3"]
    with Listener(client, **{"Last-Event-ID": "99"}) as listener:  # more than there is: only what comes
        api.world.publish(3)
        assert listener.next()["id"] == "4"


def test_a_version_that_is_not_online_yet_is_not_told(api: Api) -> None:
    with Listener(api.acting(Role.CONSUMER)) as listener:
        api.world.ingest((0.5,))
        api.world.close(1)
        api.world.work("prepare", "allocate", "train", "place")
        beats = listener.beats
        until(lambda: listener.beats > beats + 1)
        assert listener.events.empty()
        api.world.work("flip")
        assert listener.next()["id"] == "1"


def test_a_silent_stream_shows_that_it_lives_and_ends_with_its_token(api: Api) -> None:
    token, text = api.identity.issue_token("taxi", [Role.CONSUMER])
    with Listener(api.client(text)) as listener:
        until(lambda: listener.beats >= 2)
        api.identity.revoke_token(token.id)
        api.world.clock.pass_(seconds=1)
        assert listener.ended.wait(LONG_SECONDS)


def test_a_revoked_token_hears_of_no_further_version_between_two_heartbeats(tmp_path: Path) -> None:
    slow = Limits(event_heartbeat=LONG_SECONDS, event_poll=0.05)
    with Api(tmp_path / "home", slow) as api:
        api.world.stream()
        api.world.register()
        api.identity.create_team("taxi")
        token, text = api.identity.issue_token("taxi", [Role.CONSUMER])
        listener = Listener(api.client(text))
        listener.__enter__()
        api.identity.revoke_token(token.id)
        api.world.publish(0)
        until(lambda: listener.ended.is_set() or not listener.events.empty())
        assert listener.events.empty()


def test_places_are_bounded_per_team_and_in_all_and_free_again(api: Api) -> None:
    api.grant("ads", "taxi", Role.CONSUMER)
    taxi, ads = api.acting(Role.CONSUMER), api.acting(Role.CONSUMER, team="ads")
    with Listener(taxi), Listener(taxi):
        assert problem(taxi.get(PATH)) == (503, "unavailable")
        with Listener(ads):
            assert problem(ads.get(PATH)) == (503, "unavailable")
            assert "ptk_http_event_streams 3.0" in api.acting(Role.ADMINISTRATOR).get("/metrics").text
    admin = api.acting(Role.ADMINISTRATOR)
    until(lambda: "ptk_http_event_streams 0.0" in admin.get("/metrics").text)
    with Listener(taxi):
        pass


def test_a_server_that_stops_ends_its_streams(tmp_path: Path) -> None:
    with Api(tmp_path / "home", QUICK) as api:
        api.world.stream()
        api.world.register()
        listener = Listener(api.acting(Role.CONSUMER))
        listener.__enter__()
        api.stop()
        assert listener.ended.wait(LONG_SECONDS)
