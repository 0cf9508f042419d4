"""Tags are said with a PTK, in every way that one is said, and PTKs are found by them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ptkstore import PTK
from ptkstore.adapters.sql.content import ptk_of, ptk_text
from ptkstore.application.planning.estimators import spec_of
from ptkstore.domain.identity import Role
from ptkstore.domain.ptks.ptks import said_of
from ptkstore.errors import InvalidRequest
from ptkstore.sdk import Store
from ptkstore.sdk.repository.declarations import Repository
from tests.support.api_server import Api
from tests.support.command_line import Line
from tests.support.speeds import speeds
from tests.support.world import STREAM, World

TAGGED = ("ads", "fraud-2026", "top_10")


def register(store: Store, ptk: PTK) -> str:
    return store.register_ptk(
        ptk.estimator, name=ptk.name, stream=STREAM, target=ptk.target, team="taxi", tags=ptk.tags
    )


def test_tags_are_registered_shown_and_changed(store: Store, world: World) -> None:
    world.stream()
    register(store, speeds(tags=TAGGED))
    register(store, speeds("plain"))
    assert {one["name"]: one["tags"] for one in store.ptks()} == {"plain": [], "speed": [*TAGGED]}
    assert store.service.ptk("taxi.speed").tags == TAGGED
    assert store.service.update_ptk("taxi.speed", tags=["ads"]).tags == ("ads",)
    assert store.service.update_ptk("taxi.speed", description="new").tags == ("ads",)
    assert store.service.update_ptk("taxi.speed", tags=[]).tags == ()


def test_a_plan_shows_tags_that_change_and_apply_changes_them(store: Store, world: World) -> None:
    world.stream()
    store.apply(Repository("taxi", (speeds(tags=["ads"]),)))
    declared = Repository("taxi", (speeds(tags=TAGGED),))
    (planned,) = store.plan(declared, audit=False)
    assert [(one.field, one.before, one.after) for one in planned.changes] == [("tags", ["ads"], [*TAGGED])]
    assert [one.action for one in store.apply(declared)] == ["update"]
    assert [one.action for one in store.plan(declared, audit=False)] == ["keep"]
    assert store.service.ptk("taxi.speed").tags == TAGGED


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ("ads", "tags must be a list of texts"),
        ([1], "tags must be a list of texts"),
        ([f"t{number}" for number in range(11)], "11 tags are too many: 10 at most"),
        (["ads", "ads"], "no two of tags may be the same"),
        *((["ok", tag], "each of tags must match") for tag in ("Ads", "", "a b", "-a", "é", "a\n", "x" * 33)),
    ],
)
def test_tags_that_nobody_could_type_are_refused(world: World, tags: Any, message: str) -> None:
    world.stream()
    with pytest.raises(InvalidRequest, match=rf"^{message}"):
        register(Store(world.service), replace(speeds(), tags=tags))
    assert world.service.ptks() == ()


def test_tags_are_checked_over_http_and_no_message_shows_them(api: Api) -> None:
    api.world.stream()
    Store(api.world.service).apply(Repository("taxi", (speeds(),)))
    client = api.client(api.token(*Role))
    for tags in (["UPPER"], ["ok"] * 11, ["x" * 33], "ads", [3]):
        answer = client.patch("/v1/ptks/taxi.speed", json={"tags": tags})
        assert answer.status_code == 422, tags
        assert "UPPER" not in answer.text
    assert client.patch("/v1/ptks/taxi.speed", json={"tags": ["ads"]}).json()["tags"] == ["ads"]
    found = {tag: client.get("/v1/ptks", params={"tag": tag}).json()["items"] for tag in ("ads", "ad")}
    assert {tag: len(items) for tag, items in found.items()} == {"ads": 1, "ad": 0}


def test_a_ptk_without_tags_is_stored_as_before_there_were_any(world: World) -> None:
    world.stream()
    store = Store(world.service)
    register(store, speeds("plain", tags=[]))
    register(store, speeds(tags=TAGGED))
    plain, tagged = (world.service.ptk(f"taxi.{name}") for name in ("plain", "speed"))
    changed = world.service.update_ptk("taxi.plain", tags=[])
    assert "tags" not in json.loads(ptk_text(plain))
    assert "tags" not in json.loads(ptk_text(changed))
    assert [ptk_of(ptk_text(one)).tags for one in (plain, tagged)] == [(), TAGGED]


def test_a_ptk_that_is_said_in_lists_equals_the_stored_one(world: World) -> None:
    """A request in JSON has lists; a PTK is the same before it is stored and after."""
    world.stream()
    register(Store(world.service), speeds(tags=TAGGED))
    stored = world.service.ptk("taxi.speed")
    with world.service.begin() as uow:
        owner = uow.streams.get(STREAM)
    said = {**said_of(stored), "tags": [*stored.tags], "windows": [*stored.windows]}
    assert spec_of("taxi.speed", owner, said) == stored
    assert said_of(spec_of("taxi.speed", owner, said)) == said_of(stored)


def test_other_tags_are_no_new_definition(world: World) -> None:
    """A PTK that waits for an accepted version waits on: its timeout does not begin anew."""
    test = {"accept": {"metric": "loss", "epsilon": 0.2}}
    world.stream()
    world.register(config=test, epsilon=0.1)
    since = world.service.ptk("taxi.speed").waiting
    world.publish(0)
    assert world.service.update_ptk("taxi.speed", tags=["ads"]).tags == ("ads",)
    assert world.service.ptk("taxi.speed").waiting == since


def test_views_are_published_with_the_tags_that_the_ptk_has_by_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[int, tuple[str, ...]]] = []
    monkeypatch.setattr(world.views, "flip", lambda state: shown.append((state.version, state.tags)))
    world.stream()
    world.register(tags=["ads"])
    world.publish(0)
    world.service.update_ptk("taxi.speed", tags=TAGGED)
    world.publish(1)
    assert shown == [(1, ("ads",)), (2, TAGGED)]


def test_the_command_lists_by_tag_and_says_what_was_meant(world: World) -> None:
    world.stream()
    store = Store(world.service)
    for ptk in (speeds(tags=TAGGED), speeds("other", tags=["ads"]), speeds("plain")):
        register(store, ptk)
    line = Line(world.service.settings.root)

    def listed(*tags: str) -> list[str]:
        words = [word for tag in tags for word in ("--tag", tag)]
        return [one["ptk"] for one in json.loads(line.run("list", *words, "--json").stdout)]

    assert listed() == ["taxi.other", "taxi.plain", "taxi.speed"]
    assert listed("ads") == ["taxi.other", "taxi.speed"]
    assert listed("ads", "top_10") == ["taxi.speed"]
    assert "did you mean 'fraud-2026'" in line.run("list", "--tag", "fraud2026", code=2).stderr
    assert "no PTK that you may see has it" in line.run("list", "--tag", "zzzz", code=2).stderr
    assert 'tags: ["ads"]' in line.run("show", "taxi.other").stdout
