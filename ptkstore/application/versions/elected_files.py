"""Read a version back from the lake, held against what was elected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptklib.canonical_json import canonical_json
from ptkstore.domain.versions.versions import Version, table_of
from ptkstore.errors import CorruptObject
from ptkstore.ports.objects import Lake


def files_of(version: Version, lake: Lake) -> dict[str, bytes]:
    """Return the files of a version, each verified by a manifest that is the elected one.

    Raises
    ------
    CorruptObject
        The lake's manifest, or a file, is not what the catalog elected.
    """
    manifest, files = lake.read_version(version.ptk_id, version.number)
    if manifest != version.content:
        raise CorruptObject(
            f"the manifest of version {version.number} of {version.ptk_id} is not the elected one"
        )
    return files


def state_files_of(version: Version, lake: Lake) -> dict[str, bytes]:
    """Return the verified files of a version's state, by the names they had when they were written."""
    return state_files(version.content, files_of(version, lake))


def state_files(content: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return files that a manifest of this content names, by the names they had when they were written."""
    tables = {f"{table_of(name)}.parquet": data for name, data in files.items()}
    return {**tables, "state.json": canonical_json(content["state"]).encode()}
