"""Trained states that wait for their verdict: their description is in encrypted staging, beside their files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptklib.canonical_json import canonical_json
from ptkstore.application.versions.elected_files import state_files
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import Staging

CONTENT_FILE = "candidate.json"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trained state: `content` is what its manifest will say, `state` has its files as they were written.

    `asked` is what its PTK asked of it when its training was paid; see `asked_of`.
    """

    content: Mapping[str, Any]
    state: Mapping[str, bytes]
    asked: Mapping[str, Any]


def asked_of(spec: PtkSpec) -> dict[str, Any]:
    """Return what a PTK asks of its states: the test, its target, and whose rows it is about."""
    terms = None if spec.accept is None else dict(spec.accept.terms)
    return {"target": spec.target, "accept": terms, "where": spec.config.get("where")}


def write_content(
    draft_id: str, spec: PtkSpec, content: Mapping[str, Any], key: bytes, staging: Staging
) -> None:
    """Keep what a manifest will say of a draft, and what its PTK asks of it, beside its files; repeatable.

    Parameters
    ----------
    spec : PtkSpec
        The PTK as it was when the training was paid, or the average made.
    """
    said = {"content": content, "asked": asked_of(spec)}
    staging.write(draft_id, {CONTENT_FILE: canonical_json(said).encode()}, key)


def read_candidate(draft_id: str, keys: KeyStore, staging: Staging) -> Candidate:
    """Read a draft that waits for its verdict; `WindowGone`, `UnknownName` or `CorruptObject` if it cannot be."""
    key = keys.draft_key(draft_id)
    said = json.loads(staging.read(draft_id, (CONTENT_FILE,), key)[CONTENT_FILE])
    content = said["content"]
    names = [file["name"] for file in content["files"]]
    return Candidate(content, state_files(content, staging.read(draft_id, names, key)), said["asked"])
