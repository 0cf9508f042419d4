"""An open Feast store of this process, loaded on first use."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptkstore.adapters.feast.loading import load_feast
from ptkstore.adapters.feast.repo import PACKED_STORE

if TYPE_CHECKING:
    from feast import FeatureStore
    from feast.infra.online_stores.online_store import OnlineStore
    from feast.infra.registry.sql import SqlRegistry
    from feast.repo_config import RepoConfig

    from ptkstore.adapters.feast.backends import RegistryDatabase
    from ptkstore.adapters.feast.packed import PackedRedisOnlineStore


@dataclass(frozen=True)
class Session:
    """Feast, opened in one process, and the database under its registry; `packed` is its online store if it is ours."""

    store: FeatureStore
    registry: SqlRegistry
    database: RegistryDatabase
    packed: PackedRedisOnlineStore | None

    @property
    def config(self) -> RepoConfig:
        """The parsed `feature_store.yaml`."""
        return self.store.config

    @property
    def online(self) -> OnlineStore:
        """The configured online store."""
        provider: Any = self.store.provider
        online: OnlineStore = provider.online_store
        return online


class Sessions:
    """Opens the session of this process on first use; a forked child gets its own."""

    def __init__(self, repo: Path) -> None:
        self._repo = repo
        self._opening = threading.Lock()
        self._session: Session | None = None
        self._pid = 0

    @contextmanager
    def use(self) -> Iterator[Session]:
        """Open the session; errors of its stores become ours, without values."""
        session = self._session if self._pid == os.getpid() else None
        if session is None:
            load_feast(self._repo)
        from ptkstore.adapters.feast.backends import plain_errors

        with plain_errors():
            yield self._opened() if session is None else session

    def _opened(self) -> Session:
        with self._opening:
            if self._session is None or self._pid != os.getpid():
                self._session = None  # the pid must not be ours while the session is another process's
                self._pid = os.getpid()
                self._session = _open(self._repo)
            return self._session

    def close(self) -> None:
        """Give the registry's connections back, if any were taken."""
        with self._opening:
            if self._session is not None and self._pid == os.getpid():
                self._session.registry.write_engine.dispose()
            self._session = None


def _open(repo: Path) -> Session:
    from feast import FeatureStore
    from feast.infra.registry.sql import FeastRegistrySchemaError, SqlRegistry

    from ptkstore.adapters.feast.backends import RegistryDatabase, with_limited_waits

    store = FeatureStore(repo_path=str(repo))
    config: Any = store.config.registry
    options = with_limited_waits(config.path, config.sqlalchemy_config_kwargs)
    config.sqlalchemy_config_kwargs = options  # for Feast's own connections
    database = RegistryDatabase(config.path, options, repo)
    # opening an empty registry writes to it, and two who do so trip over each other
    with database.exclusive():
        try:
            registry = store.registry
        except FeastRegistrySchemaError:
            database.create_tables()  # consumers never do (schema_mode: verify)
            registry = store.registry
    assert isinstance(registry, SqlRegistry)
    packed = None
    if store.config.online_store.type == PACKED_STORE:
        from ptkstore.adapters.feast.packed import PackedRedisOnlineStore

        online: Any = store.provider.online_store
        assert isinstance(online, PackedRedisOnlineStore)
        packed = online
    return Session(store, registry, database, packed)
