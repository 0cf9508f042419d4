"""States that wait for their verdict, and what can be seen of them."""

from __future__ import annotations

from typing import Any

from ptkstore.domain.streams.blocks import TEST as TEST_PART
from tests.support.world import CHAIN, STREAM, World

PTK = "taxi.speed"
ALL = (*CHAIN, "validate", "flip")
TRAIN, VALIDATE = f"train/{PTK}/0", f"validate/{PTK}/0"
TEST = {"metric": "loss", "epsilon": 0.9}
ACCEPTED = {"accept": TEST}
CHEAP = {"accept": {**TEST, "epsilon": 0.05}}
ROWS = [i / 1_000 for i in range(1_000)]
GOOD, BAD = 0.9, 1e-9
"""Targets that the state surely meets, and surely cannot be shown to meet."""


def trained(world: World, target: float = GOOD, day: int = 0) -> World:
    """A state that waits for its verdict."""
    if day == 0:
        world.register(config=ACCEPTED, target=target)
    world.ingest([day + one for one in ROWS])
    world.close(day + 1)
    world.work(*CHAIN)
    return world


def drafts(world: World) -> tuple[str, ...]:
    """Drafts that can be read: of which there are a key and files."""
    keys = set(world.service.keys.draft_ids())
    return tuple(one for one in world.service.staging.drafts() if one in keys)


def charged_for_tests(world: World, window: int = 0) -> tuple[int, int]:
    """What the test block of a window has reserved and spent, in nano-epsilon."""
    block = next(b for b in world.service.budget(STREAM) if b.number == window * 128 + TEST_PART)
    return block.reserved.epsilon_nano, block.spent.epsilon_nano


def published(world: World) -> dict[str, Any]:
    """Everything that a consumer could have seen."""
    return {
        "versions": world.service.versions(PTK),
        "lake": world.service.lake.ptk_ids(),
        "shown": world.views.shown,
        "evaluations": world.service.evaluations(PTK),
    }


NOTHING = {"versions": (), "lake": (), "shown": {}, "evaluations": ()}
