"""Published states: versions of a PTK and the manifest that describes one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ptklib.canonical_json import canonical_json
from ptkstore.domain.accounting.assurances import UNKNOWN, Assured
from ptkstore.domain.versions.provenance import is_local

FORMAT_VERSION = 1

UNREADABLE = "unreadable"
"""Told in the place of the decision of a version whose manifest cannot be read."""


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file of a state: its content-bearing name, size in bytes and SHA-256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Draft:
    """The result of a run in staging: public once elected, secret before.

    `facts` are what the state tells of the data for later plans, as ptklib writes them; None where it tells nothing.
    """

    draft_id: str
    files: tuple[StateFile, ...]
    state: Mapping[str, Any]
    facts: Mapping[str, Any] | None = None


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


@dataclass(frozen=True, slots=True)
class Lineage:
    """The origin of a version, as its manifest says, without the rest of it.

    `window_index` and `window_end` are of the newest window in the state, `windows` all whose rows were opened for it
    if these are several. `made_from` has the PTKs and numbers of the versions whose states went into it directly. One
    whose manifest cannot be read has no more than its number and window.
    """

    ptk_id: str
    number: int
    window_index: int
    window_end: str = ""
    release_decision: str = UNREADABLE
    made_from: tuple[tuple[str, int], ...] = ()
    assured: Assured = UNKNOWN
    windows: tuple[int, ...] = ()

    def was_trained_on(self, window: int) -> bool:
        """Return whether rows of this window were opened for it."""
        return window == self.window_index or window in self.windows

    @property
    def readable(self) -> bool:
        """Whether its manifest says where it comes from."""
        return self.release_decision != UNREADABLE


_TABLE = ".parquet"

PTKS = "ptks"
"""The folder of all PTKs, below the lake's root."""

PROBE = "probe"
"""A file that is written to see whether one can be; nobody reads it."""
PROBE_BYTES = 64 * 1024
"""How much of it: a full disk takes an empty file."""


def version_path(ptk_id: str, number: int) -> str:
    """Return the place of a version below the lake's root."""
    return f"{PTKS}/{ptk_id}/v{number:08d}"


def table_file_name(table: str, sha256: str) -> str:
    """Return the name of a table's Parquet file in the lake."""
    return f"{table}-{sha256}{_TABLE}"


def table_of(file_name: str) -> str:
    """Return the name of the table that a Parquet file in the lake contains."""
    return file_name.rsplit("-", 1)[0]


def table_files(files: Mapping[str, bytes]) -> tuple[tuple[StateFile, ...], dict[str, bytes]]:
    """Return the tables among the files of a state, as a draft lists them, and their bytes by the names in the lake."""
    listed, contents = [], {}
    for name, content in files.items():
        if name.endswith(_TABLE):
            sha256 = hashlib.sha256(content).hexdigest()
            listed.append(StateFile(table_file_name(name.removesuffix(_TABLE), sha256), len(content), sha256))
            contents[listed[-1].name] = content
    return tuple(listed), contents


def election_time(now: datetime, newest: Version | None) -> datetime:
    """Return when a version is elected that waits for no release tick: to the second, as at a tick.

    In the second of the newest version it is `now`, so that joins in time can tell the two apart. It is never later
    than `now`: a version that is elected in the future would wait until then to be placed.
    """
    second = now.replace(microsecond=0)
    return second if newest is None or second > newest.elected_at else now


def repeating_manifest(target: Version, newest: Version, published_at: datetime) -> str:
    """Write the manifest of a version after `newest` that repeats the state of `target`: same bytes, no further loss.

    It takes effect at the event time of the version it replaces, or joins in time would go on answering from that.
    """
    return canonical_json(
        {
            **target.content,
            "version": newest.number + 1,
            "release_decision": "rolled-back",
            "published_at": published_at.isoformat(),
            "made_from": [origin_of(target)],
            "repeats": {
                "version": target.number,
                "sha256": target.sha256,
                "takes_effect_at": event_time_of(newest.content).isoformat(),
            },
        }
    )


def repeated_version(content: Mapping[str, Any]) -> int | None:
    """Return the version whose state a manifest repeats; None for one that was trained."""
    return int(content["repeats"]["version"]) if "repeats" in content else None


def trained_on(content: Mapping[str, Any]) -> str:
    """Return the stream of the newest window in the state.

    A state that devices trained charged no block, so its manifest names the stream by itself.
    """
    return str(content["stream"] if is_local(content) else content["blocks"][-1]["stream"])


def window_end_of(content: Mapping[str, Any]) -> datetime:
    """Return the end of the newest window in the state."""
    return datetime.fromisoformat(content["newest_contributing_window"]["end"])


def event_time_of(content: Mapping[str, Any]) -> datetime:
    """From when on, in event time, a version is what joins in time answer."""
    if "repeats" in content:
        return datetime.fromisoformat(content["repeats"]["takes_effect_at"])
    return window_end_of(content)


def origin_of(version: Version) -> dict[str, object]:
    """Name a version as the manifests of those that came from it do."""
    return {"ptk_id": version.ptk_id, "version": version.number, "sha256": version.sha256}
