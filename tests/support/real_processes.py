"""A service of real processes, and what must be true after it was killed."""

from __future__ import annotations

from tests.faults import scenario
from tests.faults.machine import Machine
from tests.faults.steps import Point

KEPT_WINDOWS = 2


CLOCKED, STREAMED = "clocked", "news"


ZOMBIES = (
    Point("train", "trained"),
    Point("place", "claimed"),
    Point("flip", "staged-online"),
    Point("notify", "sent"),
)


def prepare(made: Machine) -> str:
    """The stream, both PTKs, three subscribers, two of them of one PTK, and one that reads a Redis stream.

    Returns what the ids of that one's events begin with.
    """
    scenario.create_stream(made.store, retention=KEPT_WINDOWS)
    scenario.register(made.store, few=[scenario.SPEED])  # which one process trains; the other is split
    for name, ptk_id in (("a", scenario.SPEED), ("b", scenario.LONG), ("c", scenario.LONG)):
        made.subscribe(ptk_id, name)
    return made.follow(scenario.LONG, STREAMED)


def once_in_order(made: Machine, prefix: str) -> bool:
    """Whether the stream holds every version of its PTK once, in order."""
    numbers_shown = numbers(made, scenario.LONG)
    return made.streamed(STREAMED) == [f"{prefix}{number:08d}" for number in numbers_shown]


def numbers(made: Machine, ptk_id: str) -> list[int]:
    return [version.number for version in made.store.service.versions(ptk_id)]
