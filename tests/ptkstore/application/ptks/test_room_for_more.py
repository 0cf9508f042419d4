"""How many more PTKs like the last one fit: as many as are admitted, or charged, and no more."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ptkstore.application.planning import evaluation_plans, window_plans
from ptkstore.application.planning.estimators import event_of
from ptkstore.application.ptks.room_for_more import MOST
from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.ledger.filters import Filters
from ptkstore.domain.ledger.journal import BudgetRequest
from ptkstore.domain.ledger.rules import Granted, decide_all
from ptkstore.domain.ptks.room_for_more import Basis, RoomForMore
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.blocks import BlockSet
from ptkstore.domain.streams.policies import PrivacyUnit
from ptkstore.domain.streams.streams import Stream
from ptkstore.errors import PtkRejected, UnknownName
from tests.support.device_streams import SCHEMA, device_policy
from tests.support.world import STREAM, World, speed


def room(world: World, team: str | None = None) -> RoomForMore:
    found = world.service.room_for_more(STREAM, team=team)
    assert found is not None
    return found


def made(tmp_path: Path, **policy: Any) -> World:
    world = World(tmp_path / "home")
    world.stream(n_max=100_000, **policy)
    return world


def admitted(world: World, most: int = 200, **more: Any) -> int:
    """Register PTKs until one is refused; how many were not."""
    for number in range(most):
        try:
            world.register(f"copy{number}", **more)
        except PtkRejected:
            return number
    return most


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"accountant": Accountant.BASIC},
        {"accountant": Accountant.ZCDP, "capacity_delta": 1e-6},
        {"capacity_delta": 1e-6},
        {"train_partitions": 3},
    ],
)
def test_as_many_registrations_are_admitted_as_are_foretold_and_no_more(
    tmp_path: Path, policy: dict[str, Any]
) -> None:
    world = made(tmp_path, **policy)
    world.register("first", epsilon=0.35)
    world.clock.pass_(minutes=1)
    world.register("last", epsilon=0.15)
    foretold = room(world)
    assert (foretold.ptk_id, foretold.basis, foretold.is_least) == ("taxi.last", Basis.WINDOW, False)
    assert foretold.more > 2
    assert admitted(world, epsilon=0.15) == foretold.more
    assert room(world).more == 0
    assert "Room for no more PTKs like taxi.last" in room(world).sentence
    world.service.close()


def test_tests_of_versions_count_too(tmp_path: Path) -> None:
    world = made(tmp_path)
    config = {"accept": {"metric": "loss", "epsilon": 0.3}}
    world.register("last", epsilon=0.01, config=config)
    assert room(world).more == 2  # what a test block of 1 has left, though a train block takes 99
    assert admitted(world, epsilon=0.01, config=config) == 2
    world.service.close()


def test_equal_ptks_are_priced_once_however_many_they_and_the_plans_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = made(tmp_path)
    config = {"accept": {"metric": "loss", "epsilon": 0.001}}
    for number in range(5):
        world.register(f"copy{number}", epsilon=0.001, config=config, tags=[f"tag{number}"])
    world.register("other", epsilon=0.002, config={"accept": {"metric": "loss", "epsilon": 0.002}})
    priced: list[str] = []
    events, tests = event_of, evaluation_plans.price_of_estimate
    monkeypatch.setattr(window_plans, "event_of", lambda *args: [priced.append("training"), events(*args)][1])
    monkeypatch.setattr(
        evaluation_plans, "price_of_estimate", lambda *args: [priced.append("test"), tests(*args)][1]
    )
    found = room(world)
    assert (found.ptk_id, found.is_least) == ("taxi.other", True)
    assert priced.count("training") == 2 + 2  # and the last one, as the last and as a newcomer
    assert priced.count("test") == 2
    world.service.close()


def test_counting_ends_somewhere(tmp_path: Path) -> None:
    world = made(tmp_path)
    world.register("last", epsilon=0.001)
    found = room(world)
    assert (found.more, found.is_least) == (MOST, True)
    assert (
        found.sentence
        == "Room for at least 100 more PTKs like taxi.last, at epsilon 0.001, delta 0 a window."
    )
    world.service.close()


def test_the_last_is_the_one_that_was_registered_last_also_again(tmp_path: Path) -> None:
    world = made(tmp_path)
    for name, epsilon in (("b", 0.1), ("c", 0.2), ("a", 0.3)):
        world.register(name, epsilon=epsilon)
        world.clock.pass_(minutes=1)
    assert (room(world).ptk_id, room(world).loss.epsilon) == ("taxi.a", 0.3)
    world.service.deregister_ptk("taxi.b")
    world.register("b", epsilon=0.1)
    assert room(world).ptk_id == "taxi.b"
    world.service.deregister_ptk("taxi.b")
    assert room(world).ptk_id == "taxi.a"
    world.service.close()


def test_where_ptks_wait_it_is_what_a_fresh_block_takes(tmp_path: Path) -> None:
    world = made(tmp_path, scheduler=Scheduler.ADAPTIVE, capacity_delta=1e-6)
    world.register("last", epsilon=0.07)
    found = room(world)
    assert found.basis is Basis.FRESH_BLOCK
    world.ingest()
    world.close(1)
    world.work("prepare", "allocate", "schedule", "train")
    with world.service.begin() as uow:
        blocks, _ = uow.ledger.created(STREAM)
        (spend, *_) = [one for one in uow.ledger.journal(STREAM) if one.loss == found.loss]
    fresh, wish = Filters.of(blocks), spend.request
    asked = [BudgetRequest(STREAM, str(k), "taxi.x", wish.blocks, wish.loss, wish.charge) for k in range(50)]
    answers = decide_all(fresh, asked)
    assert sum(isinstance(answer, Granted) for answer in answers) == found.more
    assert f"A fresh block has room for {found.more} losses like that of taxi.last" in found.sentence
    world.service.close()


def test_blocks_of_users_have_room_for_trainings(tmp_path: Path) -> None:
    world = made(
        tmp_path, privacy_unit=PrivacyUnit.USER, unit_column="zone", user_shards=2, retention_windows=9
    )
    plain = speed(0.3)
    world.register("last", estimator={**plain, "params": {**plain["params"], "unit": "zone"}})
    assert (room(world).basis, room(world).more) == (Basis.LIFE, 3)  # before the first window
    for left in (2, 1, 0, 0):
        world.publish(int(world.service.time_line(STREAM, 1).closed_before))
        assert room(world).more == left
    assert "Room for no more trainings of taxi.last, at epsilon 0.3, delta 0 each." in room(world).sentence
    with world.service.begin() as uow:
        blocks = [one for one in uow.ledger.blocks(STREAM) if one.spent.epsilon_nano]
    assert BlockSet((4, 6)) == BlockSet((blocks[0].number, blocks[-1].number + 1))
    world.service.close()


def test_a_copy_has_no_share_that_is_reserved_for_another(tmp_path: Path) -> None:
    world = made(tmp_path, sharing=Sharing(reserved=(("taxi.last", Decimal("0.5")),)))
    world.register("last", epsilon=0.4)
    assert room(world).more == admitted(world, epsilon=0.4) == 1
    world.service.close()


def test_of_a_stream_with_contexts_a_team_sees_its_own(tmp_path: Path) -> None:
    world = made(
        tmp_path,
        sharing=Sharing((("north", ("taxi",)), ("south", ("ads",))), "the two never share an analyst"),
    )
    world.register("mine", epsilon=0.25)
    world.clock.pass_(minutes=1)
    world.service.register_ptk(
        team="ads", name="theirs", stream=STREAM, estimator=speed(0.5), target=0.1, train_frequency="1d"
    )
    assert (room(world, "taxi").ptk_id, room(world, "taxi").more) == ("taxi.mine", 3)
    assert (room(world, "ads").ptk_id, room(world, "ads").more) == ("ads.theirs", 1)
    assert world.service.room_for_more(STREAM, team="strangers") is None
    world.service.close()


def test_nothing_is_said_without_ptks_or_blocks(tmp_path: Path) -> None:
    world = made(tmp_path)
    assert world.service.room_for_more(STREAM) is None
    world.service.create_stream(Stream("phones", "taxi", SCHEMA, device_policy()))
    assert world.service.room_for_more("phones") is None
    with pytest.raises(UnknownName):
        world.service.room_for_more("none")
    world.service.close()
