"""Typed settings: read once from the environment, each with its source."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from ptkstore.domain.jobs import SMALL_AT_ONCE
from ptkstore.errors import InvalidRequest

CATALOG = "catalog.db"
"""The embedded catalog, in the home."""
_MASK = "****"
_ORIGIN = re.compile(
    r"https://([a-z0-9-]+(\.[a-z0-9-]+)*|\[[0-9a-f:]+\])(?!:443$)(:[1-9][0-9]{0,4})?"
    r"|http://(localhost|127\.0\.0\.1|\[::1\])(?!:80$)(:[1-9][0-9]{0,4})?"
)
_SHOWN_OPTIONS = {"host", "port", "dbname", "sslmode", "virtual_host", "db"}


class Settings(BaseSettings):
    """Places, limits and waiting times of the service; every field is `PTK_<NAME>` in the environment."""

    model_config = SettingsConfigDict(env_prefix="PTK_", frozen=True, extra="ignore")

    home: Path = Field(Path(".ptk"), description="everything embedded lives here")
    database_url: str | None = Field(
        None, description="catalog and Feast registry; SQLite in the home by default"
    )
    lake_url: str | None = Field(None, description="published states; <home>/lake by default")
    raw_url: str | None = Field(None, description="raw zone; <home>/raw by default")
    keys_url: str | None = Field(
        None, description="key store, a directory as a path or file:// URL; <home>/keys by default"
    )
    redis_url: str | None = Field(None, description="broker; a redis-server started in the home by default")
    devices_redis_url: str | None = Field(
        None,
        description="Redis of models that devices train, which must keep no file; one started in the home by default",
    )
    device_reports_per_second: float = Field(
        2000.0,
        ge=0,
        le=1e6,
        description="tickets, draws and puts, each, of one gateway that a process of the HTTP API takes per second; "
        "0: any number",
    )
    device_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="origins of pages whose scripts may ask the routes of devices, comma separated, for example "
        "https://app.example.org; none by default",
    )
    online_store: Literal["auto", "redis", "packed", "sqlite"] = Field(
        "auto",
        description="where Feast keeps online rows; auto: Redis if PTK_REDIS_URL is set, else a file; packed: "
        "Redis through a faster store of ours, which readers then need too",
    )
    keep_versions: int = Field(
        3, ge=1, description="how many of a PTK's newest versions can be pinned in lookups"
    )
    keep_superseded_seconds: float = Field(
        0.0, ge=0, description="how long older versions stay online as well, counted from their successor"
    )
    webhook_networks: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description=(
            "private networks that webhooks may reach, comma separated, for example 127.0.0.0/8; set it for relays, "
            "for the API and, in a home, for `ptk subscribe`"
        ),
    )
    publish_tick_seconds: float = Field(
        2.0, ge=0.001, le=600, description="states leave on multiples of this, so that durations do not show"
    )
    lease_seconds: float = Field(60.0, ge=2, le=3600, description="how long a silent worker keeps a job")
    train_timeout_seconds: float = Field(600.0, gt=0, le=86_400, description="the longest training")
    profile_timeout_seconds: float = Field(
        3600.0, gt=0, le=86_400, description="the longest profile by samples"
    )
    train_memory_mib: int = Field(4096, ge=512, description="the most memory of a training process")
    bubblewrap: str = Field(
        "bwrap", description="the command that team code is run in; without it none is run"
    )
    examine_timeout_seconds: float = Field(
        50.0, gt=0, le=3600, description="the longest examination of team code on synthetic rows"
    )
    bundles_per_team: int = Field(
        500, ge=1, le=1_000_000, description="bundles of code that a team may keep in the lake"
    )
    bundle_mib_per_team: int = Field(100, ge=1, le=1_000_000, description="MiB that they may have in all")
    rows_per_partial: int = Field(
        2_000_000, ge=1, description="planned rows beyond which a training is split among workers"
    )
    worker_concurrency: int = Field(
        2, ge=1, le=64, description="slots of a worker: a job each, or up to 8 small library trainings"
    )
    api_threads: int = Field(12, ge=1, le=64, description="requests that the HTTP API works on at once")
    api_timeout_seconds: float = Field(60.0, ge=1, le=3600, description="the longest wait for an answer")
    api_ingest_mib: int = Field(64, ge=1, le=1024, description="the largest body of rows over HTTP")
    api_requests_per_second: float = Field(
        300.0,
        ge=0,
        le=1e6,
        description="requests of one token that a process of the HTTP API takes per second, of a team twice as many; "
        "0: any number",
    )
    api_public_url: str | None = Field(
        None,
        max_length=500,
        description="where clients reach the HTTP API, https://host[:port][/path]: messages then name manifests there",
    )
    docs_url: str | None = Field(
        None,
        max_length=500,
        description="where the documentation site is served, https://host[:port][/path]: errors then end with an "
        "address there, and pages of the console link words and causes to it",
    )
    api_event_streams: int = Field(200, ge=0, le=10_000, description="event streams that may be open at once")

    metrics_token: str | None = Field(
        None,
        min_length=20,
        max_length=200,
        description="what a collector sends to read /metrics, as a bearer token",
    )
    otlp_endpoint: str | None = Field(
        None, description="where spans are sent, http(s)://host:4318; none are made by default"
    )
    alive_file: Path | None = Field(
        None, description="a file that worker, relay and schedule touch while they live, for probes"
    )

    @field_validator("keys_url")
    @classmethod
    def _directory(cls, url: str | None) -> str | None:
        if url is not None and not _local_path(url):
            raise ValueError("keys are in a directory with file locks: give a path or file:///path")
        return url

    @field_validator("api_public_url", "docs_url")
    @classmethod
    def _public_address(cls, url: str | None) -> str | None:
        if url is not None and not _is_address(url):
            raise ValueError("write https://host[:port][/path], without user, query or fragment")
        return url

    @field_validator("webhook_networks", "device_origins", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return (
            tuple(part.strip() for part in value.split(",") if part.strip())
            if isinstance(value, str)
            else value
        )

    @field_validator("webhook_networks")
    @classmethod
    def _networks(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        try:
            for network in networks:
                ip_network(network)
        except ValueError:
            raise ValueError("a network is written like 10.0.0.0/8, its host bits 0") from None
        return networks

    @field_validator("device_origins")
    @classmethod
    def _origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        if not all(_ORIGIN.fullmatch(one) for one in origins):
            raise ValueError(
                "an origin is written as browsers send it: https://host[:port], in small letters, without a path or "
                "the default port; http:// for this very machine alone"
            )
        return origins

    @model_validator(mode="after")
    def _patient(self) -> Self:
        if 3 * self.publish_tick_seconds > self.lease_seconds:
            raise ValueError("PTK_LEASE_SECONDS must be at least three times PTK_PUBLISH_TICK_SECONDS")
        return self

    @property
    def catalog_url(self) -> str:
        """The SQLAlchemy URL of the catalog."""
        return self.database_url or f"sqlite:///{self.root / CATALOG}"

    @property
    def online_in_redis(self) -> bool:
        """Whether Feast's online rows are in Redis."""
        return self.online_store in {"redis", "packed"} or (
            self.online_store == "auto" and self.redis_url is not None
        )

    @property
    def root(self) -> Path:
        """The home as an absolute path."""
        return self.home.expanduser().absolute()

    @property
    def lake(self) -> str:
        """The lake's URL or path."""
        return self.lake_url or str(self.root / "lake")

    @property
    def raw(self) -> str:
        """The raw zone's URL or path."""
        return self.raw_url or str(self.root / "raw")

    @property
    def keys(self) -> Path:
        """The directory of the key store."""
        return self.root / "keys" if self.keys_url is None else Path(_local_path(self.keys_url)).absolute()

    @property
    def places(self) -> tuple[str, ...]:
        """The places of this machine's files of the store: team code must see none of them."""
        urls = (str(self.root), str(self.keys), self.raw, self.lake, self.catalog_url)
        paths = (os.path.abspath(path) for path in map(_local_path, urls) if path)
        return tuple(dict.fromkeys(place for path in paths for place in (path, os.path.realpath(path))))

    @property
    def lease(self) -> timedelta:
        """How long a silent worker keeps a job."""
        return timedelta(seconds=self.lease_seconds)

    @property
    def small_rows(self) -> int:
        """Planned rows of a small training: as many of these as run at once read no more than one unsplit training."""
        return self.rows_per_partial // SMALL_AT_ONCE

    @property
    def tick(self) -> timedelta:
        """States leave on multiples of this."""
        return timedelta(seconds=self.publish_tick_seconds)


