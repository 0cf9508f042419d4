"""What `plan` says and `apply` does, where there is no room, no name, no stream: here and behind HTTP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ptkstore import connect
from ptkstore import errors as e
from ptkstore.application.ptks import exchange_ptks
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.identity import Action, Role
from ptkstore.ports.team_code import Finding
from ptkstore.sdk import PTK, Repository, Store, load_repository
from ptkstore.sdk.repository.changes import RoomLeft
from tests.support.api_server import Api
from tests.support.declared import declaring, registered, speed
from tests.support.team_code import Inspector, write_repository
from tests.support.world import World

FAILED = Finding("check_noise_is_drawn", "failed", "no noise is drawn")


@pytest.fixture
def api(api: Api) -> Api:
    api.world.stream(minimum_assurance=Assurance.ASSERTED)
    return api


@pytest.fixture
def roles() -> tuple[Role, ...]:
    return (Role.DEVELOPER,)


def planned(store: Store, repository: Repository, prune: bool = False) -> list[tuple[str, str, str | None]]:
    changes = store.plan(repository, prune=prune, audit=False)
    return [(change.action, change.ptk_id, change.refused) for change in changes]


# exchanges


def test_a_new_name_takes_the_room_of_the_old_one_in_a_full_block(store: Store, world: World) -> None:
    store.apply(declaring(speed("old", 0.9), speed("other", 0.1)))
    renamed = declaring(speed("new", 0.9), speed("other", 0.1))
    assert planned(store, renamed, prune=True) == [
        ("register", "taxi.new", None),
        ("keep", "taxi.other", None),
        ("deregister", "taxi.old", None),
    ]
    store.apply(renamed, prune=True)
    assert registered(world) == {"taxi.new": 0.9, "taxi.other": 0.1}
    assert ("taxi.old", "deregistered") in world.notices()
    assert {change.action for change in store.apply(renamed, prune=True)} == {"keep"}


def test_a_new_name_that_does_not_fit_leaves_the_old_one(store: Store, world: World) -> None:
    store.apply(declaring(speed("old", 0.9), speed("other", 0.1)))
    larger = declaring(speed("new", 0.95), speed("other", 0.1))
    assert planned(store, larger, prune=True)[0] == ("register", "taxi.new", "ptk-rejected")
    with pytest.raises(e.PtkRejected, match=r"ask for at most epsilon 0\.9, delta 0\."):
        store.apply(larger, prune=True)
    assert registered(world) == {"taxi.old": 0.9, "taxi.other": 0.1}
    assert ("taxi taxi.new", "ptk-rejected") in world.notices()  # the stream's owner hears of it
    again = declaring(speed("old", 0.9), speed("other", 0.1))
    assert {change.action for change in store.apply(again, prune=True)} == {"keep"}


@pytest.mark.long
@pytest.mark.parametrize("room", [0.05, 0.95], ids=["with room", "in a full block"])
def test_team_code_that_fails_leaves_what_was_to_be_pruned(
    store: Store, world: World, tmp_path: Path, room: float
) -> None:
    inspector = world.service.__dict__["sandbox"] = Inspector()
    store.apply(declaring(speed("old", room)))
    repository = load_repository(write_repository(tmp_path / "team"))
    inspector.findings = (FAILED,)
    with pytest.raises(e.PtkRejected, match="no noise is drawn"):
        store.apply(repository, prune=True)
    assert registered(world) == {"taxi.old": room}
    inspector.findings = ()
    store.apply(repository, prune=True)
    assert registered(world) == {"taxi.trips": 0.1}


def test_room_that_somebody_takes_after_it_was_asked_for_is_no_loss(
    store: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply(declaring(speed("old", 0.9)))
    admit = world.service.admit_ptks

    def overtaken(**asked: Any) -> Any:
        answer = admit(**asked)
        if not any(spec.team == "ads" for spec in world.service.ptks()):
            world.service.register_ptk(
                team="ads",
                name="first",
                stream="taxi",
                estimator=speed("x", 0.1).estimator.to_spec(),
                target=0.1,
                train_frequency="1d",
            )
        return answer

    monkeypatch.setattr(world.service, "admit_ptks", overtaken)
    with pytest.raises(e.PtkRejected):
        store.apply(declaring(speed("new", 0.95)), prune=True)
    assert registered(world) == {"ads.first": 0.1, "taxi.old": 0.9}


def test_what_one_ptk_gives_another_may_have_in_the_same_step(store: Store, world: World) -> None:
    store.apply(declaring(speed("a", 0.3), speed("b", 0.7)))
    swapped = declaring(speed("a", 0.6), speed("b", 0.4))  # a comes first, and has no room before b has given
    assert [refused for *_, refused in planned(store, swapped)] == [None, None]
    store.apply(swapped)
    assert registered(world) == {"taxi.a": 0.6, "taxi.b": 0.4}


@pytest.mark.parametrize("epsilon", [0.3, 0.9], ids=["with room", "in a full block"])
def test_who_dies_on_the_way_applies_once_more(
    store: Store, world: World, monkeypatch: pytest.MonkeyPatch, epsilon: float
) -> None:
    world.stream("bikes")
    store.apply(declaring(speed("old", epsilon), speed("bike", 0.1, "bikes")))
    renamed = declaring(speed("new", epsilon), speed("bicycle", 0.1, "bikes"))
    real = {name: getattr(world.service, name) for name in ("deregister_ptk", "exchange_ptks")}

    def dying(name: str) -> Callable[..., None]:
        def act(*args: Any, **asked: Any) -> None:
            real[name](*args, **asked)
            raise e.InvariantBroken("the process ends here")

        return act

    with monkeypatch.context() as patched:
        for name in real:
            patched.setattr(world.service, name, dying(name))
        with pytest.raises(e.InvariantBroken):
            store.apply(renamed, prune=True)
    assert "taxi.new" in registered(world)
    store.apply(renamed, prune=True)
    assert registered(world) == {"taxi.new": epsilon, "taxi.bicycle": 0.1}


# refusals


def refusal(store: Store, *ptks: PTK) -> tuple[str | None, str]:
    """What a plan says of the last PTK and apply does, which have to be the same; nothing may be changed."""
    before = store.service.ptks()
    *_, change = store.plan(declaring(*ptks), audit=False)
    assert not change.acceptable
    assert change.checks is None
    with pytest.raises(e.PtkStoreError) as raised:
        store.apply(declaring(*ptks))
    assert (raised.value.code, str(raised.value)) == (change.refused, change.reason)
    assert store.service.ptks() == before
    return change.refused, change.reason


def test_a_stream_that_is_not_there_is_told_by_the_plan(store: Store) -> None:
    told = refusal(store, speed("fine", 0.1), speed("lost", 0.1, "nowhere"))
    assert told == ("unknown-name", "PTK taxi.lost in ptks.py: there is no stream 'nowhere'")


def test_a_stream_of_others_is_as_one_that_is_not_there(api: Api, world: World) -> None:
    world.stream("bikes")
    with connect(api.url, token=api.token(Role.DEVELOPER, team="strangers")) as store:
        (change,) = store.plan(Repository("strangers", (speed("x", 0.1, "bikes"),)))
    assert (change.refused, change.reason) == (
        "unknown-name",
        "PTK strangers.x in ptks.py: there is no stream 'bikes'",
    )


def test_a_role_that_is_wanting_is_told_by_the_plan(api: Api) -> None:
    api.grant("ads", "taxi", Role.CONSUMER)
    repository = Repository("ads", (speed("x", 0.1),))
    with connect(api.url, token=api.token(Role.DEVELOPER, Role.CONSUMER, team="ads")) as store:
        (change,) = store.plan(repository)
        assert change.refused == "not-allowed"
        with pytest.raises(e.NotAllowed):
            store.apply(repository)


def test_want_of_room_is_told_by_the_plan_and_nothing_before_it_is_done(store: Store) -> None:
    code, reason = refusal(store, speed("a", 0.6), speed("b", 0.6))
    assert code == "ptk-rejected"
    assert reason == (
        "ptks.py: taxi.b asks for epsilon 0.6, delta 0 per window and does not fit beside 1 registered PTK. "
        "Under renyi, ask for at most epsilon 0.4, delta 0. It would fit with a capacity of epsilon 1.2, delta 0"
    )


def test_of_many_without_room_the_first_are_explained_and_none_is_registered(
    store: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange_ptks, "MOST_ONE_BY_ONE", 3)
    many = declaring(*(speed(f"s{n}", 0.4) for n in range(6)))
    changes = store.plan(many, audit=False)
    assert [change.refused for change in changes] == [None, None, *["ptk-rejected"] * 4]
    assert "ask for at most epsilon 0.2" in changes[2].reason
    assert {change.reason for change in changes[3:]} == {
        "ptks.py: there is no room for all 6 PTKs, and which of them there is room for was looked at for the first "
        "3 only: declare fewer at once"
    }
    with pytest.raises(e.PtkRejected):
        store.apply(many)
    assert registered(world) == {}


def test_room_that_pruning_would_make_is_told_by_the_plan(store: Store) -> None:
    store.apply(declaring(speed("old", 0.8)))
    (change,) = store.plan(declaring(speed("new", 0.9)))
    assert change.refused == "ptk-rejected"
    assert change.reason.endswith(". It would fit with --prune, without taxi.old")
    (change,) = store.plan(declaring(speed("new", 1.5)))
    assert "--prune" not in change.reason


def test_a_name_of_another_stream_is_told_by_the_plan(store: Store, world: World) -> None:
    world.stream("bikes", minimum_assurance=Assurance.ASSERTED)
    store.apply(declaring(speed("old", 0.1, stream="bikes")))
    store.apply(declaring(), prune=True)
    code, reason = refusal(store, speed("old", 0.1))
    assert code == "name-taken"
    assert "was deregistered on stream 'bikes'" in reason


def test_a_plan_tells_the_room_that_it_leaves_on_each_stream(store: Store, world: World) -> None:
    world.stream("bikes", minimum_assurance=Assurance.ASSERTED, capacity_delta=1e-6)
    store.apply(declaring(speed("a", 0.3), speed("b", 0.2)))
    wanted = declaring(speed("a", 0.3), speed("c", 0.1), speed("d", 0.9, stream="bikes"), speed("e", 5.0))
    changes = {change.ptk_id: change for change in store.plan(wanted, prune=True, audit=False)}
    rooms = {ptk_id: (change.stream, change.room) for ptk_id, change in changes.items()}
    taxi = RoomLeft(0.6, 0.0, 1.0, 0.0, "renyi")
    assert changes["taxi.e"].refused == "ptk-rejected"
    for ptk_id in ("taxi.a", "taxi.b", "taxi.c", "taxi.e"):
        assert rooms[ptk_id] == ("taxi", taxi)
    stream, bikes = rooms["taxi.d"]
    assert stream == "bikes"
    assert bikes is not None
    assert (bikes.capacity_epsilon, bikes.capacity_delta, bikes.accountant) == (1.0, 1e-6, "renyi")
    assert 0.1 <= bikes.epsilon < 0.2
    (kept, _) = store.plan(declaring(speed("a", 0.3), speed("b", 0.2)))
    assert kept.action == "keep"
    assert kept.room is not None
    assert kept.room.epsilon == 0.5


@pytest.mark.parametrize("epsilon", [0.1, 0.2])
def test_what_was_pruned_by_mistake_is_brought_back(store: Store, world: World, epsilon: float) -> None:
    store.apply(declaring(speed("old", 0.1)))
    for day in range(2):
        world.publish(day)
    store.apply(declaring(), prune=True)
    (change,) = store.plan(declaring(speed("old", epsilon)), audit=False)
    assert (change.action, change.returns, change.refused) == ("register", 2, None)
    store.apply(declaring(speed("old", epsilon)))
    (change,) = store.plan(declaring(speed("old", epsilon)))
    assert (change.action, change.returns) == ("keep", None)
    world.publish(2)
    assert [one.number for one in world.service.versions("taxi.old")] == [1, 2, 3]
    assert registered(world) == {"taxi.old": epsilon}


@pytest.mark.parametrize("other", [{"stream": "bikes"}, {"every": "2d"}])
def test_a_name_that_belongs_to_something_else_is_told_by_the_plan(
    store: Store, world: World, other: dict[str, str]
) -> None:
    world.stream("bikes")
    store.apply(declaring(speed("old", 0.1)))
    code, reason = refusal(store, speed("old", 0.1, **other))
    assert code == "invalid-request"
    assert "declare a PTK of another name" in reason


def test_a_column_that_the_stream_lacks_is_told_by_the_plan(store: Store) -> None:
    code, reason = refusal(store, speed("x", 0.1, column="weekday"))
    assert code == "invalid-request"
    assert "reads column 'weekday'" in reason


def test_too_little_assurance_is_told_by_the_plan_before_team_code_is_run(
    store: Store, world: World, tmp_path: Path
) -> None:
    inspector = world.service.__dict__["sandbox"] = Inspector()
    world.stream("strict")
    ptks = write_repository(tmp_path / "team") / "ptks.py"
    ptks.write_text(ptks.read_text().replace('"taxi"', '"strict"'))
    repository = load_repository(tmp_path / "team")
    (change,) = store.plan(repository)
    assert change.refused == "ptk-rejected"
    assert str(change.reason).startswith(
        "ptks.py: taxi.trips: assurance 'asserted' is below the stream's least, 'library': "
    )
    with pytest.raises(e.PtkRejected) as raised:
        store.apply(repository)
    assert str(raised.value) == change.reason
    assert inspector.examined == []


# over HTTP


def wanted(name: str, epsilon: float) -> dict[str, Any]:
    return {"name": name, "estimator": speed(name, epsilon).estimator.to_spec(), "target": 0.1}


def test_an_exchange_leaves_a_line_for_each_ptk(api: Api) -> None:
    client = api.acting(Role.DEVELOPER)
    api.world.register("old", 0.9)
    body = {"ptks": [wanted("new", 0.9)], "deregister": ["taxi.old"]}
    for _ in range(2):  # repeating it changes nothing
        answer = client.post("/v1/streams/taxi/exchange", json=body)
        assert (answer.status_code, answer.json()) == (200, {"stream": "taxi"})
    assert registered(api.world) == {"taxi.new": 0.9}
    lines = [
        (one.subject, one.outcome) for one in api.identity.audit_log() if one.action == Action.PTK_EXCHANGE
    ]
    once = [
        ("ptk/taxi.new", "done"),
        ("ptk/taxi.old", "done"),
        ("stream/taxi", "done"),
    ]
    assert lines == once * 2
    refused = client.post("/v1/streams/taxi/exchange", json={"ptks": [wanted("large", 9.5)]})
    assert refused.status_code == 403
    assert [(one.subject, one.outcome) for one in api.identity.audit_log()][-1] == (
        "stream/taxi",
        "ptk-rejected",
    )
    assert "ptk/taxi.large" not in {one.subject for one in api.identity.audit_log()}  # nothing became of it


def test_an_admission_changes_nothing_and_leaves_no_trace(api: Api) -> None:
    client = api.acting(Role.DEVELOPER)
    api.world.register("old", 0.9)
    asked = {"ptks": [wanted("new", 0.9)], "deregister": ["taxi.old"]}
    before = len(api.identity.audit_log())
    answer = client.post("/v1/streams/taxi/admission", json=asked)
    whole = {"epsilon": "1", "delta": "0"}
    room = {"capacity": whole, "left": {**whole, "epsilon": "0.1"}, "accountant": "renyi", "context": ""}
    assert answer.json() == {"refusals": [], "at_once": True, "room": room, "returning": []}
    (told,) = client.post("/v1/streams/taxi/admission", json={"ptks": [wanted("new", 0.9)]}).json()[
        "refusals"
    ]
    assert (told["ptk_id"], told["code"]) == ("taxi.new", "ptk-rejected")
    assert (registered(api.world), api.world.notices()) == ({"taxi.old": 0.9}, [])
    assert len(api.identity.audit_log()) == before


def test_nobody_takes_out_what_belongs_to_another_team_or_stream(api: Api) -> None:
    api.world.stream("bikes")
    api.world.register("bike", stream="bikes")
    api.world.register("speed")
    api.grant("ads", "taxi", Role.DEVELOPER)
    ads, taxi = api.acting(Role.DEVELOPER, team="ads"), api.acting(Role.DEVELOPER)
    for client, ptk_id in ((ads, "taxi.speed"), (ads, "ads.nothing"), (taxi, "taxi.bike")):
        for verb in ("admission", "exchange"):
            asked = {"ptks": [wanted("new", 0.1)], "deregister": [ptk_id]}
            answer = client.post(f"/v1/streams/taxi/{verb}", json=asked)
            assert (answer.status_code, answer.json()["code"]) == (404, "unknown-name")
    twice = {"ptks": [wanted("speed", 0.1)], "deregister": ["taxi.speed"]}
    assert taxi.post("/v1/streams/taxi/exchange", json=twice).status_code == 400
    assert registered(api.world) == {"taxi.bike": 0.1, "taxi.speed": 0.1}


def test_more_than_a_request_holds_is_refused_before_anything_is_changed(api: Api) -> None:
    many = declaring(*(speed(f"p{i}", 0.001) for i in range(201)))
    with connect(api.url, token=api.token(Role.DEVELOPER)) as store:
        for act in (store.plan, store.apply):
            with pytest.raises(e.TooLarge, match="up to 200 PTKs"):
                act(many)
    assert registered(api.world) == {}


def test_evaluations_have_to_fit_together(store: Store, world: World) -> None:
    def evaluated(name: str, epsilon: float) -> PTK:
        return replace(speed(name, 0.1), evaluate={"epsilon": epsilon})

    store.apply(declaring(evaluated("a", 0.4)))
    *_, change = store.plan(
        declaring(evaluated("a", 0.4), evaluated("b", 0.4), evaluated("c", 0.4)), audit=False
    )
    assert change.refused == "ptk-rejected"
    assert (
        "asks for an estimate of epsilon 0.4; beside 2 others it does not fit a test block" in change.reason
    )
    exchanged = declaring(evaluated("a", 0.4), evaluated("c", 0.6))
    store.apply(declaring(evaluated("a", 0.4), evaluated("b", 0.6)))
    store.apply(exchanged, prune=True)
    assert set(registered(world)) == {"taxi.a", "taxi.c"}
