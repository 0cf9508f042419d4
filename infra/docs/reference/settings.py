"""The page of the settings, made from their declarations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from infra.docs.reference.marks import MADE, escaped, table
from ptkstore.settings import Settings

INTRODUCTION = """\
# Settings

Every setting is an environment variable. Each process reads them when it starts. `ptk config` prints the value of each, where it comes from, and masks secrets.

A value that cannot be used ends the command or process with `invalid-request`, and the message names the variable. How settings work together is explained in
[operating the service](../guide/operate.md#settings) and [storage](../guide/storage.md).
"""
CLIENT = """\
## Of a client
The service does not read these. `ptk` reads both. In Python name the address, `ptkstore.connect(url)`; the token comes from `PTK_TOKEN` by default.

| variable | meaning |
|---|---|
| `PTK_URL` | the store behind HTTP that commands read, when no `--home` is given |
| `PTK_TOKEN` | the token for it |
"""
UNITS = {"_per_second": "per second", "_seconds": "seconds", "_mib": "MiB", "_mib_per_team": "MiB"}
LIMITS = {
    "ge": "at least {}",
    "gt": "more than {}",
    "le": "at most {}",
    "min_length": "{} characters or more",
}
PARTS = {
    "Where things are": ("home", "database_url", "lake_url", "raw_url", "keys_url", "redis_url", "bubblewrap"),
    "Trainings": (
        "publish_tick_seconds", "lease_seconds", "train_timeout_seconds", "profile_timeout_seconds",
        "train_memory_mib", "worker_concurrency", "rows_per_partial",
    ),
    "Team code": ("examine_timeout_seconds", "bundles_per_team", "bundle_mib_per_team"),
    "Serving": ("online_store", "keep_versions", "keep_superseded_seconds", "webhook_networks"),
    "The HTTP API": (
        "api_threads", "api_timeout_seconds", "api_ingest_mib", "api_requests_per_second", "api_public_url", "docs_url",
        "api_event_streams",
    ),
    "Devices": ("devices_redis_url", "device_reports_per_second", "device_origins"),
}  # fmt: skip


def page() -> str:
    """Return the page; a setting of no part is below `More`."""
    named = {name for names in PARTS.values() for name in names}
    parts = PARTS | {"More": tuple(name for name in Settings.model_fields if name not in named)}
    sections = [f"## {part}\n{table(HEAD, map(_row, names))}\n" for part, names in parts.items() if names]
    return "\n".join([INTRODUCTION, MADE, "", *sections, CLIENT])


HEAD = ("setting", "meaning", "unit", "default", "allowed")


def _row(name: str) -> list[str]:
    field = Settings.model_fields[name]
    meaning = escaped(field.description or "")
    usual = "" if field.default in (None, ()) else f"`{_plain(field.default)}`"
    return [f"`PTK_{name.upper()}`", meaning, _unit(name), usual, ", ".join(_allowed(field))]


def _plain(value: Any) -> str:
    return (
        f"{value:g}"
        if isinstance(value, float) and value < 1e6
        else f"{value:,.0f}"
        if isinstance(value, float | int)
        else str(value)
    )


def _unit(name: str) -> str:
    return next((unit for end, unit in UNITS.items() if name.endswith(end)), "")


def _allowed(field: Any) -> Iterator[str]:
    values = get_args(field.annotation)
    if values and all(isinstance(one, str) for one in values):
        yield ", ".join(f"`{one}`" for one in values)
    for limit in field.metadata:
        for name, words in LIMITS.items():
            if hasattr(limit, name):
                yield words.format(_plain(getattr(limit, name)))
