"""Feast: the online and historical form of published states, readable with plain Feast."""

from __future__ import annotations

from ptkstore.adapters.feast.reading.consumers import registry_grants, registry_left_open, write_consumer_repo
from ptkstore.adapters.feast.repo import RedisOnline, SqliteOnline, write_repo
from ptkstore.adapters.feast.store import FeastFeatureStore

__all__ = [
    "FeastFeatureStore",
    "RedisOnline",
    "SqliteOnline",
    "registry_grants",
    "registry_left_open",
    "write_consumer_repo",
    "write_repo",
]
