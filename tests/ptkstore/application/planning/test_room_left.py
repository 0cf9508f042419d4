"""The room that a plan leaves on a stream: what fits, what does not, and whose budget it is."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from ptkstore.application.planning.room_left import Room, room_left
from ptkstore.application.planning.window_plans import Offer, offers_of, plan_budget, room_of
from ptkstore.domain.accounting.accountants import Accountant, Charge
from ptkstore.domain.accounting.losses import NO_LOSS, Loss
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.allocation.model import Infeasible
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.domain.streams.blocks import groups_where
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import PtkRejected
from tests.support.world import STREAM, World, speed

CONTEXTS = {
    "contexts": (("north", ("taxi", "bus")), ("south", ("ads",))),
    "no_collusion": "the two never share an analyst, and no request reacts to the other",
}


def room(world: World, *wanted: WantedPtk, team: str = "taxi", leaving: tuple[str, ...] = ()) -> Room:
    found = world.service.admit_ptks(team=team, stream=STREAM, wanted=wanted, leaving=leaving).room
    assert found is not None
    return found


def wanted(name: str, epsilon: float) -> WantedPtk:
    return WantedPtk(name, {"estimator": speed(epsilon), "target": 0.1})


def register(world: World, team: str, name: str, epsilon: float) -> None:
    world.service.register_ptk(
        team=team, name=name, stream=STREAM, estimator=speed(epsilon), target=0.1, train_frequency="1d"
    )


def fits(specs: tuple[PtkSpec, ...], policy: Policy, loss: Loss) -> bool:
    """Whether the planner lets a PTK of this loss in, of which nothing else is known."""
    mine = Offer("taxi.~", loss, Charge.pure(policy.accountant, loss), {}, 80, groups_where(policy, None))
    menus = [*(offers_of(one, policy) for one in specs), (mine,)]
    return not isinstance(plan_budget(menus, room_of(policy, "common")), Infeasible)


@pytest.mark.parametrize("accountant", list(Accountant))
@pytest.mark.parametrize("taken", [(), (0.3,), (0.3, 0.25, 0.0123), (1.0,)], ids=str)
def test_what_is_left_fits_and_nothing_more_does(
    tmp_path: Any, accountant: Accountant, taken: tuple[float, ...]
) -> None:
    world = World(tmp_path / "home")
    world.stream(accountant=accountant, capacity_delta=1e-6)
    for number, epsilon in enumerate(taken):
        world.register(f"p{number}", epsilon)
    found = room(world)
    assert found.capacity == Loss.capacity(1, 1e-6)
    assert (found.accountant, found.context) == (accountant, "")
    specs, policy = world.service.ptks(), world.service.streams()[0].policy
    if accountant is Accountant.BASIC:
        assert found.left == (
            NO_LOSS if taken == (1.0,) else Loss.capacity(1 - sum(map(Decimal, map(str, taken))), 1e-6)
        )
    if found.left.epsilon_nano:
        world.register("last", found.left.epsilon)  # what is told may be asked for
        world.service.deregister_ptk("taxi.last")
    if taken and found.left.epsilon_nano:
        assert fits(specs, policy, found.left)
        assert not fits(specs, policy, Loss(found.left.epsilon_nano + 1))
        assert not fits(specs, policy, Loss(found.left.epsilon_nano, found.left.delta_atto + 1))
    elif taken:
        assert not fits(specs, policy, Loss(1000))


def test_a_plan_is_counted_with_what_comes_changes_and_goes(world: World) -> None:
    world.register("stays", 0.1)
    world.register("grows", 0.1)
    world.register("goes", 0.3)
    assert room(world).left.epsilon == 0.5
    changes = (wanted("grows", 0.2), wanted("comes", 0.05))
    assert room(world, *changes).left.epsilon == 0.35
    assert room(world, *changes, leaving=("taxi.goes",)).left.epsilon == 0.65
    assert room(world).left.epsilon == 0.5  # nothing was changed


def test_what_is_refused_takes_no_room(world: World) -> None:
    world.register("there", 0.3)
    found = room(world, wanted("there", 2.0), wanted("fits", 0.2), wanted("large", 0.9))
    assert found.left.epsilon == 0.5


def test_each_context_has_its_own_room_and_hears_of_no_other(world_with_contexts: World) -> None:
    world = world_with_contexts
    register(world, "taxi", "a", 0.2)
    register(world, "bus", "a", 0.3)
    before = room(world)
    assert (before.left.epsilon, before.context) == (0.5, "north")
    register(world, "ads", "a", 0.9)
    assert room(world) == before
    assert (room(world, team="ads").left.epsilon, room(world, team="ads").context) == (0.1, "south")
    nobody = room(world, team="rail")
    assert (nobody.capacity, nobody.left, nobody.context) == (NO_LOSS, NO_LOSS, "")


@pytest.fixture
def world_with_contexts(tmp_path: Any) -> World:
    world = World(tmp_path / "home")
    world.stream(sharing=Sharing(**CONTEXTS), accountant=Accountant.BASIC)
    return world


@pytest.mark.parametrize(("share", "left"), [("0.4", 0.5), ("1", 0)])
def test_a_reserved_share_is_nobody_elses_room(tmp_path: Any, share: str, left: float) -> None:
    world = World(tmp_path / "home")
    sharing = Sharing(reserved=(("ads.own", Decimal(share)),))
    world.stream(sharing=sharing, accountant=Accountant.BASIC)
    if left:
        world.register("a", 0.1)
    register(world, "ads", "own", 0.3)
    assert room(world).left.epsilon == left


@pytest.mark.parametrize("accountant", list(Accountant))
@pytest.mark.parametrize("count", [1, 2, 3])
def test_over_partitions_a_ptk_of_what_is_left_is_let_in(
    tmp_path: Any, accountant: Accountant, count: int
) -> None:
    world = World(tmp_path / "home")
    world.stream(accountant=accountant, capacity_delta=1e-6, train_partitions=3)
    for number in range(count):
        world.register(f"p{number}", 0.55)
    found = room(world)
    specs, policy = world.service.ptks(), world.service.streams()[0].policy
    assert room_left("taxi", specs, policy) == found
    if found.left.epsilon_nano:
        world.register("last", found.left.epsilon)
    else:
        with pytest.raises(PtkRejected):
            world.register("last", 1.0)
