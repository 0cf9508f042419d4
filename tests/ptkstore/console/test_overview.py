"""The first page: health, what needs the reader, the last day; each reader sees what its roles allow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptkstore.console.pages.shown import shown_time
from ptkstore.domain.identity import Role
from ptkstore.domain.subscriptions import DeadLetter
from ptkstore.ports.row_processes import RunFailed
from tests.support.api_server import Api
from tests.support.console_pages import seen, signed_in
from tests.support.world import NOW


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A training of `speed` failed after its first version; a block is nearly spent, and a message did not arrive."""
    with Api(tmp_path_factory.mktemp("home")) as api:
        world = api.world
        world.stream(retention_windows=40)
        world.register(epsilon=0.95)
        world.publish(0)
        world.clock.pass_(minutes=1)
        world.trainer.failing = RunFailed("memory-limit")
        world.publish(1)
        world.register("late", epsilon=0.01)
        made, _ = world.service.subscribe_to_ptk("taxi.speed", "http://127.0.0.1:9/hook", team="taxi")
        with world.service.begin() as uow:
            uow.subscriptions.add_dead_letter(DeadLetter(made.id, 1, "timeout", NOW))
            uow.commit()
        yield api


def needs(api: Api, *roles: Role, team: str = "taxi") -> list[tuple[str, ...]]:
    """Kind, place and sentence of each thing that needs the reader."""
    page = signed_in(api, *roles, team=team).get("/console/").text
    row = r'<li><span class="tag[^"]*">([^<]*)</span> <a href="([^"]*)">[^<]*</a> <span[^>]*>([^<]*)</span></li>'
    return [tuple(found) for found in re.findall(row, page)]


def test_what_needs_an_owner_is_told_with_a_link(api: Api) -> None:
    found = {kind: (place, text) for kind, place, text in needs(api)}
    assert found["training"] == (
        "/console/ptks/taxi.speed#trainings",
        "Training on window 1 failed at 2026-02-04 00:01 UTC: memory-limit.",
    )
    place, text = found["delivery"]
    assert place.startswith("/console/subscriptions/sub_")
    assert text == f"Subscription {place.rpartition('/')[2]} has 1 dead letter."
    client = signed_in(api)
    assert client.get(place).status_code == 200
    assert (
        "It needed more memory than PTK_TRAIN_MEMORY_MIB allows. <code>memory-limit</code>"
        in client.get("/console/").text
    )
    assert found["budget"] == (
        "/console/streams/taxi#budget",
        "2 of 6 active blocks have 90% or more of their epsilon spent or reserved.",
    )


def test_work_that_is_unfinished_is_shown_with_its_window(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        api.world.stream()
        client = signed_in(api)
        assert "Unfinished work" not in client.get("/console/").text
        api.world.close(1)
        page = re.sub(r"\s+", " ", client.get("/console/").text)
        assert 'Unfinished work <span class="count">1</span>' in page
        line = '<a href="/console/streams/taxi">taxi</a> <span class="quiet">preparation on window 0 waits</span>'
        assert line in page
        assert f">closed {shown_time(api.world.clock.now().isoformat())}</span>" in page


def test_roles_decide_what_needs_a_reader(api: Api) -> None:
    def kinds(*roles: Role, team: str = "taxi") -> set[str]:
        return {kind for kind, _, _ in needs(api, *roles, team=team)} - {"service"}

    assert kinds(Role.PRODUCER) == {"training"}  # the team's own notices say it, too
    assert kinds(Role.OFFICER) == {"training", "budget"}
    assert kinds(Role.ADMINISTRATOR, team="operators") == {"training", "delivery", "budget"}
    assert kinds(team="strangers") == set()
    api.grant("ads", "taxi", Role.CONSUMER)
    assert kinds(Role.CONSUMER, team="ads") == set()


def test_the_last_day_and_who_waits_are_shown(api: Api) -> None:
    page = re.sub(r"\s+", " ", seen(signed_in(api).get("/console/")).text)
    assert "1 version published" in page
    assert "2 windows closed" in page
    assert "2 windows closed in the last 24 hours" in page
    assert "taxi.speed version 1" in page
    assert "1 wait" in page
    assert "taxi.late for its first version" in page
    assert "95 % of ε 1 used in the fullest block" in page
    api.world.clock.pass_(days=2)
    try:
        later = re.sub(r"\s+", " ", seen(signed_in(api).get("/console/")).text)
    finally:
        api.world.clock.pass_(days=-2)
    assert "0 versions published" in later
    assert "0 windows closed" in later
    assert "Nothing was published." in later


def test_what_a_reader_may_not_read_is_not_shown_as_none_of_it(api: Api) -> None:
    producer = seen(signed_in(api, Role.PRODUCER).get("/console/")).text
    assert "Versions are not shown to you" in producer
    assert "published" not in re.sub(r"\s+", " ", producer)
    assert "2 windows closed in the last 24 hours" in producer
    api.grant("ads", "taxi", Role.CONSUMER)
    consumer = seen(signed_in(api, Role.CONSUMER, team="ads").get("/console/")).text
    assert "windows closed" not in consumer
    assert "1 version published" in re.sub(r"\s+", " ", consumer)


def test_a_store_without_trouble_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Api(tmp_path_factory.mktemp("home")) as api:
        page = signed_in(api).get("/console/").text
        assert "Nothing needs you." in page
        assert "No stream that you have a role on." in page
        assert "Healthy" in page
        api.app.state.parts._known = ({"catalog": "failing"}, {"catalog": "unavailable"})
        api.app.state.parts._asked_at = float("inf")
        page = signed_in(api).get("/console/").text
        assert "Not healthy" in page
        assert "failing: catalog" in page
        assert "Nothing needs you." not in page


def test_what_needs_a_reader_leads_to_a_place_of_its_page(api: Api) -> None:
    client = signed_in(api)
    places = [place.split("#") for _, place, _ in needs(api) if "#" in place]
    assert {place for place, _ in places} == {"/console/ptks/taxi.speed", "/console/streams/taxi"}
    for place, anchor in places:
        assert f'id="{anchor}"' in client.get(place).text
    assert 'id="exposed"' in client.get("/console/streams/taxi").text
