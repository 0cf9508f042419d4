"""Where a window's rows went, over HTTP: to whom it is told, in which parts, and how little."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest

from ptkstore.domain.identity import Role
from tests.support.api_server import Api, all_items, problem
from tests.support.world import DAY, ORIGIN, STREAM, speed

PATH = "/v1/streams/taxi/windows/{}/versions"


def item(ptk_id: str, version: int, newest: bool = False, **more: Any) -> dict[str, Any]:
    """A version of a PTK that grows by a window at a time."""
    return {
        "ptk_id": ptk_id,
        "version": version,
        "window_end": (ORIGIN + version * DAY).isoformat(),
        "release_decision": "elected",
        "made_from": [f"{ptk_id} v{version - 1}"] if version > 1 else [],
        "newest": newest,
        "assurance": "library",
        "asserted_by": None,
        **more,
    }


@pytest.fixture
def client(api: Api) -> httpx.Client:
    """A consumer of another team, on the versions of two PTKs of two others."""
    api.world.register()
    api.world.service.register_ptk(
        team="ads", name="speed", stream=STREAM, estimator=speed(), target=0.1, train_frequency="1d"
    )
    for day in range(3):
        api.world.publish(day)
    api.grant("readers", STREAM, Role.CONSUMER)
    return api.acting(Role.CONSUMER, team="readers")


def test_a_consumer_reads_what_manifests_tell_and_nothing_else(client: httpx.Client) -> None:
    assert client.get(PATH.format(1)).json() == {
        "items": [
            item("ads.speed", 2),
            item("ads.speed", 3, newest=True),
            item("taxi.speed", 2),
            item("taxi.speed", 3, newest=True),
        ],
        "next_cursor": None,
    }


@pytest.mark.usefixtures("client")
def test_administrators_are_told_too_and_strangers_are_not(api: Api) -> None:
    admin = api.acting(Role.ADMINISTRATOR, team="operators")
    assert len(all_items(admin, PATH.format(2))) == 2
    stranger = api.acting(team="strangers")
    assert problem(stranger.get(PATH.format(2))) == (404, "unknown-name")
    assert stranger.get(PATH.format(9)).json()["detail"] == stranger.get(PATH.format(2)).json()["detail"]
    assert problem(api.acting(Role.PRODUCER).get(PATH.format(2))) == (403, "not-allowed")


def test_a_long_list_comes_in_pages(api: Api, client: httpx.Client) -> None:
    everything = all_items(client, PATH.format(0))
    assert len(everything) == 6
    assert all_items(client, PATH.format(0), limit=1) == everything
    assert client.get(PATH.format(0), params={"limit": 6}).json() == {
        "items": everything,
        "next_cursor": None,
    }
    page = client.get(PATH.format(0), params={"limit": 4}).json()
    assert page["items"] == everything[:4]
    api.world.publish(3)  # one behind the cursor, one ahead
    rest = all_items(client, PATH.format(0), limit=4, cursor=page["next_cursor"])
    assert rest == [item("taxi.speed", 2), item("taxi.speed", 3), item("taxi.speed", 4, newest=True)]


def test_a_cursor_that_was_not_given_is_refused(client: httpx.Client) -> None:
    for place in ("", "taxi.speed", "taxi.speed/", "taxi.speed/-1", "taxi.speed/" + "1" * 19):
        cursor = base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")
        status, code = problem(client.get(PATH.format(0), params={"cursor": cursor}))
        assert (status, code) in ((400, "invalid-request"), (422, "invalid-request")), place


@pytest.mark.long
def test_what_is_no_window_or_none_that_has_closed_is_refused(client: httpx.Client) -> None:
    assert problem(client.get(PATH.format(3))) == (404, "unknown-name")
    assert problem(client.get(PATH.format(10**18 - 1))) == (404, "unknown-name")
    for window in (-1, "x", 10**18, "1.5"):
        assert problem(client.get(PATH.format(window))) == (422, "invalid-request")
