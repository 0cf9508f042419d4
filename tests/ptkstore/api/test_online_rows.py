"""Readiness asks for lost rows in one thread at a time, also where the online store does not answer."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ptkstore.api import online_check
from tests.support.waiting import until


class Hangs:
    """A service whose online store answers when it is told to."""

    def __init__(self) -> None:
        self.asked, self.answers = 0, threading.Event()

    def lost_online(self) -> frozenset[str]:
        self.asked += 1
        self.answers.wait(30)
        return frozenset({"taxi.speed"})


def test_a_store_that_does_not_answer_is_asked_once_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(online_check, "time", SimpleNamespace(monotonic=lambda: now))
    service: Any = Hangs()
    rows = online_check.OnlineRows(service)
    for _ in range(5):
        assert rows.lost() == frozenset()
        now += 2 * online_check.EVERY_SECONDS
    until(lambda: service.asked, "the first question")
    assert service.asked == 1
    service.answers.set()
    monkeypatch.undo()
    until(lambda: rows.lost() == {"taxi.speed"}, "the answer")


def test_a_store_that_answered_is_asked_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    service: Any = Hangs()
    service.answers.set()
    rows = online_check.OnlineRows(service)
    until(lambda: rows.lost() == {"taxi.speed"}, "the first answer")
    asked = service.asked
    monkeypatch.setattr(online_check, "EVERY_SECONDS", 0.0)
    until(lambda: rows.lost() is not None and service.asked > asked, "another question")
