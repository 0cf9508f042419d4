"""Access for a consumer of the repository: SQL for a role of their own, and a configuration that names it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from ptkstore.adapters.feast.repo import (
    CONFIG_FILE,
    WRITTEN_BY,
    RedisOnline,
    SqliteOnline,
    write_repo,
)
from ptkstore.adapters.feast.session import Sessions
from ptkstore.errors import Conflict, InvalidRequest

_LONGEST_ROLE = 63
"""Bytes; PostgreSQL would cut a longer name, and so grant to another role."""


def registry_grants(repo: Path, role: str) -> tuple[str, ...]:
    """Return the SQL after which a role of PostgreSQL reads Feast's registry, and nothing else of its schema.

    Raises
    ------
    InvalidRequest
        The registry is no PostgreSQL, or the role is none that may be given this.
    Refused
        Everybody may create tables and functions in its schema.
    """
    if not role.isprintable() or not 0 < len(role.encode()) <= _LONGEST_ROLE:
        raise InvalidRequest(f"a role has a name of 1 to {_LONGEST_ROLE} printable bytes")
    if role in {"public", "none"} or role.startswith("pg_"):  # quoted too, "public" means every role
        raise InvalidRequest(f"{role!r} is no role of a consumer: make one of their own")
    with closing(Sessions(repo)) as sessions, sessions.use() as session:
        return session.database.read_grants(role)


def registry_left_open(repo: Path) -> tuple[str, ...]:
    """Return the SQL that keeps a role of the registry's server from stopping its writes in seconds; for a superuser.

    They slow a hostile role and do not stop it.
    """
    with closing(Sessions(repo)) as sessions, sessions.use() as session:
        return session.database.left_open()


def write_consumer_repo(
    folder: Path,
    *,
    registry_url: str,
    service_registry_url: str,
    online: RedisOnline | SqliteOnline,
    service_online: RedisOnline | SqliteOnline,
) -> Path:
    """Write `feature_store.yaml` of a consumer; none of the service's credentials gets into it.

    Parameters
    ----------
    folder : Path
        The folder to write to; made if need be. A file there that was not written by us is not touched.
    registry_url, online
        Registry and online rows as the consumer reaches them.
    service_registry_url, service_online
        The same as the service reaches them.

    Returns
    -------
    Path
        The path of the file, with mode 0600 if it has a password.
    """
    user = _user(registry_url)
    if not registry_url.startswith("sqlite:"):
        if user is None:
            raise InvalidRequest("the registry's URL must name the consumer's own role")
        if user == _user(service_registry_url):
            raise InvalidRequest(
                "the registry's URL names the service's role: make the consumer one of their own"
            )
    if (
        isinstance(online, RedisOnline)
        and isinstance(service_online, RedisOnline)
        and online.user == service_online.user
        and service_online.holds_password
    ):
        raise InvalidRequest("Redis' URL names the service's user: make the consumer one of their own")
    target = folder / CONFIG_FILE
    if target.exists() and not target.read_bytes().startswith(WRITTEN_BY.encode()):
        raise Conflict(f"{target} was not written by this program; name another folder")
    return write_repo(folder, registry_url, online)


def _user(url: str) -> str | None:
    """The login name of an SQL URL."""
    parts = urlsplit(url)
    in_query = parse_qs(parts.query).get("user")
    if in_query:
        return in_query[-1]
    return unquote(parts.username) if parts.username else None
