"""Repair: rotated secrets, redelivered dead letters, endpoints that are given up and come back, Redis streams."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from ptkstore.adapters.processes import RedisServer
from ptkstore.adapters.streams import RedisStreams
from ptkstore.application.delivery.deliveries import NO_SECRET
from ptkstore.domain.audit import LOCAL, SERVICE
from ptkstore.domain.identity import Grant, Role
from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome
from ptkstore.domain.subscriptions import DISABLE_AFTER, GIVE_UP_AFTER_ATTEMPTS, Subscription
from ptkstore.errors import Conflict, InvalidRequest, Refused, Unavailable, UnknownName
from ptkstore.ports.messages import Message
from ptkstore.wiring.identity import Identity
from tests.support.receiver import WebhookReceiver
from tests.support.world import World

PTK = "taxi.speed"
DELIVER = ("notify", "redeliver")


def subscribe(world: World, receiver: WebhookReceiver, team: str = "") -> str:
    subscription, secret = world.service.subscribe_to_ptk(PTK, receiver.endpoint(), team=team)
    receiver.trust(secret)
    return subscription.id


def publish(world: World, day: int) -> None:
    """Trainings end on ticks of whole seconds, and waits after attempts do not."""
    world.clock.time = world.clock.time.replace(microsecond=0) + timedelta(seconds=1)
    world.publish(day)


def fail_until_dead(world: World, receiver: WebhookReceiver, name: str, kind: str = "notify") -> None:
    receiver.answer_next(GIVE_UP_AFTER_ATTEMPTS, 500)
    for _ in range(GIVE_UP_AFTER_ATTEMPTS):
        assert world.work(kind) != []
        world.clock.time = max(world.clock.time, world.cursor(JobKind(kind), name).due_at)


def told(receiver: WebhookReceiver) -> list[tuple[int, bool]]:
    """Versions in the order of arrival, and whether each was marked as redelivered."""
    return [
        (call.message["data"]["version"], call.message["data"].get("redelivered", False))
        for call in receiver.accepted
        if call.message
    ]


def standing(world: World, name: str) -> Subscription:
    return world.service.deliveries(name).subscription


def job(world: World, name: str) -> Job:
    return world.cursor(JobKind.NOTIFY, name)


# secrets


def test_during_an_overlap_messages_verify_with_either_secret(
    published: World, webhook_receiver: WebhookReceiver, tmp_path: Any
) -> None:
    name = subscribe(published, webhook_receiver)
    new = published.service.rotate_secret(name, timedelta(hours=1))
    publish(published, 1)
    published.work("notify")
    assert told(webhook_receiver) == [(2, False)]  # it knows the old one only
    with WebhookReceiver(tmp_path / "new.jsonl") as renewed:
        renewed.trust(new)
        secrets = published.service.keys.secrets_of(name, published.clock.now())
        assert len(secrets) == 2
        published.service.messenger.send(Message("key", renewed.endpoint(), "msg_1", b"{}", secrets))
        assert [call.verified for call in renewed.calls] == [True]


def test_after_the_overlap_the_old_secret_signs_nothing(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    name = subscribe(published, webhook_receiver)
    new = published.service.rotate_secret(name, timedelta(hours=1))
    published.clock.pass_(hours=1)
    publish(published, 1)
    published.work("notify")
    assert [call.verified for call in webhook_receiver.calls] == [False]
    webhook_receiver.trust(new)
    published.clock.pass_(minutes=1)
    published.work("notify")
    assert told(webhook_receiver) == [(2, False)]


def test_secrets_are_rotated_for_subscriptions_that_have_one(published: World) -> None:
    service = published.service
    with pytest.raises(UnknownName):
        service.rotate_secret("sub_0000000000000000")
    made, secret = service.subscribe_to_ptk(PTK, "redis-stream:news")
    assert secret == ""
    with pytest.raises(InvalidRequest):
        service.rotate_secret(made.id)
    hook, _ = service.subscribe_to_ptk(PTK, "http://127.0.0.1:1/hook")
    for overlap in (timedelta(seconds=-1), timedelta(days=31)):
        with pytest.raises(InvalidRequest):
            service.rotate_secret(hook.id, overlap)
    for _ in range(3):
        service.rotate_secret(hook.id)
    with pytest.raises(Conflict):
        service.rotate_secret(hook.id)


def test_who_has_unsubscribed_leaves_no_secret(published: World, webhook_receiver: WebhookReceiver) -> None:
    name = subscribe(published, webhook_receiver)
    published.service.unsubscribe(name)
    assert not any((published.service.settings.root / "keys" / "webhooks").iterdir())


def test_a_lost_secret_is_a_failed_attempt(published: World, webhook_receiver: WebhookReceiver) -> None:
    name = subscribe(published, webhook_receiver)
    published.service.keys.destroy_secret(name)
    publish(published, 1)
    published.work("notify")
    assert webhook_receiver.calls == ()
    assert standing(published, name).health.last_code == NO_SECRET


# dead letters


def test_a_dead_letter_is_sent_again_marked_under_its_id_and_then_gone(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    name = subscribe(published, webhook_receiver)
    publish(published, 1)
    fail_until_dead(published, webhook_receiver, name)
    publish(published, 2)
    published.work(*DELIVER)
    assert published.service.redeliver(name, 2) == 1
    assert published.service.redeliver(name, 2) == 1  # asked for already
    published.work(*DELIVER)
    assert told(webhook_receiver) == [(3, False), (2, True)]
    assert webhook_receiver.accepted[-1].webhook_id == f"msg_{name}_00000002"
    assert published.service.deliveries(name).dead_letters == ()
    assert published.work(*DELIVER) == []
    with pytest.raises(UnknownName):
        published.service.redeliver(name, 2)


@pytest.mark.long
def test_all_dead_letters_since_a_time_are_sent_again_in_order(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    name = subscribe(published, webhook_receiver)
    times = []
    for day in (1, 2):
        publish(published, day)
        fail_until_dead(published, webhook_receiver, name)
        times.append(published.clock.now())
    letters = published.service.deliveries(name).dead_letters
    assert [letter.number for letter in letters] == [2, 3]
    assert published.service.redeliver(name, since=letters[1].at) == 1
    published.work(*DELIVER)
    assert told(webhook_receiver) == [(3, True)]
    assert published.service.redeliver(name) == 1
    published.work(*DELIVER)
    assert told(webhook_receiver) == [(3, True), (2, True)]
    assert published.service.redeliver(name) == 0


@pytest.mark.long
def test_a_redelivery_that_fails_is_tried_as_long_and_is_a_dead_letter_again(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    name = subscribe(published, webhook_receiver)
    publish(published, 1)
    fail_until_dead(published, webhook_receiver, name)
    published.service.redeliver(name)
    fail_until_dead(published, webhook_receiver, name, "redeliver")
    (letter,) = published.service.deliveries(name).dead_letters
    assert (letter.number, letter.asked_at, letter.told) == (2, None, False)
    publish(published, 2)  # news are not held up by that
    published.work(*DELIVER)
    assert told(webhook_receiver) == [(3, False)]


def test_news_do_not_wait_for_a_redelivery(published: World, webhook_receiver: WebhookReceiver) -> None:
    name = subscribe(published, webhook_receiver)
    publish(published, 1)
    fail_until_dead(published, webhook_receiver, name)
    published.service.redeliver(name)
    webhook_receiver.answer_next(1, 500)
    published.work("redeliver")
    publish(published, 2)
    published.work("notify")
    assert told(webhook_receiver) == [(3, False)]


def test_a_redelivery_is_told_to_nobody_whose_role_is_gone(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    identity = Identity(published.service)
    identity.create_team("ads")
    role = Grant("ads", "taxi", Role.CONSUMER)
    identity.grant(role)
    name = subscribe(published, webhook_receiver, "ads")
    publish(published, 1)
    fail_until_dead(published, webhook_receiver, name)
    identity.withdraw(role)
    published.service.redeliver(name)
    published.work(*DELIVER)
    assert told(webhook_receiver) == []
    (letter,) = published.service.deliveries(name).dead_letters
    assert (letter.code, letter.asked_at) == ("not-allowed", None)


def test_both_teams_are_told_of_a_dead_letter(published: World, webhook_receiver: WebhookReceiver) -> None:
    identity = Identity(published.service)
    identity.create_team("ads")
    identity.grant(Grant("ads", "taxi", Role.CONSUMER))
    name = subscribe(published, webhook_receiver, "ads")
    publish(published, 1)
    fail_until_dead(published, webhook_receiver, name)
    with published.service.begin() as uow:
        for team in ("taxi", "ads"):
            (notice,) = uow.notices(team)
            assert (notice.subject, notice.code) == (f"{PTK} v2 to {name}", "dead-letter")


# health


def test_health_counts_failures_since_the_last_success(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    name = subscribe(published, webhook_receiver)
    assert standing(published, name).status == "ok"
    publish(published, 1)
    began = published.clock.now()
    webhook_receiver.answer_next(2, 503)
    published.work("notify")
    published.clock.pass_(minutes=1)
    published.work("notify")
    failing = standing(published, name)
    assert (failing.status, failing.health.failures, failing.health.last_code) == ("failing", 2, "status-5xx")
    assert (failing.health.failing_since, failing.health.last_success) == (began, None)
    published.clock.pass_(minutes=1)
    published.work("notify")
    ok = standing(published, name)
    assert (ok.status, ok.health.failures, ok.health.failing_since) == ("ok", 0, None)
    assert ok.health.last_success == published.clock.now()


def test_an_endpoint_that_is_gone_is_disabled_at_once_and_whoever_is_concerned_is_told(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    name = subscribe(published, webhook_receiver)
    publish(published, 1)
    webhook_receiver.answer_next(1, 410)
    published.work("notify")
    assert (standing(published, name).status, standing(published, name).disabled_code) == ("disabled", "gone")
    assert (job(published, name).state, job(published, name).outcome) == (JobState.ENDED, Outcome.DISABLED)
    assert (f"{PTK} to {name}", "subscription-disabled") in published.notices()
    (line,) = Identity(published.service).audit_log()
    assert (line.action, line.subject, line.outcome) == (
        "subscription.disable",
        f"subscription/{name}",
        "gone",
    )
    assert (line.team, line.token_id) == (LOCAL, SERVICE)
    publish(published, 2)
    published.clock.pass_(days=1)
    assert published.work(*DELIVER) == []
    with pytest.raises(Refused):
        published.service.redeliver(name)


@pytest.mark.long
def test_after_days_of_failures_only_an_endpoint_is_disabled(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    name = subscribe(published, webhook_receiver)
    publish(published, 1)
    began = published.clock.now()
    webhook_receiver.answer_next(200, 500)
    day = 2
    while standing(published, name).status != "disabled":
        assert published.clock.now() - began < DISABLE_AFTER + timedelta(days=1)
        if published.work("notify") == []:
            if job(published, name).state is JobState.IDLE:
                publish(published, day)
                day += 1
            else:
                published.clock.time = job(published, name).due_at
    assert published.clock.now() - began >= DISABLE_AFTER
    assert standing(published, name).disabled_code == "status-5xx"
    assert job(published, name).position == 3  # two versions were given up; the third waits


def test_an_enabled_subscription_hears_of_all_it_waited_for_and_of_its_dead_letters(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    name = subscribe(published, webhook_receiver)
    publish(published, 1)
    fail_until_dead(published, webhook_receiver, name)
    publish(published, 2)
    webhook_receiver.answer_next(1, 410)
    published.work("notify")
    publish(published, 3)
    for _ in range(2):
        published.service.enable_subscription(name)
    assert standing(published, name).status == "ok"
    published.work("notify")
    published.work("redeliver")
    assert told(webhook_receiver) == [(3, False), (4, False), (2, True)]
    assert published.work(*DELIVER) == []


def test_a_subscription_that_was_disabled_on_request_waits_and_then_hears_of_all(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    name = subscribe(published, webhook_receiver)
    publish(published, 1)
    for _ in range(2):
        published.service.disable_subscription(name)
    publish(published, 2)
    assert published.work(*DELIVER) == []
    assert (standing(published, name).status, standing(published, name).disabled_code) == (
        "disabled",
        "on-request",
    )
    published.service.enable_subscription(name)
    published.work(*DELIVER)
    assert told(webhook_receiver) == [(2, False), (3, False)]
    with pytest.raises(UnknownName):
        published.service.disable_subscription("sub_0000000000000000")


@pytest.mark.long
def test_dead_letters_stay_when_enabling_is_not_to_redeliver(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    name = subscribe(published, webhook_receiver)
    publish(published, 1)
    fail_until_dead(published, webhook_receiver, name)
    published.service.enable_subscription(name, redelivering=False)
    assert published.work(*DELIVER) == []
    assert len(published.service.deliveries(name).dead_letters) == 1
    with pytest.raises(UnknownName):
        published.service.enable_subscription("sub_0000000000000000")


def test_a_redelivery_that_finds_the_endpoint_gone_stops_news_too(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    name = subscribe(published, webhook_receiver)
    publish(published, 1)
    fail_until_dead(published, webhook_receiver, name)
    published.service.redeliver(name)
    webhook_receiver.answer_next(1, 410)
    published.work("redeliver")
    publish(published, 2)
    assert published.work(*DELIVER) == []
    published.service.enable_subscription(name, redelivering=False)
    published.work("notify")
    published.work("redeliver")
    assert told(webhook_receiver) == [(3, False), (2, True)]  # it was asked for before


# Redis streams


@pytest.fixture
def streaming(published: World, redis_server: RedisServer) -> World:
    """The service's Redis is the one of the tests."""
    published.service.__dict__["event_streams"] = RedisStreams(redis_server.client_url)
    redis.Redis.from_url(redis_server.client_url).flushdb()
    return published


