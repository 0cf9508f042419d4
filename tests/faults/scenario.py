"""The stream, the PTKs and the rows that fault tests share."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from ptklib import CountFeaturizer, HistoricalStatistics
from ptkstore.sdk import Store
from tests.faults.checker import Subscriber

STREAM = "rides"
TEAM = "rides"
ORIGIN = datetime(2006, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)
HOURS = list(range(4))
SPEED, LONG = f"{TEAM}.speed", f"{TEAM}.long"


def create_stream(
    store: Store,
    *,
    retention: int = 1,
    rows_per_window: int = 200,
    epsilon: float = 1.0,
    scheduler: str = "allocate",
    **policy: Any,
) -> None:
    """A day per window, closed by the operator, room for both PTKs and no more."""
    store.create_stream(
        STREAM,
        team=TEAM,
        schema={"at": "timestamp", "hour": "int64", "speed": "float64", "long": "bool"},
        time_column="at",
        epsilon=epsilon,
        origin=ORIGIN,
        closing="operator",
        retention=retention,
        rows_per_window=rows_per_window,
        scheduler=scheduler,
        **policy,
    )


def register(
    store: Store,
    names: Sequence[str] = (SPEED, LONG),
    *,
    few: Sequence[str] = (),
    evaluated: Sequence[str] = (),
    validated: Sequence[str] = (),
    rejected: Sequence[str] = (),
    measured: Sequence[str] = (),
) -> None:
    """The PTKs of these ids: together they ask for all of a block.

    Those in `few` ask for the rows they need only, those in `evaluated` pay for estimates of their losses,
    and states of those in `validated` have to pass a test. Those in `rejected` have a target that no model meets. The
    means of those in `measured` have to be right within two thirds of their range, which enough rows show.
    """
    hours = {"hour": HOURS}
    known = {
        SPEED: HistoricalStatistics(
            keys=["hour"], values=["speed"], domains=hours, bounds={"speed": (0.0, 60.0)}, epsilon=0.6
        ),
        LONG: CountFeaturizer(
            features=["hour"], label="long", classes=[False, True], domains=hours, epsilon=0.4
        ),
    }
    for ptk_id in names:
        epsilon = known[ptk_id].epsilon
        config: dict[str, object] = {"epsilons": [epsilon, epsilon]} if ptk_id in few else {}
        config |= {"evaluate": {"epsilon": 0.5}} if ptk_id in evaluated else {}
        config |= {"accept": {"metric": "loss", "epsilon": 1.0}} if ptk_id in validated else {}
        target = 0.5
        if ptk_id in rejected:
            config |= {"accept": {"metric": "loss", "epsilon": 0.5, "reject_epsilon": 0.5}}
            target = 0.01
        if ptk_id in measured:
            config |= {"accept": {"metric": "error", "epsilon": 1.0}}
            target = 40.0
        name = ptk_id.partition(".")[2]
        store.register_ptk(known[ptk_id], name=name, stream=STREAM, target=target, config=config)


def rows(window: int, *, n: int = 200, seed: int = 0) -> pa.Table:
    """Rows of one window."""
    draw = random.Random(f"{seed}/{window}")
    start = ORIGIN + window * DAY
    seconds = [draw.randrange(86_400) for _ in range(n)]
    return pa.table(
        {
            "at": pa.array([start + timedelta(seconds=s) for s in seconds], pa.timestamp("us", tz="UTC")),
            "hour": pa.array([s // 3600 % len(HOURS) for s in seconds], pa.int64()),
            "speed": pa.array([draw.uniform(1.0, 59.0) for _ in seconds], pa.float64()),
            "long": pa.array([draw.random() < 0.3 for _ in seconds], pa.bool_()),
        }
    )


def end_of(window: int) -> datetime:
    """The event time at which a window closes."""
    return ORIGIN + (window + 1) * DAY


def subscriber(name: str, ptk_id: str) -> Subscriber:
    """A subscriber from the first version on."""
    return Subscriber(f"/{name}", ptk_id)
