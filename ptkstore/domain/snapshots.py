"""Published states: versions of a PTK and the manifest that describes one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

FORMAT_VERSION = 1

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file of a state: its content-bearing name, size in bytes and SHA-256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Draft:
    """What a run left in staging: public once elected, secret before."""

    draft_id: str
    files: tuple[StateFile, ...]
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Version:
    """An elected state. `manifest` is what the lake will hold, byte for byte."""

    ptk_id: str
    number: int
    job_id: str
    draft_id: str
    window_index: int
    elected_at: datetime
    manifest: str

    @property
    def sha256(self) -> str:
        """Of the manifest's bytes; it names the content of every file in turn."""
        return hashlib.sha256(self.manifest.encode()).hexdigest()

    @property
    def content(self) -> dict[str, Any]:
        """The manifest, parsed."""
        parsed: dict[str, Any] = json.loads(self.manifest)
        return parsed


def version_path(ptk_id: str, number: int) -> str:
    """Where a version lies below the lake's root."""
    return f"ptks/{ptk_id}/v{number:08d}"


def canonical_json(value: object) -> str:
    """The one text of a JSON value: sorted keys, no spaces, no NaN."""
    return _CANONICAL.encode(value)


def table_file_name(table: str, sha256: str) -> str:
    """The name of a table's Parquet file in the lake."""
    return f"{table}-{sha256}.parquet"


def manifest_of(
    *,
    ptk_id: str,
    number: int,
    files: Sequence[StateFile],
    state: Mapping[str, Any],
    schema: Mapping[str, Any],
    family: str,
    target: float,
    config: Mapping[str, Any],
    blocks: Sequence[Mapping[str, Any]],
    oldest_window: Mapping[str, Any],
    newest_window: Mapping[str, Any],
    guarantee: Mapping[str, Any],
    planned: Mapping[str, Any],
    decision: str,
    published_at: datetime,
) -> str:
    """The canonical manifest of a version (DESIGN section 4, "Lake"); holds public values and DP output only."""
    return canonical_json(
        {
            "format_version": FORMAT_VERSION,
            "ptk_id": ptk_id,
            "version": number,
            "files": [{"name": f.name, "size": f.size, "sha256": f.sha256} for f in files],
            "state": state,
            "schema": schema,
            "family": family,
            "tau": target,
            "config": config,
            "blocks": list(blocks),
            "oldest_contributing_window": oldest_window,
            "newest_contributing_window": newest_window,
            "guarantee": guarantee,
            "planned": planned,
            "release_decision": decision,
            "published_at": published_at.isoformat(),
        }
    )