def load_settings(home: Path | str | None = None) -> Settings:
    """Read settings from the environment; `home` given in code wins.

    Raises
    ------
    InvalidRequest
        A variable does not parse; the message names it, not its value.
    """
    try:
        return Settings() if home is None else Settings(home=Path(home))
    except ValidationError as error:
        names = ", ".join(f"PTK_{'_'.join(map(str, e['loc'])).upper()} ({e['msg']})" for e in error.errors())
        raise InvalidRequest(f"settings that cannot be used: {names}") from None


def shown_settings(settings: Settings) -> list[dict[str, str]]:
    """Return name, value, source and meaning of each setting, secrets masked."""
    return [
        {
            "name": f"PTK_{name.upper()}",
            "value": shown_value(settings, name),
            "source": "environment or argument" if name in settings.model_fields_set else "default",
            "meaning": field.description or "",
        }
        for name, field in Settings.model_fields.items()
    ]


def shown_value(settings: Settings, name: str) -> str:
    """Return the value of a setting as text, a secret in it masked; empty if it has none."""
    value = getattr(settings, name)
    if name.endswith(("_url", "_endpoint")) and value:
        return _masked(value)
    if name.endswith("_token") and value:
        return _MASK
    return "" if value is None else str(value)


def _local_path(url: str) -> str:
    """The path that a path, or a URL of a local file or of SQLite, names; empty for all others."""
    head, separator, rest = url.rpartition("://")
    scheme = head.rpartition("::")[2]  # of a chain of fsspec the last one says where files lie
    if scheme.partition("+")[0] == "sqlite":
        path = rest.partition("?")[0].removeprefix("/").removeprefix("file:")
        return "" if path in ("", ":memory:") else path
    return rest if not separator or scheme in ("file", "local") else ""


def _is_address(url: str) -> bool:
    """Whether a URL is one that a token may be sent to: by https, or on this very machine."""
    try:
        parts = urlsplit(url)
        whole = parts.hostname and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:
        return False
    bare = not (parts.username or parts.password or parts.query or parts.fragment)
    local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
    return bool(whole and bare and (parts.scheme == "https" or local))


def _masked(url: str) -> str:
    scheme, sep, rest = url.partition("://")
    if not sep:
        return url
    rest, query, options = rest.partition("?")
    credentials, at, place = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    hidden = f"{user}:{_MASK}" if colon else _MASK  # without a colon the whole may be a token
    return f"{scheme}://{hidden if at else ''}{at}{place}{query}{_masked_options(options)}"


def _masked_options(options: str) -> str:
    pairs = (option.partition("=") for option in options.split("&"))
    return "&".join(
        f"{name}{eq}{value if name in _SHOWN_OPTIONS else _MASK if eq else ''}" for name, eq, value in pairs
    )
