"""The interface for consumers of the feature store."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from ptkstore.adapters.feast import (
    RedisOnline,
    SqliteOnline,
    registry_grants,
    registry_left_open,
    write_consumer_repo,
)
from ptkstore.errors import InvalidRequest
from ptkstore.settings import Settings
from ptkstore.wiring.adapters import Adapters


def registry_grants_of(settings: Settings, role: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """SQL after which a role reads Feast's registry, and nothing else of the schema it shares with the catalog.

    Beside it what a superuser has yet to run, so that the role cannot stop every write of the server in seconds.
    """
    with closing(Adapters(settings)) as adapters:
        return registry_grants(adapters.feast_repo, role), registry_left_open(adapters.feast_repo)


def export_consumer_repo(
    settings: Settings, folder: Path, registry_url: str | None, redis_url: str | None
) -> Path:
    """Write a consumer's `feature_store.yaml`.

    Raises
    ------
    InvalidRequest
        A URL is missing that the service reaches by credentials of its own, or names these.
    """
    with closing(Adapters(settings)) as adapters:
        own = settings.root / "feast"
        if folder.absolute().resolve() == own.resolve():
            raise InvalidRequest("that is the service's own repository; name another folder")
        if registry_url is None and settings.database_url is not None:
            raise InvalidRequest("name the registry as the consumer reaches it, by --registry-url")
        online: RedisOnline | SqliteOnline = SqliteOnline(str(own / "online.db"))
        if settings.online_in_redis:
            if redis_url is None and settings.redis_url is not None:
                raise InvalidRequest("name Redis as the consumer reaches it, by --redis-url")
            packed = settings.online_store == "packed"
            online = RedisOnline.from_url(redis_url or adapters.redis_url, packed=packed)
        elif redis_url is not None:
            raise InvalidRequest("online rows of this store are not in Redis: leave --redis-url out")
        return write_consumer_repo(
            folder,
            registry_url=registry_url or adapters.feast_registry_url,
            service_registry_url=adapters.feast_registry_url,
            online=online,
            service_online=adapters.feast_online,
        )
