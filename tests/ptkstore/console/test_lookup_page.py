"""A value is looked up by a form that is sent: by those who may look features up over HTTP, and by nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from ptkstore.domain.identity import Role
from tests.support.api_server import Api
from tests.support.console_pages import HOSTILE, seen, signed_in

PAGE = "/console/ptks/taxi.speed/lookup"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home")) as api:
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
