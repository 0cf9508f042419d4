"""Repositories of a team that declare one PTK."""

from __future__ import annotations

from ptklib import HistoricalStatistics
from ptkstore.sdk import PTK, Repository
from tests.support.world import World


def speed(name: str, epsilon: float, stream: str = "taxi", every: str = "1d", column: str = "hour") -> PTK:
    estimator = HistoricalStatistics(
        keys=[column],
        values=["speed"],
        domains={column: [0, 1]},
        bounds={"speed": (0.0, 60.0)},
        epsilon=epsilon,
    )
    return PTK(name=name, stream=stream, estimator=estimator, target=0.1, every=every)


def declaring(*ptks: PTK) -> Repository:
    return Repository("taxi", ptks)


def registered(world: World) -> dict[str, float]:
    return {spec.ptk_id: spec.loss.epsilon for spec in world.service.ptks()}
