"""The `manifest_url` of a message: its reader can fetch it, with a token of the subscription's team."""

from __future__ import annotations

import hashlib
import json

import httpx
import pytest

from ptkstore.adapters.webhooks import ApiManifests
from ptkstore.domain.identity import Role
from ptkstore.errors import InvalidRequest
from ptkstore.settings import load_settings
from tests.support.api_server import Api, problem
from tests.support.receiver import WebhookReceiver

PTK = "taxi.speed"


@pytest.fixture
def heard(api: Api, webhook_receiver: WebhookReceiver) -> WebhookReceiver:
    """A subscriber of another team, which hears of versions from the second on."""
    api.world.register()
    api.world.publish(0)
    api.grant("ads", "taxi", Role.CONSUMER)
    _, secret = api.world.service.subscribe_to_ptk(PTK, webhook_receiver.endpoint(), team="ads")
    webhook_receiver.trust(secret)
    return webhook_receiver


def told(api: Api, heard: WebhookReceiver, day: int) -> dict[str, str]:
    api.world.publish(day)
    api.world.work("notify")
    message = heard.accepted[-1].message
    assert message is not None
    assert set(message["data"]) == {"ptk_id", "version", "manifest_url", "sha256", "windows", "guarantee"}
    data: dict[str, str] = message["data"]
    return data


def publicly_at(api: Api, url: str) -> None:
    service = api.world.service
    service.settings = service.settings.model_copy(update={"api_public_url": url})


def test_a_message_leads_its_reader_to_the_manifest(api: Api, heard: WebhookReceiver) -> None:
    publicly_at(api, api.url + "/")
    data = told(api, heard, 1)
    assert data["manifest_url"] == f"{api.url}/v1/ptks/taxi.speed/versions/2/manifest"
    answer = api.client(api.token(Role.CONSUMER, team="ads")).get(data["manifest_url"])
    assert answer.status_code == 200
    assert hashlib.sha256(answer.content).hexdigest() == data["sha256"]
    assert json.loads(answer.content)["version"] == 2


def test_the_manifest_is_for_teams_that_may_read_the_state(api: Api, heard: WebhookReceiver) -> None:
    publicly_at(api, api.url)
    url = told(api, heard, 1)["manifest_url"]
    assert problem(httpx.get(url, timeout=60))[0] == 401
    assert problem(api.client(api.token(Role.CONSUMER, team="strangers")).get(url))[0] in (403, 404)
    assert problem(api.client(api.token(Role.PRODUCER, team="ads")).get(url))[0] == 403


def test_without_a_public_address_messages_name_the_lake_as_before(api: Api, heard: WebhookReceiver) -> None:
    data = told(api, heard, 1)
    assert data["manifest_url"] == api.world.service.lake.manifest_url(PTK, 2)


def test_other_events_name_the_same_place(api: Api) -> None:
    publicly_at(api, "https://ptk.example/store")
    api.world.register()
    api.world.publish(0)
    client = api.client(api.token(Role.CONSUMER))
    with client.stream("GET", f"/v1/ptks/{PTK}/events", headers={"Last-Event-ID": "0"}) as events:
        line = next(line for line in events.iter_lines() if line.startswith("data: "))
    url = json.loads(line.removeprefix("data: "))["data"]["manifest_url"]
    assert url == "https://ptk.example/store/v1/ptks/taxi.speed/versions/1/manifest"
    assert url == ApiManifests("https://ptk.example/store").manifest_url(PTK, 1)


@pytest.mark.parametrize(
    "url",
    [
        "ptk.example",
        "http://ptk.example",
        "https://",
        "https://user:secret@ptk.example",
        "https://ptk.example?a=b",
        "https://ptk.example#a",
        "https://ptk.example:99999",
        "https://ptk.example/a b",
        "https://ptk.example/\n",
        "ftp://ptk.example",
        "",
    ],
)
def test_a_public_address_that_is_none_is_refused_without_being_told(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTK_API_PUBLIC_URL", url)
    with pytest.raises(InvalidRequest, match=r"PTK_API_PUBLIC_URL .*write https://host") as refused:
        load_settings()
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["https://ptk.example", "https://ptk.example:8443/a/", "http://127.0.0.1:8000"]
)
def test_a_public_address_may_have_a_port_and_a_path(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTK_API_PUBLIC_URL", url)
    assert load_settings().api_public_url == url
