"""Flip, then notify: every version, in order, at least once; dead letters let later ones pass."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ptkstore.domain.identity import Grant, Role
from ptkstore.domain.jobs import Job, JobKind, JobState
from ptkstore.domain.subscriptions import GIVE_UP_AFTER_ATTEMPTS, JITTER, LONGEST_RETRY, retry_wait
from ptkstore.errors import InvalidRequest, UnknownName
from ptkstore.wiring.identity import Identity
from tests.support.receiver import WebhookReceiver
from tests.support.world import World

PTK = "taxi.speed"


def subscribe(world: World, receiver: WebhookReceiver) -> str:
    subscription, secret = world.service.subscribe_to_ptk(PTK, receiver.endpoint())
    receiver.trust(secret)
    return subscription.id


def notify(world: World, subscription_id: str) -> Job:
    return world.cursor(JobKind.NOTIFY, subscription_id)


def versions(receiver: WebhookReceiver) -> list[int]:
    return [call.message["data"]["version"] for call in receiver.accepted if call.message]


def test_a_subscriber_hears_of_exactly_the_versions_after_it(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    subscribe(published, webhook_receiver)
    assert published.work("notify") == []
    for day in (1, 2):
        published.publish(day)
        published.work("notify")
    assert versions(webhook_receiver) == [2, 3]
    first = webhook_receiver.accepted[0].message
    assert first is not None
    with published.service.begin() as uow:
        version = uow.versions.get(PTK, 2)
    assert first["data"]["sha256"] == version.sha256
    assert set(first["data"]) == {"ptk_id", "version", "manifest_url", "sha256", "windows", "guarantee"}


def test_jobs_before_the_message_need_nothing_that_sends_it(published: World) -> None:
    made = set(published.service.__dict__)
    assert made & {"messenger", "event_streams", "courier"} == set()


def test_nobody_hears_of_a_version_before_it_is_shown(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    subscribe(published, webhook_receiver)
    published.ingest((1.5,))
    published.close(2)
    published.work()
    assert published.work("notify") == []
    published.work("flip")
    assert published.views.shown == {PTK: 2}
    published.work("notify")
    assert versions(webhook_receiver) == [2]


@pytest.mark.long
def test_a_subscriber_that_is_behind_hears_of_no_version_that_is_placed_and_not_shown(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    subscribe(published, webhook_receiver)
    published.publish(1)
    published.ingest((2.5,))
    published.close(3)
    published.work()
    assert published.cursor(JobKind.PLACE, PTK).position == 3
    published.work("notify")
    assert versions(webhook_receiver) == [2]
    published.work("flip", "notify")
    assert versions(webhook_receiver) == [2, 3]


def test_an_enabled_subscription_hears_of_no_version_that_is_placed_and_not_shown(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    subscription = subscribe(published, webhook_receiver)
    published.service.disable_subscription(subscription)
    published.ingest((1.5,))
    published.close(2)
    published.work()
    assert published.cursor(JobKind.PLACE, PTK).position == 2
    published.service.enable_subscription(subscription)
    assert published.work("notify") == []
    published.work("flip", "notify")
    assert versions(webhook_receiver) == [2]


def test_a_subscriber_that_was_away_hears_of_all_versions_in_order(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    subscription = subscribe(published, webhook_receiver)
    for day in (1, 2, 3):
        published.publish(day)
    webhook_receiver.answer_next(2, 503)
    published.work("notify")
    assert versions(webhook_receiver) == []
    for _ in range(4):
        published.clock.pass_(minutes=1)
        published.work("notify")
    assert versions(webhook_receiver) == [2, 3, 4]
    assert [call.webhook_id for call in webhook_receiver.calls] == [
        *[f"msg_{subscription}_00000002"] * 3,
        f"msg_{subscription}_00000003",
        f"msg_{subscription}_00000004",
    ]
    assert notify(published, subscription).state is JobState.IDLE


def test_waits_between_attempts_double_up_to_the_longest(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    subscription = subscribe(published, webhook_receiver)
    published.publish(1)
    webhook_receiver.answer_next(18, 500)
    waits = []
    for _ in range(18):
        assert published.work("notify") == [f"notify/{subscription}"]
        due_at = notify(published, subscription).due_at
        waits.append((due_at - published.clock.now()).total_seconds())
        published.clock.time = due_at
    usual = [min(2.0**n, LONGEST_RETRY.total_seconds()) for n in range(18)]
    parts = [wait / base for wait, base in zip(waits, usual, strict=True)]
    assert all(1 - JITTER <= part <= 1 + JITTER for part in parts)
    assert len({round(part, 6) for part in parts}) == 18
    assert waits == [
        retry_wait(f"msg_{subscription}_00000002", attempt).total_seconds() for attempt in range(1, 19)
    ]


def test_after_the_last_attempt_a_dead_letter_is_left_and_later_versions_pass(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    subscription = subscribe(published, webhook_receiver)
    published.publish(1)
    webhook_receiver.answer_next(GIVE_UP_AFTER_ATTEMPTS, 500)
    for _ in range(GIVE_UP_AFTER_ATTEMPTS - 1):
        published.work("notify")
        published.clock.time = notify(published, subscription).due_at
    assert notify(published, subscription).position == 1
    published.clock.time = published.clock.time.replace(microsecond=0) + timedelta(seconds=1)
    published.publish(2)
    published.work("notify")
    assert len(webhook_receiver.calls) == GIVE_UP_AFTER_ATTEMPTS + 1
    assert versions(webhook_receiver) == [3]
    assert notify(published, subscription).position == 3
    with published.service.begin() as uow:
        (letter,) = uow.subscriptions.dead_letters(subscription)
    assert (letter.number, letter.code, letter.told) == (2, "status-5xx", True)
    (third,) = webhook_receiver.accepted
    assert third.message is not None
    assert third.message["data"]["missed"] == [{"version": 2, "code": "status-5xx"}]
    assert (f"{PTK} v2 to {subscription}", "dead-letter") in published.notices()


def test_a_dead_letter_that_is_sent_again_and_fails_again_blocks_nothing(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    subscription = subscribe(published, webhook_receiver)
    published.publish(1)
    for _ in range(2):
        webhook_receiver.answer_next(GIVE_UP_AFTER_ATTEMPTS, 500)
        for _ in range(GIVE_UP_AFTER_ATTEMPTS):
            published.work("notify")
            published.clock.time = max(published.clock.time, notify(published, subscription).due_at)
        assert notify(published, subscription).state is JobState.IDLE
        published.service.notify_new_ptk_state(PTK)
    published.work("notify")
    assert versions(webhook_receiver) == [2]
    assert notify(published, subscription).position == 2
    assert published.service.deliveries(subscription).dead_letters == ()


def test_news_during_a_delivery_is_not_lost(published: World, webhook_receiver: WebhookReceiver) -> None:
    subscription = subscribe(published, webhook_receiver)
    published.publish(1)
    published.steps.at["sent"] = lambda: published.publish(2)
    published.work("notify")
    assert versions(webhook_receiver) == [2, 3]
    assert notify(published, subscription).state is JobState.IDLE


def test_a_crash_after_sending_sends_again_with_the_same_id(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    subscribe(published, webhook_receiver)
    published.publish(1)

    def die() -> None:
        raise KeyboardInterrupt

    published.steps.at["sent"] = die
    with pytest.raises(KeyboardInterrupt):
        published.work("notify")
    published.clock.pass_(minutes=2)
    published.work("notify")
    first, second = webhook_receiver.accepted
    assert (first.webhook_id, first.message) == (second.webhook_id, second.message)


@pytest.mark.parametrize("step", ["claimed", "staged-online", "flipped"])
def test_a_flip_that_breaks_off_is_finished_and_told_once(
    published: World, webhook_receiver: WebhookReceiver, step: str
) -> None:
    subscribe(published, webhook_receiver)
    published.ingest((1.5,))
    published.close(2)
    published.work()

    def die() -> None:
        raise KeyboardInterrupt

    published.steps.at[step] = die
    with pytest.raises(KeyboardInterrupt):
        published.work("flip")
    published.clock.pass_(minutes=2)
    published.work("flip", "notify")
    assert published.views.shown == {PTK: 2}
    assert versions(webhook_receiver) == [2]


def test_news_of_the_newest_version_can_be_sent_once_more(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    assert published.service.notify_new_ptk_state(PTK) == 0  # nobody listens
    subscribe(published, webhook_receiver)
    assert published.service.notify_new_ptk_state(PTK) == 1
    assert published.service.notify_new_ptk_state(PTK) == 0  # it is on its way
    published.work("notify")
    assert versions(webhook_receiver) == [1]
    published.publish(1)
    assert published.service.notify_new_ptk_state(PTK) == 0  # version 2 comes anyway
    published.work("notify")
    assert versions(webhook_receiver) == [1, 2]
    with pytest.raises(UnknownName):
        published.service.notify_new_ptk_state("taxi.other")


def test_there_is_nothing_to_tell_before_the_first_version(
    world: World, webhook_receiver: WebhookReceiver
) -> None:
    world.register()
    subscribe(world, webhook_receiver)
    assert world.service.notify_new_ptk_state(PTK) == 0


def test_each_subscriber_has_a_pace_of_its_own(published: World, webhook_receiver: WebhookReceiver) -> None:
    subscribe(published, webhook_receiver)
    slow, _ = published.service.subscribe_to_ptk(PTK, "http://127.0.0.1:1/nobody")
    for day in (1, 2):
        published.publish(day)
    published.work("notify")
    assert versions(webhook_receiver) == [2, 3]
    assert notify(published, slow.id).position == 1
    assert notify(published, slow.id).attempt == 1


def test_who_has_unsubscribed_hears_nothing_more(published: World, webhook_receiver: WebhookReceiver) -> None:
    subscription = subscribe(published, webhook_receiver)
    published.publish(1)
    published.service.unsubscribe(subscription)
    published.publish(2)
    assert published.work("notify") == []
    with pytest.raises(UnknownName):
        published.service.unsubscribe(subscription)


@pytest.mark.parametrize(
    "endpoint",
    ["", "ftp://127.0.0.1/", "http://10.0.0.1/hook", "file:///etc/passwd", "http://", "127.0.0.1:80"],
)
def test_an_endpoint_that_policy_forbids_is_refused_and_leaves_nothing(world: World, endpoint: str) -> None:
    world.register()
    with pytest.raises(InvalidRequest):
        world.service.subscribe_to_ptk(PTK, endpoint)
    with world.service.begin() as uow:
        assert uow.subscriptions.of() == ()


def test_an_unknown_ptk_has_no_subscribers(world: World) -> None:
    with pytest.raises(UnknownName):
        world.service.subscribe_to_ptk("taxi.other", "http://127.0.0.1:1/hook")
    assert not any((world.service.settings.root / "keys" / "webhooks").iterdir())


def test_a_team_that_lost_its_role_is_told_no_further_version(
    world: World, webhook_receiver: WebhookReceiver
) -> None:
    world.register()
    identity = Identity(world.service)
    identity.create_team("ads")
    role = Grant("ads", "taxi", Role.CONSUMER)
    identity.grant(role)
    made, secret = world.service.subscribe_to_ptk("taxi.speed", webhook_receiver.endpoint(), team="ads")
    webhook_receiver.trust(secret)
    world.publish(0)
    world.work("notify")
    identity.withdraw(role)
    world.publish(1)
    world.work("notify")
    with world.service.begin() as uow:
        (letter,) = uow.subscriptions.dead_letters(made.id)
    assert (letter.number, letter.code) == (2, "not-allowed")
    identity.grant(role)
    world.publish(2)
    world.work("notify")
    assert [c.message["data"]["version"] for c in webhook_receiver.accepted if c.message] == [1, 3]
