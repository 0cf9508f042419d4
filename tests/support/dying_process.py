"""A process that works for a home, and kills itself with -9 on the way."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.world import World

KEY, FILE = "draft's key", "draft's file"


@dataclass(frozen=True)
class Strike:
    """Where it dies: at a step, or before it destroys the n-th key or file of a draft."""

    at: str
    n: int = 1

    def __str__(self) -> str:
        return f"{self.at} {self.n}" if self.at in (KEY, FILE) else self.at


def die_at(strike: Strike, world: World, job_id: str | None) -> None:
    """Have a process of its own claim the job and die; the caller's own `world` looks at the home afterwards.

    Without a job it looks for needless partials, as workers do from time to time.
    """
    spawned = multiprocessing.get_context("spawn").Process(
        target=_work,
        args=(world.service.settings.model_dump(exclude_defaults=True), world.clock.now(), job_id, strike),
    )
    spawned.start()
    spawned.join()
    assert spawned.exitcode == -signal.SIGKILL, f"{strike} was never reached"


def _work(settings: dict[str, Any], now: datetime, job_id: str | None, strike: Strike) -> None:
    world = World(Path(settings.pop("home")), **settings)
    world.clock.pass_(seconds=(now - world.clock.now()).total_seconds())
    if strike.at == KEY:
        keys = world.service.keys
        vars(keys)["destroy_draft"] = _dying(keys.destroy_draft, strike.n)
    elif strike.at == FILE:
        staging = world.service.staging
        vars(staging)["delete"] = _dying(staging.delete, strike.n)
    else:
        world.steps.at[strike.at] = _die
    if job_id is None:
        world.service.destroy_needless_partials()
    else:
        world.service.work_on(job_id)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying(act: Callable[[str], None], n: int) -> Callable[[str], None]:
    left = [n]

    def last(name: str) -> None:
        left[0] -= 1
        if not left[0]:
            _die()
        act(name)

    return last
