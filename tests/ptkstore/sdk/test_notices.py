"""What owners are told by the client: the same of the store in its home and of the same store behind HTTP."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ptkstore import connect
from ptkstore.domain.identity import Role
from ptkstore.domain.notices import Notice
from ptkstore.errors import InvalidRequest, NotAllowed, UnknownName
from ptkstore.ports.row_processes import RunFailed
from ptkstore.sdk import Store
from ptkstore.sdk.remote import transport
from tests.support.api_server import Api
from tests.support.receiver import WebhookReceiver
from tests.support.world import NOW, World

PTK = "taxi.speed"


@pytest.fixture
def api(api: Api) -> Api:
    api.world.stream()
    api.world.register()
    return api


def test_both_teams_hear_of_an_endpoint_that_was_disabled(
    api: Api, store: Store, world: World, webhook_receiver: WebhookReceiver
) -> None:
    api.grant("ads", "taxi", Role.CONSUMER)
    world.publish(0)
    made, _ = world.service.subscribe_to_ptk(PTK, webhook_receiver.endpoint(), team="ads")
    world.publish(1)
    webhook_receiver.answer_next(1, 410)
    world.work("notify")
    word = {
        "at": world.clock.now().isoformat(),
        "subject": f"{PTK} to {made.id}",
        "code": "subscription-disabled",
    }
    assert store.notices() == [{**word, "team": "ads"}, {**word, "team": "taxi"}]
    assert store.notices("ads") == store.notices(team="ads") == [{**word, "team": "ads"}]
    assert store.notices(since=world.clock.now()) == store.notices()
    assert store.notices(since=(world.clock.now() + timedelta(seconds=1)).isoformat()) == []
    for team in ("taxi", "ads"):
        with connect(api.url, token=api.token(team=team)) as own:
            assert own.notices() == own.notices(team) == [{**word, "team": team}]
    with connect(api.url, token=api.token(team="strangers")) as strange:
        assert strange.notices() == []
        with pytest.raises(NotAllowed):
            strange.notices("taxi")


def test_a_name_or_a_time_that_cannot_be_one_is_refused(store: Store) -> None:
    for wrong in ({"team": "Ads"}, {"since": "soon"}):
        with pytest.raises(InvalidRequest):
            store.notices(**wrong)


def test_trainings_say_what_they_made_or_a_code(api: Api, store: Store, world: World) -> None:
    world.publish(0)
    world.trainer.failing = RunFailed("timeout")
    world.publish(1)
    found = store.trainings(PTK)
    assert [(one["window"], one["outcome"], one["version"], one["code"]) for one in found] == [
        (0, "published", 1, None),
        (1, "failed", None, "timeout"),
    ]
    assert found == Store(world.service).trainings(PTK)
    assert [one["ended_at"] is None for one in found] == [False, False]
    for unknown, error in (("taxi.other", UnknownName), ("x", InvalidRequest)):
        with pytest.raises(error):
            store.trainings(unknown)
    api.grant("ads", "taxi", Role.DEVELOPER)
    with connect(api.url, token=api.token(team="ads")) as other, pytest.raises(NotAllowed):
        other.trainings(PTK)


def test_long_lists_come_whole(store: Store, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "PAGE", 3)
    for day in range(4):
        world.publish(day)
    words = [Notice(NOW, "taxi", f"code-{n}", ptk_id=PTK) for n in range(7)]
    with world.service.begin() as uow:
        for word in words:
            uow.notify_owner(word)
        uow.commit()
    assert [one["code"] for one in store.notices()] == [word.code for word in words]
    assert [one["window"] for one in store.trainings(PTK)] == [0, 1, 2, 3]
    assert list(store.service.trainings(PTK)) == list(world.service.trainings(PTK))
