"""The catalog: a search finds PTKs by what is public of them, among those that the reader may see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from ptkstore.console.pages import catalog
from ptkstore.domain import catalog_search as search
from ptkstore.domain.identity import STREAM_ROLES, Role
from tests.support.api_server import Api
from tests.support.builders import ptk_spec
from tests.support.console_pages import HOSTILE, seen, signed_in
from tests.support.world import speed


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """`speed` has a version, `busy` costs more, and `secret.rolls` is of a stream of another team."""
    with Api(tmp_path_factory.mktemp("home")) as api:
        pace = api.app.state.near_names  # these tests seek faster than a store lets one
        pace._at_once = pace._left = 1_000.0
        api.world.stream()
        api.world.register(description=f"Mean Speed by hour {HOSTILE}", epsilon=0.1, tags=("ads", "night"))
        api.world.publish(0)
        api.world.register("busy", epsilon=0.5, description="When streets are full", tags=["ads"])
        bikes = replace(api.world.service.stream("taxi"), name="bikes", team="secret")
        api.world.service.create_stream(bikes)
        own: dict[str, Any] = {"estimator": speed(0.1), "train_frequency": "1d", "target": 0.1}
        own["tags"] = ["nights_of_others"]
        api.world.service.register_ptk(team="secret", name="rolls", stream="bikes", **own)
        yield api


def found(page: httpx.Response) -> list[str]:
    assert page.status_code == 200
    return re.findall(r'<h2><a href="/console/ptks/([^"]+)">', page.text)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({}, ["taxi.busy", "taxi.speed"]),
        ({"q": "by SPEED"}, ["taxi.speed"]),
        ({"q": "streets"}, ["taxi.busy"]),
        ({"q": "speed_mean"}, ["taxi.busy", "taxi.speed"]),
        ({"q": "taxi__busy"}, ["taxi.busy"]),
        ({"q": "hour streets"}, ["taxi.busy"]),
        ({"epsilon": "0.2"}, ["taxi.speed"]),
        ({"epsilon": "nan"}, ["taxi.busy", "taxi.speed"]),
        ({"epsilon": "-1"}, ["taxi.busy", "taxi.speed"]),
        ({"versions": "some"}, ["taxi.speed"]),
        ({"versions": "none"}, ["taxi.busy"]),
        ({"family": "HistoricalStatistics"}, ["taxi.busy", "taxi.speed"]),
        ({"family": "TeamCode"}, []),
        ({"assurance": "asserted"}, []),
        ({"stream": "taxi", "q": "busy"}, ["taxi.busy"]),
        ({"stream": "bikes"}, []),
        ({"q": "rolls"}, []),
        ({"q": "NIGHT"}, ["taxi.speed"]),
        ({"tag": "ads"}, ["taxi.busy", "taxi.speed"]),
        ({"tag": "night"}, ["taxi.speed"]),
        ({"tag": "nigh"}, []),
        ({"tag": "ads", "q": "streets"}, ["taxi.busy"]),
        ({"age": "x"}, ["taxi.busy", "taxi.speed"]),
    ],
)
def test_a_search_finds_what_has_all_that_is_asked_for(
    api: Api, asked: dict[str, str], names: list[str]
) -> None:
    assert found(signed_in(api).get("/console/ptks", params=asked)) == names


def test_versions_are_told_to_those_who_may_read_states(api: Api) -> None:
    producer = signed_in(api, Role.PRODUCER)
    assert found(producer.get("/console/ptks")) == ["taxi.busy", "taxi.speed"]
    for choice in ("some", "none"):
        assert found(producer.get("/console/ptks", params={"versions": choice})) == []
    for page in ("/console/ptks", "/console/streams/taxi"):
        text = producer.get(page).text
        assert not re.search(r"version 1|no version yet|>none yet", text), page
    assert "version 1" in signed_in(api, Role.CONSUMER).get("/console/ptks").text


def test_ptks_are_found_by_the_age_of_their_newest_version(api: Api) -> None:
    clock, begun = api.world.clock, api.world.clock.time
    expected = {0: ("1", "7", "30"), 2: ("7", "30"), 8: ("30",), 31: ("older",)}
    try:
        for days, matching in expected.items():
            clock.time = begun + timedelta(days=days)
            client = signed_in(api)
            for age in ("1", "7", "30", "older"):
                names = ["taxi.speed"] if age in matching else []
                assert found(client.get("/console/ptks", params={"age": age})) == names, (days, age)
            assert found(signed_in(api, Role.PRODUCER).get("/console/ptks", params={"age": "older"})) == []
    finally:
        clock.time = begun


def test_tags_lead_to_what_else_has_them(api: Api) -> None:
    client = signed_in(api)
    for page in ("/console/ptks", "/console/ptks/taxi.speed"):
        assert 'href="/console/ptks?tag=night"' in client.get(page).text
    choices = client.get("/console/ptks").text.partition('<select id="tag"')[2].partition("</select>")[0]
    assert re.findall(r'<option value="([^"]*)"', choices) == ["", "ads", "night"]


def test_a_search_that_finds_nothing_names_near_tags(api: Api) -> None:
    link = '<a href="/console/ptks?tag=night">the tag night</a>'
    for asked in ({"tag": "nigth"}, {"q": "nigth"}, {"q": "nights_of_other", "tag": "nigth"}):
        page = signed_in(api).get("/console/ptks", params=asked).text
        assert f"Did you mean {link}" in page, asked
        assert "others" not in page


def test_a_text_is_made_once_for_all_words(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(search, "_text", lambda spec: made.append(spec) or "mean speed by hour")
    assert catalog.Search(text="mean speed hour").finds(ptk_spec(), None)
    assert len(made) == 1
    assert catalog.Search(family=ptk_spec().family).finds(ptk_spec(), None)
    assert len(made) == 1


def test_a_mistyped_word_leads_to_the_search_that_was_meant(api: Api) -> None:
    page = signed_in(api).get("/console/ptks", params={"q": "streest full"}).text
    assert 'Did you mean <a href="/console/ptks?q=streets+full">streets full</a>' in page


def test_a_search_that_finds_nothing_names_what_is_near(api: Api) -> None:
    for text, meant in (("sped", "taxi.speed"), ("taxi.buzy", "taxi.busy"), ("sped_mean", "taxi.busy")):
        page = signed_in(api).get("/console/ptks", params={"q": text})
        assert f'Did you mean <a href="/console/ptks/{meant}">{meant}</a>' in page.text, text
    assert "Use fewer words" in signed_in(api).get("/console/ptks", params={"q": "zzzzzz"}).text


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("ptks/taxi.sped", "ptks/taxi.speed"),
        ("streams/taxy", "streams/taxi"),
        ("streams/taxy/queue", "streams/taxi"),
    ],
)
def test_a_name_that_is_unknown_is_told_with_what_is_near(api: Api, path: str, meant: str) -> None:
    page = signed_in(api).get(f"/console/{path}")
    assert page.status_code == 404
    assert f'<a href="/console/{meant}">{meant.partition("/")[2]}</a>' in page.text


def test_nothing_is_near_that_the_reader_may_not_see(api: Api) -> None:
    ours = signed_in(api, *STREAM_ROLES)
    pages = [ours.get(f"/console/ptks/secret.{name}") for name in ("rolls", "rols", "other")]
    pages += [ours.get(f"/console/streams/{name}") for name in ("bikes", "bike", "trams")]
    assert {page.status_code for page in pages} == {404}
    assert not any("rolls" in page.text or "bikes" in page.text for page in pages)
    keys = r'name="form_key" value="[^"]+"'
    assert len({re.sub(keys, "", page.text).replace(str(page.url), "") for page in pages}) == 1
    assert "rolls" not in ours.get("/console/ptks", params={"q": "rols"}).text
    theirs = signed_in(api, Role.DEVELOPER, team="secret")
    assert "secret.rolls" in theirs.get("/console/ptks/secret.rols").text


def test_what_is_asked_for_is_shown_as_text_and_cut(api: Api) -> None:
    for text in (HOSTILE, "x" * 5_000):
        page = signed_in(api).get("/console/ptks", params={"q": text})
        assert page.status_code == 200
        assert seen(page).fields["q"] == text[:100]
        assert not {"script", "img"} & set(seen(page).tags)
