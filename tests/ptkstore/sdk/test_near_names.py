"""An unknown name is told with the names near it, and never with one that the caller may not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ptkstore import connect
from ptkstore import errors as e
from ptkstore.domain.identity import Role
from ptkstore.domain.near_names import near
from ptkstore.sdk import Store
from tests.support.api_server import Api
from tests.support.world import World


@pytest.fixture
def roles() -> tuple[Role, ...]:
    return (Role.DEVELOPER, Role.CONSUMER, Role.PRODUCER, Role.OFFICER)


@pytest.fixture
def published(world: World) -> World:
    world.stream()
    world.register("speed")
    world.publish(0)
    return world


@pytest.mark.long
@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (lambda s: s.budget("tax"), "there is no stream 'tax'; did you mean 'taxi'?"),
        (lambda s: s.odometers("tax"), "there is no stream 'tax'; did you mean 'taxi'?"),
        (lambda s: s.diff("taxi.sped", 1, 2), "did you mean 'taxi.speed'?"),
        (lambda s: s.ptk("taxi.speed", 7), "did you mean 'taxi.speed v1'?"),
        (lambda s: s.update_ptk_performance_target("taxi.sped", 0.3), "did you mean 'taxi.speed'?"),
        (lambda s: s.update_ptk_config("taxi.sped", {"epsilon": 0.2}), "did you mean 'taxi.speed'?"),
        (lambda s: s.deregister_ptk("taxi.sped"), "there is no PTK 'taxi.sped'; did you mean 'taxi.speed'?"),
        (lambda s: s.subscribe_to_ptk("taxi.sped", "http://127.0.0.1:9/"), "did you mean 'taxi.speed'?"),
        (lambda s: s.trainings("taxi.sped"), "did you mean 'taxi.speed'?"),
        (lambda s: s.ptk("taxi.sped"), "did you mean 'taxi.speed'?"),
        (lambda s: s.deregister_ptk("taxi.weather"), "there is no PTK 'taxi.weather'"),
    ],
)
def test_near_names_are_told_here_and_behind_http(
    store: Store, published: World, asked: Callable[[Store], Any], told: str
) -> None:
    with pytest.raises(e.UnknownName) as refusal:
        asked(store)
    assert str(refusal.value).endswith(told)


def test_a_subscription_that_is_mistyped_is_told_with_the_right_one(store: Store, published: World) -> None:
    made = store.subscribe_to_ptk("taxi.speed", "http://127.0.0.1:9/")
    wrong = made.id[:-1] + ("0" if made.id[-1] != "0" else "1")
    with pytest.raises(e.UnknownName, match=f"did you mean '{made.id}'"):
        store.deliveries(wrong)


def test_names_of_streams_of_others_are_never_told(api: Api, world: World) -> None:
    world.stream("secret")
    world.register("hidden", stream="secret")
    world.stream("shared")
    api.grant("ads", "shared", Role.CONSUMER)
    stranger = api.acting(Role.DEVELOPER, Role.CONSUMER, team="ads")
    unknown = stranger.get("/v1/streams/secret").json()
    hidden = stranger.get("/v1/streams/secret2").json()
    for one in (unknown, hidden):
        assert "did you mean" not in one["detail"]
    for path in (
        "/v1/ptks/taxi.hiden",
        "/v1/ptks/taxi.hidden",
        "/v1/streams/secre",
        "/v1/streams/secret/budget",
    ):
        told = stranger.get(path)
        assert told.status_code == 404
        assert "did you mean" not in told.text
    told = stranger.get("/v1/streams/share").json()
    assert told["detail"] == "there is no stream 'share'; did you mean 'shared'?"
    mine = connect(api.url, token=api.token(Role.CONSUMER, team="ads"))
    with mine, pytest.raises(e.UnknownName) as refusal:
        mine.ptk("taxi.hiden")
    assert "hidden'" not in str(refusal.value)


def test_teams_and_tokens_are_told_to_administrators_alone(api: Api, world: World) -> None:
    api.identity.create_team("weather")
    world.stream()
    wanted = {"team": "weathr", "stream": "taxi", "role": "consumer"}
    officer = api.acting(Role.DEVELOPER)
    assert "weather'" not in officer.post("/v1/grants", json=wanted).text
    administrator = api.acting(Role.ADMINISTRATOR)
    told = administrator.post("/v1/grants", json=wanted).json()
    assert told["detail"].endswith("did you mean 'weather'?")


def test_of_many_near_names_three_are_told() -> None:
    known = [f"taxi.speed_{number}" for number in range(9)]
    assert near("taxi.speed_", known).count("taxi") == 3
    assert near("bus.fare", known) == ""
    assert near("bus.fare", known, otherwise="see: ptk list") == "see: ptk list"
