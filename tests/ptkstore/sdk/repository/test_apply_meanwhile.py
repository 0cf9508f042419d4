"""What `apply` does where the store changes between what it asks and what it does: here and behind HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptkstore import errors as e
from ptkstore.application.ptks.exchange_ptks import Admission
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.identity import Role
from ptkstore.sdk import Repository, Store, load_repository
from tests.support.api_server import Api
from tests.support.declared import declaring, registered, speed
from tests.support.team_code import Inspector, write_repository
from tests.support.world import World


@pytest.fixture
def api(api: Api) -> Api:
    api.world.stream(minimum_assurance=Assurance.ASSERTED)
    api.world.stream("bikes")
    return api


@pytest.fixture
def roles() -> tuple[Role, ...]:
    return (Role.DEVELOPER,)


def leaves_after_asking(world: World, monkeypatch: pytest.MonkeyPatch, *ptk_ids: str) -> None:
    """Have PTKs go right after a store was first asked about the stream that they are on."""
    admit = world.service.admit_ptks

    def asked(**more: Any) -> Admission:
        answer = admit(**more)
        for spec in world.service.ptks(stream=more["stream"]):
            if spec.ptk_id in ptk_ids:
                world.service.deregister_ptk(spec.ptk_id)
        return answer

    monkeypatch.setattr(world.service, "admit_ptks", asked)


def test_team_code_finds_the_room_that_came_after_it_was_asked_for(
    store: Store, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inspector = world.service.__dict__["sandbox"] = Inspector()
    world.register("large", 0.95)
    leaves_after_asking(world, monkeypatch, "taxi.large")
    store.apply(load_repository(write_repository(tmp_path / "team")))
    assert registered(world) == {"taxi.trips": 0.1}
    assert len(inspector.examined) == 1


def test_team_code_that_is_refused_for_good_is_not_sent(
    store: Store, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.register("trips", stream="bikes")
    world.service.deregister_ptk("taxi.trips")
    sent: list[bytes] = []
    monkeypatch.setattr(world.service, "put_bundle", lambda content, *_, **__: sent.append(content))
    with pytest.raises(e.NameTaken):
        store.apply(load_repository(write_repository(tmp_path / "team")))
    assert sent == []


@pytest.mark.parametrize("first", ["taxi", "bikes"])
def test_a_stream_with_room_by_now_stays_as_it_was_where_another_still_refuses(
    store: Store, world: World, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    world.register("large", 0.95)
    world.register("bike", 0.95, stream="bikes")
    leaves_after_asking(world, monkeypatch, "taxi.large")
    ptks = [speed("a", 0.1), speed("b", 0.1, "bikes")]
    with pytest.raises(e.PtkRejected):
        store.apply(declaring(*(ptks if first == "taxi" else reversed(ptks))))
    assert registered(world) == {"taxi.bike": 0.95}
    assert ("bikes taxi.b", "ptk-rejected") in world.notices()


@pytest.mark.parametrize("first", ["taxi", "bikes"])
def test_what_is_refused_for_good_is_refused_before_a_stream_that_may_have_room_is_asked_again(
    store: Store, world: World, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    world.register("b", 0.1)  # of another stream
    world.service.deregister_ptk("taxi.b")
    admit = world.service.admit_ptks

    def full(**asked: Any) -> Admission:
        if asked["stream"] == "taxi":
            return Admission({"taxi.a": e.PtkRejected("no room")})
        return admit(**asked)

    monkeypatch.setattr(world.service, "admit_ptks", full)
    ptks = [speed("a", 0.1), speed("b", 0.1, "bikes")]
    with pytest.raises(e.NameTaken):
        store.apply(declaring(*(ptks if first == "taxi" else reversed(ptks))))
    assert registered(world) == {}


def test_what_somebody_else_pruned_meanwhile_is_pruned(
    store: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply(declaring(speed("a", 0.1), speed("b", 0.1), speed("c", 0.1)))
    others, mine = world.service.deregister_ptk, store.service.deregister_ptk

    def second(ptk_id: str) -> None:
        if ptk_id == "taxi.b":
            others(ptk_id)
        mine(ptk_id)

    monkeypatch.setattr(store.service, "deregister_ptk", second)
    changes = store.apply(Repository("taxi", (speed("a", 0.1),)), prune=True)
    assert [(one.action, one.ptk_id) for one in changes] == [
        ("keep", "taxi.a"),
        ("deregister", "taxi.b"),
        ("deregister", "taxi.c"),
    ]
    assert registered(world) == {"taxi.a": 0.1}
