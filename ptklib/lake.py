"""Reading one published version of the lake, verified by size and hash."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptklib.exceptions import CorruptStateError
from ptklib.state import ReleasedState, read_json

MANIFEST_FILE = "manifest.json"
MANIFEST_FORMAT_VERSION = 1
_MANIFEST_MAX = 256 * 2**20
_FILE = re.compile(r"([A-Za-z][A-Za-z0-9_]{0,62})-([0-9a-f]{64})\.parquet")


def load_state(path_or_url: str | Path) -> ReleasedState:
    """Return the state of a version directory ``<lake>/ptks/<ptk_id>/v<8 digits>/``.

    Parameters
    ----------
    path_or_url : str or Path
        A local directory, or a URL with a scheme (``s3://...``) that fsspec can open.

    Raises
    ------
    FileNotFoundError
        When there is no manifest: nothing was published there. `ReleasedState.load` reads what
        `ReleasedState.save` wrote.
    CorruptStateError
        When a file is missing, additional, of another size or hash than the manifest says, or not readable.

    Notes
    -----
    Only the manifest and the files it names are read, and no byte is parsed before its hash was checked. The
    manifest itself is trusted as far as its place is.
    """
    root = str(path_or_url)
    manifest = read_json(_read(root, MANIFEST_FILE, _MANIFEST_MAX))
    if not isinstance(manifest, Mapping) or manifest.get("format_version") != MANIFEST_FORMAT_VERSION:
        raise CorruptStateError(
            f"unknown manifest format_version: this library reads {MANIFEST_FORMAT_VERSION}"
        )
    entries = manifest.get("files")
    if not isinstance(entries, list):
        raise CorruptStateError("the manifest lists no files")
    tables: dict[str, bytes] = {}
    for entry in entries:
        table, size, sha256 = _checked_entry(entry)
        if table in tables:
            raise CorruptStateError("the manifest lists a table twice")
        try:
            data = _read(root, entry["name"], size)
        except FileNotFoundError:
            raise CorruptStateError(f"a file of table {table!r} is missing") from None
        if len(data) != size or hashlib.sha256(data).hexdigest() != sha256:
            raise CorruptStateError(f"a file of table {table!r} is not the one that was published")
        tables[table] = data
    return ReleasedState.from_parts(tables, manifest.get("state"), is_read=True)


def _checked_entry(entry: Any) -> tuple[str, int, str]:
    if not isinstance(entry, Mapping):
        raise CorruptStateError("the manifest has a malformed file entry")
    name, size, sha256 = entry.get("name"), entry.get("size"), entry.get("sha256")
    match = _FILE.fullmatch(name) if isinstance(name, str) else None
    if match is None or match[2] != sha256:
        raise CorruptStateError("the manifest names a file that is not <table>-<sha256>.parquet")
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise CorruptStateError("the manifest has a file of malformed size")
    return match[1], size, match[2]


def _read(root: str, name: str, most: int) -> bytes:
    """Read one file, at most one byte more than expected."""
    if "://" in root:
        import fsspec  # an extra of the service; local lakes need none of it

        with fsspec.open(f"{root.rstrip('/')}/{name}", "rb") as remote:
            data: bytes = remote.read(most + 1)
    else:
        with (Path(root) / name).open("rb") as local:
            data = local.read(most + 1)
    if name == MANIFEST_FILE and len(data) > most:
        raise CorruptStateError("the manifest is too large")
    return data
