"""Waits that ended, over HTTP and from Python: of the caller's context, and nothing that the console does not show."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from ptkstore.console.pages.shown import shown_time
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.identity import STREAM_ROLES, Role
from ptkstore.domain.scheduling.choices import Mode, Scheduler
from ptkstore.sdk import connect
from ptkstore.wire.streams import EndedWaitsOut
from tests.support.api_server import Api, problem
from tests.support.console_pages import signed_in
from tests.support.world import NOW, STREAM, speed

ENDED = f"/v1/streams/{STREAM}/queue/ended"
RETRIES: dict[str, Any] = {"target": 1e-9, "config": {"accept": {"metric": "loss", "epsilon": 0.2}}}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Two contexts: of `taxi`, a wait ended with a version and one with a change; `bikes` deregistered its PTK."""
    with Api(tmp_path_factory.mktemp("home")) as api:
        world, service = api.world, api.world.service
        contexts = Sharing((("north", ("taxi",)), ("south", ("bikes",))), "two companies")
        world.stream(
            scheduler=Scheduler.ADAPTIVE,
            scheduler_mode=Mode.CONSERVE,
            retention_windows=4,
            rows_per_window=1_000,
            sharing=contexts,
        )
        world.register("retries", epsilon=0.1, **RETRIES)
        world.register("served", epsilon=0.1)
        rolls = service.register_ptk(
            team="bikes", name="rolls", stream=STREAM, estimator=speed(0.1), train_frequency="1d", target=0.1
        )
        world.clock.pass_(hours=1)
        service.deregister_ptk(rolls)
        world.ingest([i / 1_000 for i in range(1_000)])
        world.close(1)
        world.work("prepare", "allocate", "schedule", "train", "validate", "place", "flip")
        world.clock.pass_(hours=1, microseconds=250_000)
        service.update_ptk("taxi.retries", estimator=speed(0.2))
        world.stream("planned")
        for team in ("taxi", "bikes", "trains"):
            for role in STREAM_ROLES:
                api.grant(team, STREAM, role)
        yield api


def told(client: httpx.Client) -> list[dict[str, Any]]:
    answer = client.get(ENDED)
    assert answer.status_code == 200
    EndedWaitsOut.model_validate(answer.json())
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def test_it_says_how_each_wait_ended_and_leaves_out_those_that_last(api: Api) -> None:
    retries, served = told(api.acting(Role.DEVELOPER))
    (verdict,) = retries.pop("verdicts")
    assert verdict["decision"] == "retry"
    assert retries == {
        "ptk_id": "taxi.retries",
        "since": NOW.isoformat(),
        "until": api.world.clock.now().replace(microsecond=0).isoformat(),
        "end": "changed",
        "registered": True,
    }
    assert api.world.clock.now().microsecond
    assert (served["ptk_id"], served["end"], served["verdicts"]) == ("taxi.served", "version", [])


@pytest.mark.parametrize("role", [Role.DEVELOPER, Role.OFFICER])
@pytest.mark.parametrize(
    ("team", "ptks"), [("taxi", ["taxi.retries", "taxi.served"]), ("bikes", ["bikes.rolls"]), ("trains", [])]
)
def test_a_team_is_told_of_its_own_context_and_what_its_page_of_the_console_shows(
    api: Api, team: str, ptks: list[str], role: Role
) -> None:
    found = told(api.acting(role, team=team))
    assert [one["ptk_id"] for one in found] == ptks
    page = signed_in(api, role, team=team).get(f"/console/streams/{STREAM}/queue").text
    shown = [html.unescape(label) for label in re.findall(r'class="wait"[^>]* aria-label="([^"]*)"', page)]
    assert {label_of(one) for one in found} == {label for label in shown if "still waits" not in label}


def label_of(one: Mapping[str, Any]) -> str:
    """What the console says in words of a wait that ended."""
    verdicts = "".join(f", {each['decision']} {shown_time(each['at'])}" for each in one["verdicts"])
    since, until = shown_time(one["since"]), shown_time(one["until"])
    return f"{one['ptk_id']}: since {since} until {until}, {one['end']}{verdicts}"


def test_whoever_may_not_read_the_queue_is_told_as_little_of_ended_waits(api: Api) -> None:
    clients = [
        api.acting(Role.PRODUCER),
        api.acting(Role.CONSUMER),
        api.acting(team="strangers"),
        api.client("ptk_0"),
    ]
    for client in clients:
        queue, ended = client.get(f"/v1/streams/{STREAM}/queue"), client.get(ENDED)
        assert problem(ended) == problem(queue)
        assert ended.status_code in (401, 403, 404)
    admin = api.acting(Role.ADMINISTRATOR, team="administrators")
    for stream in ("planned", "nowhere"):
        queue, ended = (admin.get(f"/v1/streams/{stream}/queue{more}") for more in ("", "/ended"))
        assert problem(ended) == problem(queue)
        assert ended.json()["detail"] == queue.json()["detail"]


def test_a_store_tells_the_same_in_its_home_and_over_http(api: Api) -> None:
    with (
        connect(api.world.service.settings.root) as here,
        connect(api.url, token=api.token(Role.DEVELOPER)) as there,
        connect(api.url, token=api.token(Role.DEVELOPER, team="bikes")) as beside,
    ):
        every = here.queue(STREAM, ended=True)
        assert [one["ptk_id"] for one in every] == ["bikes.rolls", "taxi.retries", "taxi.served"]
        assert [one["registered"] for one in every] == [False, True, True]
        assert there.queue(STREAM, ended=True) == every[1:] == told(api.acting(Role.DEVELOPER))
        assert beside.queue(STREAM, ended=True) == every[:1]
