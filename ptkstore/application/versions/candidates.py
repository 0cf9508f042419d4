"""Trained states that wait for their verdict: what is said of them lies in encrypted staging, beside their files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptkstore.application.versions.elected_files import state_files
from ptkstore.domain.canonical_json import canonical_json
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import Staging

CONTENT_FILE = "candidate.json"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trained state: `content` is what its manifest will say, `state` holds its files as they were written."""

    content: Mapping[str, Any]
    state: Mapping[str, bytes]


def write_content(draft_id: str, content: Mapping[str, Any], key: bytes, staging: Staging) -> None:
    """Keep what a manifest will say of a draft beside its files; repeatable."""
    staging.write(draft_id, {CONTENT_FILE: canonical_json(content).encode()}, key)


def read_candidate(draft_id: str, keys: KeyStore, staging: Staging) -> Candidate:
    """Read a draft that waits for its verdict; `WindowGone` or `UnknownName` once it was destroyed."""
    key = keys.draft_key(draft_id)
    content = json.loads(staging.read(draft_id, (CONTENT_FILE,), key)[CONTENT_FILE])
    names = [file["name"] for file in content["files"]]
    return Candidate(content, state_files(content, staging.read(draft_id, names, key)))
