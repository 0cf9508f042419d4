"""Streams whose privacy unit is a user, and rows of users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ptklib import HistoricalStatistics
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.streams.policies import Closing, Policy, PrivacyUnit
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.domain.streams.streams import Stream
from tests.support.world import DAY, ORIGIN, World

CITIES = ("berlin", "paris", "rome")


SCHEMA = Schema(
    (
        ("at", ColumnType.TIMESTAMP),
        ("user", ColumnType.STRING),
        ("city", ColumnType.STRING),
        ("speed", ColumnType.FLOAT64),
    ),
    "at",
)


IN_WINDOW: dict[str, Any] = {
    "privacy_unit": PrivacyUnit.USER_IN_WINDOW,
    "unit_column": "user",
    "max_rows_per_unit": 2,
}


USERS: dict[str, Any] = {
    "privacy_unit": PrivacyUnit.USER,
    "unit_column": "user",
    "max_rows_per_unit": 2,
    "user_shards": 4,
}


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home", publish_tick_seconds=0.1)
    yield made
    made.service.close()


def stream(world: World, epsilon: object = 1, **policy: Any) -> str:
    defaults = {"closing": Closing.OPERATOR, "retention_windows": 2, "rows_per_window": 1000}
    made = Policy(Loss.capacity(epsilon), DAY, ORIGIN, **{**defaults, **policy})
    world.service.create_stream(Stream("rides", "taxi", SCHEMA, made))
    return "rides"


def rides(day: float, users: list[str], cities: list[str] | None = None) -> pa.Table:
    n = len(users)
    return pa.table(
        {
            "at": pa.array([ORIGIN + day * DAY] * n, pa.timestamp("us", "UTC")),
            "user": users,
            "city": cities or [CITIES[i % 3] for i in range(n)],
            "speed": [30.0] * n,
        }
    )


def by_city(epsilon: float = 0.1, **params: Any) -> Mapping[str, Any]:
    estimator = HistoricalStatistics(
        keys=["city"],
        values=["speed"],
        domains={"city": list(CITIES)},
        bounds={"speed": (0.0, 60.0)},
        epsilon=epsilon,
        **params,
    )
    spec: Mapping[str, Any] = estimator.to_spec()
    return spec


OF_USERS = {"unit": "user", "max_rows_per_unit": 2}


def register(world: World, name: str = "speed", epsilon: float = 0.1, **more: Any) -> str:
    fields = {"target": 0.1, "train_frequency": "1d", "estimator": by_city(epsilon), **more}
    return world.service.register_ptk(team="taxi", name=name, stream="rides", **fields)


def close(world: World, windows: int) -> None:
    world.service.close_windows("rides", ORIGIN + windows * DAY, expire_unfinished=True)


def spent(world: World) -> dict[int, int]:
    """Nano-epsilon spent by block, of those that spent any."""
    return {b.number: b.spent.epsilon_nano for b in world.service.budget("rides") if b.spent.epsilon_nano}