def test_the_newest_version_is_appended_once_more_each_time_that_somebody_asks(
    streaming: World, redis_server: RedisServer
) -> None:
    made, _ = streaming.service.subscribe_to_ptk(PTK, "redis-stream:news")
    publish(streaming, 1)
    streaming.work("notify")
    client = redis.Redis.from_url(redis_server.client_url)
    for times in (2, 3):
        assert streaming.service.notify_new_ptk_state(PTK) == 1
        streaming.work("notify")
        assert [fields[b"id"].decode() for _, fields in client.xrange("ptk:events:-:news")] == [
            f"msg_{made.id}_00000002"
        ] * times


def test_nobody_is_asked_to_hear_once_more_while_a_stream_cannot_be_written_to(
    published: World, tmp_path: Path
) -> None:
    published.service.__dict__["event_streams"] = RedisStreams(f"unix://{tmp_path}/none.sock")
    names = [
        published.service.subscribe_to_ptk(PTK, endpoint)[0].id
        for endpoint in ("http://127.0.0.1:1/", "redis-stream:news")
    ]
    with pytest.raises(Unavailable):
        published.service.notify_new_ptk_state(PTK)
    assert [published.cursor(JobKind.NOTIFY, name).state for name in names] == [JobState.IDLE] * 2


def test_a_stream_has_every_version_once_in_order_whatever_breaks_off(
    streaming: World, redis_server: RedisServer
) -> None:
    made, _ = streaming.service.subscribe_to_ptk(PTK, "redis-stream:news")

    appended = streaming.service.event_streams.append

    def append_and_die(*args: Any, **more: Any) -> Any:
        appended(*args, **more)
        raise KeyboardInterrupt

    for day in (1, 2):
        publish(streaming, day)
        streaming.service.event_streams.append = append_and_die  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            streaming.work("notify")
        streaming.service.event_streams.append = appended  # type: ignore[method-assign]
        streaming.clock.pass_(minutes=2)
        assert streaming.work("notify") == [f"notify/{made.id}"]
    client = redis.Redis.from_url(redis_server.client_url)
    entries = client.xrange("ptk:events:-:news")
    assert [fields[b"id"].decode() for _, fields in entries] == [f"msg_{made.id}_0000000{n}" for n in (2, 3)]
    body = json.loads(entries[0][1][b"body"])
    assert set(body["data"]) == {"ptk_id", "version", "manifest_url", "sha256", "windows", "guarantee"}


def test_a_stream_of_another_team_cannot_be_named(streaming: World) -> None:
    for name in ("redis-stream:", "redis-stream:ads:news", "redis-stream:../x", "redis-stream:News"):
        with pytest.raises(InvalidRequest):
            streaming.service.subscribe_to_ptk(PTK, name)
    assert Subscription("sub_1", PTK, "redis-stream:news", "ads").stream_key == "ptk:events:ads:news"
    assert Subscription("sub_1", PTK, "redis-stream:news", "").stream_key == "ptk:events:-:news"
