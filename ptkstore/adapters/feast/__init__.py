"""Feast: the online and historical form of published states, readable with plain Feast."""

from __future__ import annotations

from ptkstore.adapters.feast.repo import RedisOnline, SqliteOnline, write_repo
from ptkstore.adapters.feast.store import FeastFeatureStore

__all__ = ["FeastFeatureStore", "RedisOnline", "SqliteOnline", "write_repo"]
