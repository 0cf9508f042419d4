"""A test event: signed as versions are, taken for none, under the same guards, and without a trace on deliveries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptkstore.adapters.webhooks.receiver import ACCEPTED
from ptkstore.application.delivery.send_test_event import AT_ONCE_OF_A_TEAM
from ptkstore.domain.identity import Grant, Role
from ptkstore.domain.subscriptions import EVENT_TYPE, message_id
from ptkstore.errors import InvalidRequest, NotAllowed, Refused, UnknownName
from ptkstore.sdk import connect
from tests.support.api_server import Api, problem
from tests.support.console_pages import seen, signed_in
from tests.support.receiver import WebhookReceiver

TYPE = "ptk.subscription.test"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with Api(tmp_path / "home", webhook_networks=("127.0.0.0/8",)) as api:
        api.world.stream()
        api.world.register()
        api.world.publish(0)
        yield api


@pytest.fixture
def subscribed(api: Api, webhook_receiver: WebhookReceiver) -> str:
    made, secret = api.world.service.subscribe_to_ptk("taxi.speed", webhook_receiver.endpoint(), team="taxi")
    webhook_receiver.trust(secret)
    return made.id


def state(api: Api) -> str:
    """What is known of deliveries and who is told of them."""
    service = api.world.service
    with service.read() as uow:
        jobs = [
            uow.jobs.get(f"{kind}/{one.subscription.id}")
            for kind in ("notify",)
            for one in service.subscriptions(None)
        ]
    return repr((service.subscriptions(None), jobs, service.notices(None)))


def test_it_is_signed_and_nobody_can_take_it_for_a_version(
    api: Api, subscribed: str, webhook_receiver: WebhookReceiver
) -> None:
    before = state(api)
    answer = api.acting(Role.DEVELOPER).post(f"/v1/subscriptions/{subscribed}/test")
    assert answer.status_code == 200, answer.text
    told = answer.json()
    (call,) = webhook_receiver.calls
    assert (call.verified, call.webhook_id) == (True, told["message_id"])
    assert told.pop("seconds") >= 0.0
    assert told == {
        "id": subscribed,
        "message_id": call.webhook_id,
        "delivered": True,
        "code": None,
        "status": ACCEPTED,
    }
    assert call.message is not None
    assert call.message["type"] == TYPE != EVENT_TYPE
    assert call.message["data"] == {"subscription_id": subscribed, "ptk_id": "taxi.speed"}
    assert not call.webhook_id.startswith(message_id(subscribed, 1)[:4])
    assert state(api) == before
    api.acting(Role.DEVELOPER).post(f"/v1/subscriptions/{subscribed}/test")
    assert len({one.webhook_id for one in webhook_receiver.calls}) == 2


@pytest.mark.parametrize(
    ("status", "code"), [(500, "status-5xx"), (404, "status-4xx"), (410, "gone"), (302, "redirect")]
)
def test_an_endpoint_that_does_not_take_it_is_reported_and_not_disabled(
    api: Api, subscribed: str, webhook_receiver: WebhookReceiver, status: int, code: str
) -> None:
    before = state(api)
    webhook_receiver.answer_next(1, status)
    told = api.acting(Role.CONSUMER).post(f"/v1/subscriptions/{subscribed}/test").json()
    assert (told["delivered"], told["code"], told["status"]) == (False, code, status)
    assert state(api) == before
    assert len(webhook_receiver.calls) == 1  # and it is not tried again


def test_it_is_on_record_and_so_is_who_may_not(api: Api, subscribed: str) -> None:
    assert api.acting(Role.DEVELOPER).post(f"/v1/subscriptions/{subscribed}/test").status_code == 200
    refused = api.acting(Role.OFFICER).post(f"/v1/subscriptions/{subscribed}/test")
    assert problem(refused) == (403, "not-allowed")
    lines = [one for one in api.identity.audit_log() if one.action == "subscription.test"]
    assert [(one.subject, one.outcome) for one in lines][-1] == (f"subscription/{subscribed}", "not-allowed")
    assert "done" in {one.outcome for one in lines}
    api.grant("ads", "taxi", Role.CONSUMER)
    strange = api.acting(team="ads").post(f"/v1/subscriptions/{subscribed}/test")
    assert strange.status_code in (403, 404)


def test_addresses_that_are_not_allowed_are_not_connected_to(
    tmp_path: Path, webhook_receiver: WebhookReceiver
) -> None:
    with Api(tmp_path / "allowed", webhook_networks=("127.0.0.0/8",)) as api:
        api.world.stream()
        api.world.register()
        made, _ = api.world.service.subscribe_to_ptk("taxi.speed", webhook_receiver.endpoint(), team="taxi")
    with Api(tmp_path / "allowed", webhook_networks=()) as api:  # the network is no longer allowed
        answer = api.acting(Role.DEVELOPER).post(f"/v1/subscriptions/{made.id}/test")
        assert problem(answer) == (400, "invalid-request")
    assert len(webhook_receiver.calls) == 0


def test_a_subscription_that_is_sent_nothing_is_not_tested(
    api: Api, subscribed: str, webhook_receiver: WebhookReceiver
) -> None:
    service = api.world.service
    service.disable_subscription(subscribed)
    with pytest.raises(Refused, match="enable it first"):
        service.send_test_event(subscribed)
    service.enable_subscription(subscribed)
    api.grant("ads", "taxi", Role.CONSUMER)
    theirs, _ = service.subscribe_to_ptk("taxi.speed", webhook_receiver.endpoint(), team="ads")
    api.identity.withdraw(Grant("ads", "taxi", Role.CONSUMER))
    with pytest.raises(Refused, match="no role"):
        service.send_test_event(theirs.id)
    stream, _ = service.subscribe_to_ptk("taxi.speed", "redis-stream:speed", team="taxi")
    with pytest.raises(InvalidRequest, match="Redis"):
        service.send_test_event(stream.id)
    with pytest.raises(UnknownName):
        service.send_test_event("sub_0000000000000000")
    assert len(webhook_receiver.calls) == 0


def test_one_team_does_not_take_all_places(
    api: Api, subscribed: str, webhook_receiver: WebhookReceiver
) -> None:
    service, developer = api.world.service, api.acting(Role.DEVELOPER)
    places = service._tests
    for _ in range(AT_ONCE_OF_A_TEAM):
        places.take("taxi")
    answer = developer.post(f"/v1/subscriptions/{subscribed}/test")
    assert problem(answer) == (429, "too-many-requests")
    places.take("ads")  # another team has places
    assert len(webhook_receiver.calls) == 0
    places.give_back("taxi")
    assert developer.post(f"/v1/subscriptions/{subscribed}/test").json()["delivered"]
    assert developer.post(f"/v1/subscriptions/{subscribed}/test").json()["delivered"]  # it was given back


def test_the_client_sends_it_here_and_over_http(
    api: Api, subscribed: str, webhook_receiver: WebhookReceiver
) -> None:
    with connect(api.url, token=api.token(Role.DEVELOPER)) as store:
        assert store.test_subscription(subscribed)["delivered"]
        webhook_receiver.answer_next(1, 503)
        told = store.test_subscription(subscribed)
        assert (told["code"], told["status"]) == ("status-5xx", 503)
        assert told["seconds"] is not None
    assert len(webhook_receiver.calls) == 2
    with connect(api.url, token=api.token(Role.OFFICER)) as store, pytest.raises(NotAllowed):
        store.test_subscription(subscribed)


def test_the_console_sends_it_after_a_confirmation(
    api: Api, subscribed: str, webhook_receiver: WebhookReceiver
) -> None:
    client, path = signed_in(api, Role.DEVELOPER), f"/console/act/subscriptions/{subscribed}/test"
    form = seen(client.get(path)).fields
    assert len(webhook_receiver.calls) == 0
    answer: Any = client.post(path, data=form)
    assert answer.status_code == 303
    assert "took the test event: delivered: " in client.get(answer.headers["location"]).text
    client.post(path, data=form)
    assert len(webhook_receiver.calls) == 1  # a form that is sent twice
    webhook_receiver.answer_next(1, 500)
    answer = client.post(path, data=seen(client.get(path)).fields)
    assert "did not take the test event: refused: 500 in " in client.get(answer.headers["location"]).text
    assert client.post(path, data={}).status_code == 403
    assert len(webhook_receiver.calls) == 2
