"""Versions to put into a lake."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime

from ptklib.canonical_json import canonical_json
from ptkstore.domain.versions.versions import StateFile, Version, table_file_name

PTK = "taxi.speed"


def a_version(files: Mapping[str, bytes], /, number: int = 1, **changes: object) -> Version:
    """A version whose manifest lists these files, as far as a lake looks at it."""
    listed = [StateFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in files.items()]
    manifest = {
        "format_version": 1,
        "ptk_id": PTK,
        "version": number,
        "files": [{"name": f.name, "size": f.size, "sha256": f.sha256} for f in listed],
        **changes,
    }
    now = datetime(2026, 1, 2, tzinfo=UTC)
    return Version(PTK, number, f"train/{number}", f"draft{number}", 0, now, canonical_json(manifest))


def content(*tables: bytes) -> dict[str, bytes]:
    """Files under the names they have in a lake."""
    return {table_file_name(f"t{i}", hashlib.sha256(data).hexdigest()): data for i, data in enumerate(tables)}
