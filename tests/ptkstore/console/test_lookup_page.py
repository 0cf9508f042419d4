"""A value is looked up by a form that is sent: by those who may look features up over HTTP, and by nobody else."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from ptkstore.domain.identity import Role
from tests.support.api_server import Api
from tests.support.console_pages import HOSTILE, seen, signed_in
from tests.support.selected import publish_selected

PAGE = "/console/ptks/taxi.speed/lookup"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home")) as api:
        api.world.stream()
        api.world.register()
        api.world.publish(0)
        yield api


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A store that publishes to a real Feast and looks up in it."""
    with Api(tmp_path_factory.mktemp("real")) as api:
        del api.world.service.__dict__["features"]
        api.world.stream()
        api.world.register()
        api.world.publish(0)
        yield api


def look_up(client: httpx.Client, **form: str) -> httpx.Response:
    key = seen(client.get(PAGE)).fields.get("form_key", "")
    return client.post(PAGE, data={"form_key": key, **form})


def test_an_answer_stands_beside_its_version_and_guarantee(api: Api) -> None:
    text = re.sub(r"\s+", " ", seen(look_up(signed_in(api, Role.CONSUMER), key_0="8")).text)
    assert "version 1 is online" in text
    assert "speed_mean" in text
    assert "Library: its privacy loss is proven" in text
    assert "Privacy unit: one record." in text
    assert re.search(r"Epsilon of one training: [\d.]+\.", text)
    assert "±" not in text.partition("Library")[0]  # this store has no value, and so no noise of it
    assert "Windows: 2026-01-05 to 2026-01-06." in text


def cells(page: httpx.Response) -> dict[str, str]:
    """What the table of an answer says of each feature."""
    found = re.findall(r'data-label="Feature">([^<]*)</th><td[^>]*>(.*?)</td>', page.text)
    return {name: re.sub(r"<[^>]*>", "", value) for name, value in found}


@pytest.mark.real
def test_values_of_a_real_feast_are_those_of_the_version(real: Api) -> None:
    client = signed_in(real, Role.CONSUMER)
    _, files = real.world.service.ptk_version("taxi.speed", 1)
    released = pq.read_table(io.BytesIO(next(iter(files.values())))).to_pylist()
    assert len(released) == 24
    for row in (released[8], released[23]):
        page = look_up(client, key_0=str(row["hour"]))
        assert "version 1 is online" in page.text
        assert "Library: its privacy loss is proven" in page.text
        values = {name: value for name, value in row.items() if name != "hour"}
        assert {name: json.loads(text) for name, text in cells(page).items()} == values
        noises = re.findall(r'data-label="Noise" class="number">(?:<span[^>]*>)?([^<]*)<', page.text)
        assert re.fullmatch(
            r"± [\d.]+ ± [\d.e+]+ not told", " ".join(noises)
        )  # of count, sum and their ratio
    unknown = look_up(client, key_0="99")
    assert set(cells(unknown).values()) == {"no released value"}
    assert "does not tell whether there are rows of these keys" in unknown.text


@pytest.mark.real
def test_the_noise_is_that_of_the_keys_row(tmp_path: Path) -> None:
    with Api(tmp_path) as api:
        publish_selected(api.world)
        client, noises = signed_in(api), []
        for zone in ("early", "late"):
            key = seen(client.get("/console/ptks/taxi.zones/lookup")).fields["form_key"]
            answer = {"form_key": key, "key_0": zone}
            page = client.post("/console/ptks/taxi.zones/lookup", data=answer)
            own = float(cells(page)["noise_std"])
            assert page.text.count(f"± {own:.3g}") == 2  # of both counts
            noises.append(own)
    assert noises[0] > noises[1]


@pytest.mark.real
def test_an_answer_of_a_newer_version_says_so(real: Api) -> None:
    client = signed_in(real)
    before = cells(look_up(client, key_0="8"))
    real.world.publish(1)
    page = look_up(client, key_0="8")
    assert "version 2 is online" in page.text
    assert cells(page) != before


