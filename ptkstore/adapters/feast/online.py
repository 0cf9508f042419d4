"""Rows in Feast's online store: one namespace per version, written before a reader can name it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from ptkstore.adapters.feast.session import Session
from ptkstore.adapters.feast.tables import ViewTable
from ptkstore.adapters.feast.values import online_rows

if TYPE_CHECKING:
    from feast import FeatureView
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey
    from feast.protos.feast.types.Value_pb2 import Value

_BATCH = 2_000
# Feast shares one SQLite connection between threads: one would read another's open transaction.
_SQLITE = threading.RLock()


def write_rows(session: Session, view: FeatureView, table: ViewTable, as_of: datetime) -> None:
    """Write rows into the namespace of the view's version; repeatable."""
    if session.packed is not None:
        session.packed.write_table(session.config, view, table, as_of)
        return
    with one_thread(session):
        session.online.update(session.config, [], [view], [], [], partial=True)
        rows = online_rows(table)
        while batch := list(islice(rows, _BATCH)):
            data: list[Any] = [(key, cells, as_of, None) for key, cells in batch]
            session.online.online_write_batch(session.config, view, data, progress=None)


def read_rows(
    session: Session, view: FeatureView, keys: Sequence[EntityKey], features: Sequence[str]
) -> list[dict[str, Value]]:
    """Return the features of each key that has any."""
    with one_thread(session):
        # A list of our own: Feast's Redis store appends to the one it gets.
        try:
            stored = session.online.online_read(session.config, view, list(keys), list(features))
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            return [{} for _ in keys]  # the file was lost, and with it the rows
    return [values or {} for _, values in stored]


def make_place(session: Session, view: FeatureView) -> None:
    """Make a place for rows of a view, if the file in which they were was lost; repeatable."""
    if session.config.online_store.type == "sqlite":
        with one_thread(session):
            session.online.update(session.config, [], [view], [], [], partial=True)


def has_hash(session: Session, view: FeatureView) -> bool:
    """Tell whether packed rows of this version are there; True where rows are not packed."""
    if session.packed is None:
        return True
    client: Any = session.packed._get_client(session.config.online_store)
    return bool(client.exists(session.packed.hash_key(session.config, view)))


def drop_rows(session: Session, view: FeatureView, table: ViewTable) -> None:
    """Delete the rows of one version; repeatable."""
    from feast.infra.online_stores.redis import RedisOnlineStore

    online = session.online
    if session.packed is not None or not isinstance(online, RedisOnlineStore):
        with one_thread(session):
            online.update(session.config, [view], [], [], [], partial=True)
        return
    # Not Feast's delete_table: it scans all keys and deletes whole hashes that other views may be writing to.
    from feast.infra.online_stores.helpers import _mmh3, _redis_key, compute_versioned_name

    namespace = compute_versioned_name(view, enable_versioning=True)
    fields = [_mmh3(f"{namespace}:{feature.name}") for feature in view.features]
    client: Any = online._get_client(session.config.online_store)
    rows = online_rows(table)
    while batch := list(islice(rows, _BATCH)):
        with client.pipeline(transaction=False) as pipe:
            for key, _ in batch:
                redis_key = _redis_key(
                    session.config.project,
                    key,
                    entity_key_serialization_version=session.config.entity_key_serialization_version,
                )
                pipe.hdel(redis_key, f"_ts:{namespace}".encode(), *fields)
            pipe.execute()


def mark_served(session: Session, view: str, version: int, sha256: str, others: Sequence[int]) -> None:
    """Tell readers of packed rows which version is the newest now; repeatable, also after a crash half way.

    Parameters
    ----------
    session, view, version, sha256
        The open store and the version that it serves now; nothing happens unless its rows are packed.
    others : sequence of int
        The versions that have rows; older ones become superseded.
    """
    if session.packed is None:
        return
    from ptkstore.adapters.feast.packed import version_status

    client = session.packed._get_client(session.config.online_store)
    version_status.set_served(client, _packed_key(session, view, version), version_status.identity_of(sha256))
    for other in others:
        if other < version:
            version_status.supersede(client, _packed_key(session, view, other))


def mark_forgotten(session: Session, view: str, version: int) -> None:
    """Tell readers of packed rows that nobody can name a version any more."""
    if session.packed is not None:
        from ptkstore.adapters.feast.packed import version_status

        client = session.packed._get_client(session.config.online_store)
        version_status.forget(client, _packed_key(session, view, version))


def _packed_key(session: Session, view: str, version: int) -> bytes:
    assert session.packed is not None
    return session.packed.key_of_version(session.config, view, version)


def one_thread(session: Session) -> AbstractContextManager[object]:
    """Hold the online store for one thread at a time, where it needs that."""
    return _SQLITE if session.config.online_store.type == "sqlite" else nullcontext()
