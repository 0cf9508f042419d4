"""A service with a PTK that is profiled by samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ptklib import Clustering
from tests.support.world import World, trips

ROWS = (
    4_800  # of a window, half of them in its profile set; a profile of the target below takes 1,717 at least
)


EPSILON = 9


TARGET = 0.3


SMALL = {"points": 2, "n_min": 64, "n_max": 256, "models": 1, "drift": 0}


def centre(epsilon: float = 1.0, **params: Any) -> Mapping[str, Any]:
    """One cluster of speeds: its risk is their squared distance from it, so a good model is found at once."""
    estimator = Clustering(columns=["speed"], bounds={"speed": (0.0, 60.0)}, epsilon=epsilon, **params)
    return estimator.set_params(n_clusters=params.get("n_clusters", 1)).to_spec()


def asked(**more: Any) -> dict[str, Any]:
    return {"epsilons": [0.5, 1.0], "profile": {**SMALL, **more}}


def rides(day: int, n: int = ROWS, at: float = 30.0) -> pa.Table:
    """Rides of one window, all about as fast; at half the bounds any centre has a risk of a quarter or less."""
    speeds = at + np.arange(n) % 2
    return trips((day + np.arange(n) / n * 0.9).tolist(), speed=pa.array(speeds))


def profiled_world(home: Path, **policy: Any) -> World:
    world = World(home)
    defaults: dict[str, Any] = {"epsilon": EPSILON, "profile_share": Decimal("0.5"), "rows_per_window": ROWS}
    world.stream(**{**defaults, **policy})
    return world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = profiled_world(tmp_path / "home")
    yield world
    world.service.close()


def register(world: World, name: str = "centre", **more: Any) -> str:
    fields = {"estimator": centre(), "target": TARGET, "config": asked(), **more}
    return world.register(name, **fields)