def test_the_page_of_all_lookups_lists_what_the_reader_may_look_up(api: Api) -> None:
    link = '<a href="/console/ptks/taxi.speed/lookup">taxi__speed</a>'
    consumer = signed_in(api, Role.CONSUMER)
    assert '<a href="/console/lookup" aria-current="page">Look up</a>' in consumer.get("/console/lookup").text
    assert '<a href="/console/lookup">Look up</a>' in consumer.get("/console/").text
    for text in ("", "spe", "taxi.speed", "SPEED"):
        found = consumer.get("/console/lookup", params={"q": text}).text
        assert link in found, text
        assert "1 of 1 feature view<" in found, text
    none = consumer.get("/console/lookup", params={"q": "sped"}).text
    assert f"Did you mean {link}" in none
    hostile = consumer.get("/console/lookup", params={"q": HOSTILE})
    assert "No view has that in its name." in hostile.text
    assert not {"script", "img"} & set(seen(hostile).tags)
    for who in (
        signed_in(api, Role.PRODUCER),
        signed_in(api, Role.OFFICER),
        signed_in(api, Role.CONSUMER, team="strangers"),
    ):
        for text in ("", "sped"):
            page = who.get("/console/lookup", params={"q": text})
            assert page.status_code == 200
            assert "speed" not in page.text.replace('placeholder="speed"', "")
            assert "Your roles look no features up" in page.text


def test_views_of_streams_that_the_reader_reads_nothing_of_are_not_listed(api: Api) -> None:
    """A team that may look up on one stream, and only knows of another."""
    if not any(stream.name == "bikes" for stream in api.world.service.streams()):
        api.world.service.create_stream(replace(api.world.service.stream("taxi"), name="bikes"))
        api.world.register("rolls", stream="bikes")
    api.identity.create_team("half")
    api.grant("half", "bikes", Role.CONSUMER)
    api.grant("half", "taxi", Role.PRODUCER)
    page = signed_in(api, Role.CONSUMER, Role.PRODUCER, team="half").get("/console/lookup").text
    assert re.findall(r'<h2><a href="/console/ptks/([^"]+)/lookup">', page) == ["taxi.rolls"]
    assert "1 of 1 feature view<" in page


def test_what_was_typed_is_cut_and_a_page_that_nobody_sent_a_form_to_asks_nothing(api: Api) -> None:
    client = signed_in(api)
    assert seen(look_up(client, key_0="x" * 500)).fields["key_0"] == "x" * 200
    assert "is of type" not in client.get(PAGE).text


@pytest.mark.parametrize("typed", ["x", "", HOSTILE, "8.5"])
def test_a_key_of_another_type_is_refused_and_asked_about_nowhere(api: Api, typed: str) -> None:
    page = look_up(signed_in(api), key_0=typed)
    assert page.status_code == 200
    assert "hour is of type int64." in page.text
    assert not {"script", "img"} & set(seen(page).tags)


def test_a_lookup_takes_the_form_of_the_session(api: Api) -> None:
    client = signed_in(api)
    for form in ({"key_0": "8"}, {"key_0": "8", "form_key": "x" * 43}):
        assert client.post(PAGE, data=form).status_code == 403
    answer = api.client().post(PAGE, data={"key_0": "8"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/login")


def test_a_query_looks_nothing_up(api: Api) -> None:
    assert "is online" not in signed_in(api).get(PAGE, params={"key_0": "8"}).text


def test_roles_are_those_of_lookups_over_http(api: Api) -> None:
    for role in (Role.PRODUCER, Role.OFFICER):
        client = signed_in(api, role)
        assert client.get(PAGE).status_code == 403
        key = seen(client.get("/console/")).fields["form_key"]
        assert client.post(PAGE, data={"form_key": key, "key_0": "8"}).status_code == 403
    assert signed_in(api, team="strangers").get(PAGE).status_code == 404
