"""An estimator that tests over HTTP register."""

from __future__ import annotations

from typing import Any

from ptklib import HistoricalStatistics
from ptkstore import PTK
from tests.support.world import STREAM


def speeds(name: str = "speed", epsilon: Any = 0.1, **more: Any) -> PTK:
    estimator = HistoricalStatistics(
        keys=["hour"],
        values=["speed"],
        domains={"hour": [0, 1]},
        bounds={"speed": (0.0, 60.0)},
        epsilon=epsilon,
    )
    return PTK(name=name, estimator=estimator, **{"stream": STREAM, "target": 0.1, **more})
