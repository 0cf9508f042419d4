"""Attacks on a budget that other products describe in their own docs: `docs/compare/attacks.md` names them."""

from __future__ import annotations

from typing import Any

import pytest

from ptkstore.errors import PtkRejected
from tests.support.world import World, speed

SPENT = 6 * 10**8


def test_a_new_name_for_the_same_rows_pays_from_the_same_blocks(world: World) -> None:
    """Elsewhere, a new view has a fresh budget."""
    world.register("speed", epsilon=0.6)
    world.publish(0)
    with pytest.raises(PtkRejected):
        world.register("again", epsilon=0.6)
    world.service.deregister_ptk("taxi.speed")
    world.register("again", epsilon=0.6)
    world.work()
    assert world.train_block(0) == (0, SPENT)
    assert world.service.versions("taxi.again") == ()
    world.publish(1)  # a new window has blocks of its own
    assert world.train_block(0) == (0, SPENT)
    assert world.train_block(1) == (0, SPENT)


def test_two_teams_have_one_budget(world: World) -> None:
    """Elsewhere, each account has a budget of its own."""
    world.register("speed", epsilon=0.6)
    said: dict[str, Any] = {"target": 0.1, "train_frequency": "1d", "estimator": speed(0.6)}
    with pytest.raises(PtkRejected, match=r"at most epsilon 0\.4"):
        world.service.register_ptk(team="bikes", name="speed", stream="taxi", **said)
    said["estimator"] = speed(0.4)
    world.service.register_ptk(team="bikes", name="speed", stream="taxi", **said)
    world.publish(0)
    assert world.train_block(0) == (0, 10**9)


def test_a_year_brings_no_budget_back(world: World) -> None:
    """Elsewhere, a budget is renewed each week or month."""
    world.register("speed", epsilon=0.6)
    world.publish(0)
    world.clock.pass_(days=366)
    world.work()
    assert world.train_block(0) == (0, SPENT)
    with pytest.raises(PtkRejected):
        world.register("again", epsilon=0.6)
    assert world.train_block(0) == (0, SPENT)
