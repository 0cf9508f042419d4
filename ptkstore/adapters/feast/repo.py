"""The Feast repository's one file, `feature_store.yaml`: all that a consumer needs beside Feast."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from ptkstore.adapters.feast.files import replace_file
from ptkstore.adapters.feast.names import PROJECT
from ptkstore.errors import InvalidRequest

CONFIG_FILE = "feature_store.yaml"
WRITTEN_BY = "# Written by ptkstore; change its settings, not this file."
PACKED_STORE = "ptkstore.adapters.feast.packed.PackedRedisOnlineStore"

# without them a stuck Redis holds a worker
_TIMEOUTS_SECONDS = {"socket_connect_timeout": 5, "socket_timeout": 30}


@dataclass(frozen=True, slots=True)
class RedisOnline:
    """Redis as the online store; `connection_string` in Feast's form, `host:port,db=1,password="..."`.

    `packed` takes our plugin instead of Feast's own store: faster, but readers then need this package too.
    """

    connection_string: str
    packed: bool = False

    @classmethod
    def from_url(cls, url: str, *, packed: bool = False) -> RedisOnline:
        """From `redis://`, `rediss://` or `unix://` (`redis+socket://`) with user, password and database."""
        parts = urlsplit(url)
        options: dict[str, object] = {}
        query = parse_qs(parts.query)
        database = query["db"][-1] if "db" in query else query.get("virtual_host", [""])[-1]
        if parts.scheme in {"unix", "redis+socket"}:
            nodes = "localhost:0"
            options["unix_socket_path"] = unquote(parts.path)
        elif parts.scheme in {"redis", "rediss"} and parts.hostname:
            nodes = f"{parts.hostname}:{parts.port or 6379}"
            database = database or parts.path.strip("/")
            if parts.scheme == "rediss":
                options["ssl"] = True
        else:
            raise InvalidRequest("the online store's URL must be redis://, rediss:// or unix://")
        if database:
            if not database.isdigit():
                raise InvalidRequest("the database in the online store's URL must be a number")
            options["db"] = int(database)
        if parts.username:
            options["username"] = unquote(parts.username)
        if parts.password:
            options["password"] = unquote(parts.password)
        options.update(_TIMEOUTS_SECONDS)
        if any("," in value for value in options.values() if isinstance(value, str)):
            raise InvalidRequest(
                "Feast cannot read a ',' in user, password or socket path of the online store"
            )
        # As JSON, or Feast takes a password such as 1e5 for a number.
        parts_of_string = [nodes, *(f"{name}={json.dumps(value)}" for name, value in options.items())]
        return cls(",".join(parts_of_string), packed)

    @property
    def holds_password(self) -> bool:
        """Whether others must not read the file."""
        return "password=" in self.connection_string

    @property
    def user(self) -> str:
        """Whom Redis takes a reader for."""
        named = (part for part in self.connection_string.split(",") if part.startswith("username="))
        return str(json.loads(next(named, 'username="default"').partition("=")[2]))


@dataclass(frozen=True, slots=True)
class SqliteOnline:
    """A SQLite file as the online store; a relative path is below the repository."""

    path: str = "online.db"
    holds_password: ClassVar[bool] = False


def write_repo(
    repo: Path, registry_url: str, online: RedisOnline | SqliteOnline, *, cache_ttl_seconds: int = 2
) -> Path:
    """Write the repository's configuration; changes nothing if it is as wanted.

    Parameters
    ----------
    repo : Path
        The repository's folder; made if need be.
    registry_url : str
        `sqlite:///<absolute path>` or `postgresql://…`; only the service may hold credentials that write it.
    online : RedisOnline or SqliteOnline
        The place of the rows for lookups.
    cache_ttl_seconds : int
        How long readers may go by what they know of the registry; at least 1 (Feast takes 0 for "for ever").

    Returns
    -------
    Path
        Of `feature_store.yaml`, with mode 0600 if it may hold a password.
    """
    if cache_ttl_seconds < 1:
        raise InvalidRequest("cache_ttl_seconds must be at least 1: Feast would never look again after 0")
    url, engine = _registry(registry_url)
    parts = urlsplit(url)
    named = any("pass" in name.lower() for name in parse_qs(parts.query, keep_blank_values=True))
    secret = online.holds_password or parts.password is not None or named
    repo.mkdir(parents=True, exist_ok=True)
    target = repo / CONFIG_FILE
    content, mode = _document(url, engine, online, cache_ttl_seconds).encode(), 0o600 if secret else 0o644
    if not (target.exists() and target.read_bytes() == content and os.stat(target).st_mode & 0o777 == mode):
        replace_file(target, content, mode=mode)
    return target


def _document(
    url: str, engine: dict[str, object], online: RedisOnline | SqliteOnline, cache_ttl_seconds: int
) -> str:
    if isinstance(online, RedisOnline):
        # A late retry must be able to write the same rows again; Feast would drop them for their equal time.
        kind = PACKED_STORE if online.packed else "redis"
        store = [("type", kind), ("connection_string", online.connection_string), ("skip_dedup", True)]
    else:
        store = [("type", "sqlite"), ("path", online.path)]
    lines = [
        WRITTEN_BY,
        f"project: {PROJECT}",
        "provider: local",
        "registry:",
        "  registry_type: sql",
        f"  path: {_scalar(url)}",
        f"  cache_ttl_seconds: {cache_ttl_seconds}",
        "  schema_mode: verify",
        "  enable_online_feature_view_versioning: true",
        f"  sqlalchemy_config_kwargs: {_scalar(engine)}",
        "online_store:",
        *(f"  {name}: {_scalar(value)}" for name, value in store),
        "offline_store:",
        "  type: dask",
        "entity_key_serialization_version: 3",
        "auth:",
        "  type: no_auth",
        "",
    ]
    return "\n".join(lines)


def _registry(url: str) -> tuple[str, dict[str, object]]:
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return url, {"connect_args": {"timeout": 30}}
    if parts.scheme in {"postgresql", "postgres", "postgresql+psycopg"}:
        return f"postgresql+psycopg:{url.partition(':')[2]}", {
            "pool_pre_ping": True,
            "connect_args": {"connect_timeout": 5},
        }
    raise InvalidRequest(
        "the registry's URL must be sqlite:///… or postgresql://…: file registries lose updates"
    )


def _scalar(value: object) -> str:
    """JSON, which is YAML; Feast expands `$NAME` in the file's text, so a `$` is written as its code."""
    return json.dumps(value).replace("$", "\\u0024")
