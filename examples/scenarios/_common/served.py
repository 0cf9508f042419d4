"""The same 13 PTKs through a service in a temporary home: it plans, splits, trains and publishes by itself.

Statistics and PCAs name a range of epsilons and get epsilon, rows and partition from the service. Before the first
version its formulas assume the worst of the data, and of a PCA nothing can be said, so that it begins with the epsilon
that it declares on all rows of a partition. Clusterings declare an epsilon too: the losses that the service can profile
are in parts of a box so large that no profile set here holds enough rows. What the versions tell the next window is
planned with, which is shown beside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

import ptkstore
from _common.allocated import CAPACITY, Window
from _common.profiled import CLUSTER_GRID, GRID
from _common.thirteen import CLUSTERS, PCA, STATISTICS, Ptk
from ptkstore.application.planning.formula_plans import with_facts
from ptkstore.application.planning.window_plans import PlannedTraining, as_released, plan_window
from ptkstore.domain.allocation.model import Infeasible
from ptkstore.domain.streams.blocks import FIRST_TRAIN, place_of
from ptkstore.errors import PtkRejected
from ptkstore.sdk import Store

STREAM, TEAM = "trips", "taxi"
DECLARED = CLUSTER_GRID[1]
"""Epsilon of a PTK that no formula can profile, or not yet."""


@dataclass(frozen=True)
class Served:
    """What the manifest of one PTK says, its state, and what the next window would be planned with."""

    n_rows: int
    rate: float
    epsilon: float
    partition: int
    fitted: Any
    following: PlannedTraining | None


def served(ptks: Sequence[Ptk], level: str, window: Window, partitions: int) -> dict[str, Served] | str:
    """Register the PTKs, ingest the rows as one window, close it; return what was published, or the refusal."""
    first, last = window.rows["time"].min().normalize(), window.rows["time"].max()
    days = math.ceil((last - first) / pd.Timedelta(days=1)) + 1
    columns = sorted({column for ptk in ptks for column in ptk.estimator.input_columns()})
    with TemporaryDirectory() as home, ptkstore.connect(home) as store:
        store.create_stream(
            STREAM,
            team=TEAM,
            schema={"time": "timestamp", **{c: str(window.rows[c].dtype) for c in columns}},
            time_column="time",
            epsilon=CAPACITY.epsilon,
            delta=CAPACITY.delta,
            window=f"{days}d",
            origin=first.tz_localize("UTC").to_pydatetime(),
            rows_per_window=window.n_public,
            n_max=window.n_public,
            train_partitions=partitions,
            closing="operator",
        )
        try:
            ids = {ptk.name: _registered(store, ptk, level, days) for ptk in ptks}
        except PtkRejected as refusal:
            return str(refusal)
        rows = window.rows[["time", *columns]].assign(time=window.rows["time"].dt.tz_localize("UTC"))
        store.ingest(STREAM, rows)
        store.close_windows(STREAM, (first + pd.Timedelta(days=days)).tz_localize("UTC").to_pydatetime())
        store.work_until_idle()
        following = _following(store)
        return {name: _published(store, ptk_id, following.get(ptk_id)) for name, ptk_id in ids.items()}


def _registered(store: Store, ptk: Ptk, level: str, days: int) -> str:
    estimator, config = ptk.estimator, None
    if ptk.kind in (STATISTICS, PCA):
        config = {"epsilons": [GRID[0], GRID[-1]]}
    if ptk.kind in (CLUSTERS, PCA):
        estimator = type(estimator)(**{**estimator.get_params(deep=False), "epsilon": DECLARED})
    name = "".join(c if c.isalnum() else "_" for c in ptk.name).replace("__", "_")
    target = ptk.targets[level] * (ptk.allowed if ptk.kind == CLUSTERS else 1.0)
    return store.register_ptk(
        estimator, None, f"{days}d", name=name, stream=STREAM, target=target, config=config
    )


def _following(store: Store) -> dict[str, PlannedTraining]:
    """Return the plan of the next window by PTK; nothing where it would be planned as the first one was."""
    with store.service.begin() as uow:  # type: ignore[attr-defined]  # of a home
        policy = uow.streams.get(STREAM).policy
        specs = with_facts(uow, uow.ptks.find(stream=STREAM), policy)
    plan = plan_window([as_released(spec, policy) for spec in specs], policy)
    return {} if isinstance(plan, Infeasible) else {one.offer.ptk_id: one for one in plan}


def _published(store: Store, ptk_id: str, following: PlannedTraining | None) -> Served:
    service = store.service
    policy = next(stream.policy for stream in service.streams() if stream.name == STREAM)
    manifest, _ = service.ptk_version(ptk_id, 1)
    block = manifest["blocks"][-1]["number"]
    return Served(
        manifest["planned"]["n"],
        manifest["planned"]["rate"],
        manifest["guarantee"]["epsilon"],
        place_of(block, policy).part - FIRST_TRAIN,
        store.ptk(ptk_id, 1).estimator,
        following,
    )
