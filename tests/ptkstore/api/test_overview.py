"""The overview over HTTP: each caller sees what its roles allow, and a client reads what a home tells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ptkstore.domain.identity import Role
from ptkstore.domain.notices import Notice
from ptkstore.sdk import connect
from ptkstore.sdk.overviews import overview_document, overview_of
from ptkstore.sdk.store import Store
from tests.support.api_server import Api, problem
from tests.support.world import NOW, World


def filled(world: World) -> None:
    world.stream()
    world.stream("quiet")
    world.register()
    world.publish(0)
    world.service.subscribe_to_ptk("taxi.speed", "redis-stream:news", team="taxi")
    with world.service.begin() as uow:
        uow.notify_owner(Notice(NOW, "taxi", "killed", ptk_id="taxi.speed", window_index=1))
        uow.commit()


def overview(api: Api, *roles: Role, team: str = "taxi") -> dict[str, Any]:
    answer = api.acting(*roles, team=team).get("/v1/overview")
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_the_owner_of_a_stream_sees_all_of_it(api: Api) -> None:
    filled(api.world)
    seen = overview(api)
    assert [one["name"] for one in seen["streams"]] == ["quiet", "taxi"]
    taxi = seen["streams"][1]
    assert taxi["budget"]["fullest"]["window"] == 0
    assert taxi["exposure"]["holds"] is True
    assert [one["closed_windows"] for one in seen["streams"]] == [0, 1]
    assert seen["published"]["items"] == [{"ptk_id": "taxi.speed", "version": 1, "at": NOW.isoformat()}]
    assert seen["failed_trainings"] == {"count": 0, "items": []}  # a version came at that time
    assert (seen["subscriptions"], seen["notices"]["count"]) == (1, 1)
    assert seen["parts"]["catalog"] == "ok"


def test_a_consumer_sees_versions_and_no_budget(api: Api) -> None:
    filled(api.world)
    api.grant("riders", "taxi", Role.CONSUMER)
    seen = overview(api, Role.CONSUMER, team="riders")
    (taxi,) = seen["streams"]
    assert (taxi["name"], taxi["budget"], taxi["exposure"], taxi["closed_windows"]) == (
        "taxi",
        None,
        None,
        None,
    )
    assert seen["published"]["count"] == 1
    assert (seen["failed_trainings"]["count"], seen["subscriptions"], seen["notices"]["count"]) == (0, 0, 0)


def test_a_producer_sees_exposure_and_neither_budgets_versions_nor_subscriptions(api: Api) -> None:
    filled(api.world)
    seen = overview(api, Role.PRODUCER)
    assert [one["budget"] for one in seen["streams"]] == [None, None]
    assert all(one["exposure"]["holds"] for one in seen["streams"])
    assert [one["closed_windows"] for one in seen["streams"]] == [0, 1]
    assert seen["published"] is None
    assert (seen["subscriptions"], seen["troubled_subscriptions"]) == (None, None)


def test_a_stranger_sees_that_the_service_works_and_nothing_else(api: Api) -> None:
    filled(api.world)
    seen = overview(api, Role.DEVELOPER, team="riders")
    assert (seen["streams"], seen["ptks"], seen["published"]["count"]) == ([], 0, 0)
    assert (seen["notices"]["count"], seen["subscriptions"], seen["waiting"]["count"]) == (0, 0, 0)


def test_an_administrator_sees_the_trouble_of_all_teams(api: Api) -> None:
    filled(api.world)
    with api.world.service.begin() as uow:
        later = Notice(NOW, "taxi", "killed", ptk_id="taxi.speed", window_index=2)
        uow.notify_owner(replace(later, at=NOW.replace(minute=59)))
        uow.commit()
    seen = overview(api, Role.ADMINISTRATOR, team="operators")
    assert [one["code"] for one in seen["failed_trainings"]["items"]] == ["killed"]
    assert (seen["published"], seen["subscriptions"]) == (None, 1)  # states are for those who may read them


def test_a_developer_sees_windows_that_closed_in_the_last_day_without_exposure(api: Api) -> None:
    filled(api.world)
    api.world.clock.pass_(days=2)
    api.world.close(2)
    api.grant("riders", "taxi", Role.DEVELOPER)
    (taxi,) = overview(api, Role.DEVELOPER, team="riders")["streams"]
    assert (taxi["closed_windows"], taxi["exposure"]) == (1, None)
    api.world.clock.pass_(days=2)
    (taxi,) = overview(api, Role.DEVELOPER, team="riders")["streams"]
    assert taxi["closed_windows"] == 0


def test_a_gateway_of_devices_is_refused(api: Api) -> None:
    assert problem(api.acting(Role.DEVICE_GATEWAY).get("/v1/overview")) == (403, "not-allowed")


def test_a_client_reads_what_was_written(api: Api) -> None:
    filled(api.world)
    api.world.close(2)
    with connect(api.url, token=api.token(*Role)) as store:
        over_http = store.overview()
    here = Store(api.world.service).overview()
    assert here["work"]["items"][0]["since"] == api.world.clock.now().isoformat()
    for document in (over_http, here):
        assert overview_document(overview_of(document)) == document
        for name in ("parts", "healthy", "failing"):  # a server knows more parts than a home
            document.pop(name)
    assert over_http == here
