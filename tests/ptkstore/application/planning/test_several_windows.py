"""A PTK may read several windows in one training only where its loss covers what a privacy unit adds to them."""

from __future__ import annotations

from typing import Any

import pytest

from ptklib import HistoricalStatistics
from ptklib.embeddings import UserEmbeddings
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.policies import PrivacyUnit
from ptkstore.errors import InvalidRequest
from tests.support.team_code import GOOD, Inspector, bundle_with, described
from tests.support.world import World

OF_USERS: dict[str, Any] = {"unit_column": "zone", "max_rows_per_unit": 3}
PEOPLE: dict[str, Any] = {"privacy_unit": PrivacyUnit.USER_IN_WINDOW, **OF_USERS, "retention_windows": 5}
ADAPTIVE: dict[str, Any] = {"scheduler": Scheduler.ADAPTIVE}


def counts(**params: Any) -> dict[str, Any]:
    estimator = HistoricalStatistics(
        keys=["hour"], domains={"hour": list(range(24))}, statistics=["count"], epsilon=0.1, **params
    )
    return estimator.to_spec()


OF_A_USER = counts(unit="zone", max_rows_per_unit=3)


def refused(world: World, why: str, **more: Any) -> None:
    """Both at a registration and at a change, and nothing is changed."""
    with pytest.raises(InvalidRequest, match=why):
        world.register("several", windows=(1, 3), **more)
    assert world.service.ptks() == ()
    ptk_id = world.register("one", **more)
    before = world.service.ptk(ptk_id)
    with pytest.raises(InvalidRequest, match=why):
        world.service.update_ptk(ptk_id, windows=(1, 3))
    assert world.service.ptk(ptk_id) == before
    assert world.notices() == []


def test_nobody_bounds_the_rows_of_a_user_for_life_over_windows(world: World) -> None:
    world.stream("lives", privacy_unit=PrivacyUnit.USER, **OF_USERS, retention_windows=5)
    refused(world, "protects users for life: 3 windows", stream="lives", estimator=OF_A_USER)


def test_embeddings_bound_a_users_rows_over_all_windows_together(world: World) -> None:
    world.stream("people", epsilon=10, capacity_delta=1e-5, **PEOPLE, **ADAPTIVE)
    estimator = UserEmbeddings(
        user="zone",
        item="hour",
        users=["a", "b"],
        items=list(range(24)),
        n_factors=2,
        guarantee="user",
        max_rows_per_user=3,
        epsilon=1.0,
        delta=1e-6,
    )
    why = "estimator bounds the rows of a user over all windows together"
    refused(world, why, stream="people", estimator=estimator.to_spec())


def test_team_code_with_a_unit_bounds_a_users_rows_over_all_windows_together(world: World) -> None:
    world.service.__dict__["sandbox"] = Inspector()
    world.stream("people", minimum_assurance=Assurance.ASSERTED, **PEOPLE, **ADAPTIVE)
    bundle = bundle_with(GOOD)
    world.service.put_bundle(bundle, team="taxi")
    of_users = described(bundle, unit="zone", max_rows_per_unit=3)
    refused(world, "team code with a `unit` bounds", stream="people", estimator=of_users)


def test_no_more_windows_than_the_stream_keeps(world: World) -> None:
    world.stream("short", retention_windows=2, **ADAPTIVE)
    refused(world, "up to 3 windows .* rows of 2 windows are kept", stream="short")
    world.register("two", stream="short", windows=(2, 2))


def test_the_scheduler_allocate_trains_on_one_window_at_a_time(world: World) -> None:
    world.stream("plain", retention_windows=5)
    refused(world, "the scheduler 'allocate' of this stream trains on one window at a time", stream="plain")


@pytest.mark.parametrize("kept", [2, 3])
def test_so_many_windows_can_be_read_together(world: World, kept: int) -> None:
    """Once the newest window has closed, `retention` windows can be opened, and no more."""
    world.stream("short", retention_windows=kept)
    world.service.close_windows("short", world.clock.now(), expire_unfinished=True)
    states = [one.state for one in world.service.windows("short")]
    assert len([state for state in states if state == "closed"]) == kept


def test_a_loss_towards_records_or_bounded_in_each_window_may_read_several(world: World) -> None:
    world.stream("people", **PEOPLE, **ADAPTIVE)
    world.stream("records", minimum_assurance=Assurance.ASSERTED, retention_windows=5, **ADAPTIVE)
    world.service.__dict__["sandbox"] = Inspector()
    bundle = bundle_with(GOOD)
    world.service.put_bundle(bundle, team="taxi")
    world.register("a", stream="people", estimator=OF_A_USER, windows=(1, 5))
    world.register("b", stream="records", estimator=counts(), windows=(2, 5))
    world.register("c", stream="records", estimator=described(bundle), windows=(2, 5))
    assert [one.windows for one in world.service.ptks()] == [(1, 5), (2, 5), (2, 5)]
