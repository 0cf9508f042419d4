"""Rows of published states as consumers of Feast read them."""

import os
from dataclasses import replace
from pathlib import Path

from ptkstore.adapters.feast import FeastFeatureStore
from ptkstore.ports.features import Computed, PublishedState


def telling(state: PublishedState) -> PublishedState:
    """A state whose computed view tells its version too."""
    numbers = {
        "centre": [0.0],
        "half_width": [1.0],
        "reach": 9.0,
        "mean": [0.0],
        "components": [[state.version]],
    }
    return replace(state, computed=(Computed("project", (("a", "double"),), ("p_0",), numbers),))


def age(repo: Path, store: FeastFeatureStore) -> None:
    """Make all that was published so far an hour old."""
    from feast.infra.registry.sql import feature_view_version_history as snapshots
    from sqlalchemy import update

    with store._sessions.use() as session, session.database.engine.begin() as connection:
        connection.execute(update(snapshots).values(created_timestamp=snapshots.c.created_timestamp - 3600))
    for path in (repo / "history").rglob("*.parquet"):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 3600))
