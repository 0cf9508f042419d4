"""Listeners to server-sent events, that come back with the id of the last event whenever their connection ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import httpx

from ptkstore.domain.subscriptions import EVENT_TYPE
from tests.support.waiting import PATIENCE_SECONDS

AGAIN_AFTER_SECONDS = 0.5
SILENT_AT_MOST_SECONDS = 90.0  # heartbeats come every 15


class EventListener:
    """Hears of every version of a PTK, in a thread; an event counts once the empty line after it has come."""

    def __init__(self, url: str, token: str, ptk_id: str) -> None:
        self.ptk_id = ptk_id
        self.heard: list[dict[str, Any]] = []
        self.connected = 0
        self._client = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(10.0, read=SILENT_AT_MOST_SECONDS),
            trust_env=False,
        )
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._run, name="event listener", daemon=True)
        self._thread.start()

    @property
    def versions(self) -> list[int]:
        """Numbers of the versions, in the order in which they were heard of."""
        return [event["data"]["version"] for event in self.heard]

    @property
    def digests(self) -> list[str]:
        """What the events say that the versions are."""
        return [event["data"]["sha256"] for event in self.heard]

    def leave(self) -> None:
        """Do not come back; the present connection has to be ended by the server."""
        self._leave.set()

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        self._client.close()

    def _run(self) -> None:
        while not self._leave.is_set():
            with suppress(httpx.TransportError):  # the server was killed, or is not there yet
                self._listen()
            self._leave.wait(AGAIN_AFTER_SECONDS)

    def _listen(self) -> None:
        last = {"Last-Event-ID": str(self.heard[-1]["data"]["version"] if self.heard else 0)}
        with self._client.stream("GET", f"/v1/ptks/{self.ptk_id}/events", headers=last) as reply:
            if reply.status_code != httpx.codes.OK:
                return
            self.connected += 1
            self._read(reply.iter_lines())

    def _read(self, lines: Iterable[str]) -> None:
        event: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(": ")
            if line and name:
                event[name] = value
            elif not line and "data" in event:
                body = json.loads(event["data"])
                assert (event["event"], body["data"]["ptk_id"]) == (EVENT_TYPE, self.ptk_id)
                assert event["id"] == str(body["data"]["version"])
                self.heard.append(body)
                event = {}
            if self._leave.is_set():
                return
