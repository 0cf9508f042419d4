"""The history of attempts: what it says of each, and what it never says."""

from __future__ import annotations

import socket
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from ptkstore.application.delivery import deliver_due
from ptkstore.domain.subscriptions import ATTEMPTS_EXPIRE_AFTER, GIVE_UP_AFTER_ATTEMPTS, Attempt
from ptkstore.errors import UnknownName
from ptkstore.sdk.subscriptions import answer_in_words, attempt_document, attempt_of
from tests.support.receiver import WebhookReceiver
from tests.support.world import World

PTK = "taxi.speed"


def subscribe(world: World, receiver: WebhookReceiver, path: str = "hook") -> str:
    subscription, secret = world.service.subscribe_to_ptk(PTK, receiver.endpoint(path))
    receiver.trust(secret)
    return subscription.id


def made(world: World, name: str) -> list[tuple[Any, ...]]:
    """Version, attempt, whether it was a redelivery, code and status of each, the newest first."""
    return [
        (one.number, one.attempt, one.redelivered, one.code, one.status)
        for one in world.service.attempts(name)
    ]


def work(world: World, times: int = 1, *kinds: str) -> None:
    for _ in range(times):
        world.work(*(kinds or ("notify",)))
        world.clock.pass_(hours=6)


def test_each_attempt_is_kept_with_what_the_endpoint_answered(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    name = subscribe(published, webhook_receiver)
    webhook_receiver.answer_next(1, 503)
    webhook_receiver.answer_next(1, 404)
    webhook_receiver.cut_next(1)
    published.publish(1)
    work(published, 4)
    assert made(published, name) == [
        (2, 4, False, None, 204),
        (2, 3, False, "connection-failed", None),
        (2, 2, False, "status-4xx", 404),
        (2, 1, False, "status-5xx", 503),
    ]
    attempts = published.service.attempts(name)
    assert [one.sequence for one in attempts] == [4, 3, 2, 1]
    assert [one.milliseconds is None for one in attempts] == [False, True, False, False]
    assert all((one.milliseconds or 0) % 100 == 0 for one in attempts)
    assert [one.sequence for one in published.service.attempts(name, before=3, limit=1)] == [2]


def test_a_failed_connection_does_not_say_how_long_it_took(published: World) -> None:
    """Else whoever may name endpoints would learn which addresses and names the service's network has."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = listener.getsockname()[1]
    made, _ = published.service.subscribe_to_ptk(PTK, f"http://127.0.0.1:{nobody}/")
    published.publish(1)
    published.work("notify")
    (attempt,) = published.service.attempts(made.id)
    assert (attempt.code, attempt.status, attempt.milliseconds) == ("connection-failed", None, None)


@pytest.mark.long
def test_a_redelivery_is_marked_and_both_count_in_one_order(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    name = subscribe(published, webhook_receiver)
    webhook_receiver.answer_next(GIVE_UP_AFTER_ATTEMPTS, 500)
    published.publish(1)
    work(published, GIVE_UP_AFTER_ATTEMPTS)
    published.service.redeliver(name)
    work(published, 1, "redeliver")
    assert made(published, name)[:2] == [
        (2, 1, True, None, 204),
        (2, GIVE_UP_AFTER_ATTEMPTS, False, "status-5xx", 500),
    ]
    assert len(made(published, name)) == GIVE_UP_AFTER_ATTEMPTS + 1


def test_the_relay_writes_attempts_down_and_forgets_old_ones(
    published: World, webhook_receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver_due, "EXPIRE_EVERY_SECONDS", 0.0)
    name, other = (subscribe(published, webhook_receiver, path) for path in "ab")
    published.publish(1)
    deliveries = published.service.due_deliveries()
    deliveries.pass_once(0.0)
    while deliveries.pass_once(0.1):
        pass
    assert made(published, name) == made(published, other) == [(2, 1, False, None, 204)]
    published.clock.time += ATTEMPTS_EXPIRE_AFTER + timedelta(seconds=1)
    assert made(published, name) == []  # a reader is not shown what a relay has still to forget
    assert len(rows(published)) == 2
    deliveries.pass_once(0.0)
    assert rows(published) == []


def rows(world: World) -> list[Any]:
    with world.service.begin() as uow:
        found = uow._connection.exec_driver_sql("SELECT * FROM attempt").all()  # type: ignore[attr-defined]
    return list(found)


def test_a_history_ends_with_its_subscription(published: World, webhook_receiver: WebhookReceiver) -> None:
    name, other = (subscribe(published, webhook_receiver, path) for path in "ab")
    published.publish(1)
    published.work("notify")
    published.service.unsubscribe(name)
    assert [row[0] for row in rows(published)] == [other]
    with pytest.raises(UnknownName):
        published.service.attempts(name)


def test_what_is_kept_has_no_place_for_bodies_secrets_or_addresses(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    name = subscribe(published, webhook_receiver, "hook-of-ours")
    published.publish(1)
    published.work("notify")
    assert "hook-of-ours" not in str(rows(published))
    assert {one.name for one in fields(Attempt)} == {
        *("subscription_id", "sequence", "at", "number", "attempt", "redelivered"),
        *("code", "status", "milliseconds"),
    }
    (attempt,) = published.service.attempts(name)
    assert attempt_of(name, attempt_document(attempt)) == attempt


@pytest.mark.parametrize(
    ("code", "status", "seconds", "words"),
    [
        (None, 204, 0.1, "delivered: 204 in 0.1 s"),
        (None, None, None, "appended to the stream"),
        ("status-5xx", 503, 2.0, "refused: 503 in 2 s"),
        ("gone", 410, None, "refused: 410"),
        ("redirect", None, None, "redirected, which is not followed"),
        ("timeout", None, 10.0, "no answer in 10 s"),
        ("connection-failed", None, None, "no connection"),
        ("of-a-newer-program", None, None, "of-a-newer-program"),
    ],
)
def test_an_answer_is_told_in_words(
    code: str | None, status: int | None, seconds: float | None, words: str
) -> None:
    told = {"delivered": code is None, "code": code, "status": status, "seconds": seconds}
    assert answer_in_words(told) == words
