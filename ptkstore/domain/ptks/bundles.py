"""Bundles: the code of a team as one archive, named by its content."""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Mapping
from typing import Any

from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.errors import InvalidRequest, TooLarge

TEAM_CODE = "TeamCode"
"""The family of estimators that are described as data and computed by a bundle's code."""

BUNDLES = "bundles"
"""The folder of all bundles, below the lake's root."""

AUDIT_RUNS = 400
"""Trainings per audit at registration: enough to see noise that is missing, not to see half of it."""
BUNDLE_BYTES_MAX = 2**20
BUNDLE_FILES_MAX = 200
DEPTH_MAX = 8
_PATH_MAX = 100
_BLOCK = 512
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_END = bytes(2 * _BLOCK)


def pack(files: Mapping[str, bytes]) -> bytes:
    """Pack these files into their one archive: sorted by path, without times, owners or rights, not compressed.

    Raises
    ------
    InvalidRequest
        A path is none that a bundle can hold, or there are too many or too large files.
    """
    if not 1 <= len(files) <= BUNDLE_FILES_MAX:
        raise InvalidRequest(f"a bundle has 1 to {BUNDLE_FILES_MAX} files")
    paths = sorted(files)
    folded = [path.lower() for path in paths]
    if len(set(folded)) != len(folded):
        raise InvalidRequest("two paths of a bundle differ in upper and lower case alone")
    parts = []
    for path in paths:
        content = files[path]
        parts += [_header(path, len(content)), content, bytes(-len(content) % _BLOCK)]
    packed = b"".join([*parts, _END])
    if len(packed) > BUNDLE_BYTES_MAX:
        raise TooLarge(
            f"a bundle has at most {BUNDLE_BYTES_MAX} bytes; leave data out, or files that no code needs"
        )
    return packed


def unpack(content: bytes) -> dict[str, bytes]:
    """Return the files of an archive, provided that it is byte for byte what `pack` makes of them.

    So it contains no link, no device, no path that leads out of it, nothing twice, nothing behind its end, and is not
    larger when it is unpacked.

    Raises
    ------
    InvalidRequest
        It is not.
    """
    if len(content) > BUNDLE_BYTES_MAX:
        raise TooLarge(f"a bundle has at most {BUNDLE_BYTES_MAX} bytes")
    files: dict[str, bytes] = {}
    place = 0
    try:
        while content[place : place + _BLOCK].strip(b"\0"):
            header = content[place : place + _BLOCK]
            path = header[:_PATH_MAX].rstrip(b"\0").decode("ascii")
            size = int(header[124:135], 8)
            if path in files or len(files) >= BUNDLE_FILES_MAX or _header(path, size) != header:
                raise ValueError
            start = place + _BLOCK
            files[path] = content[start : start + size]
            place = start + size + -size % _BLOCK
        if pack(files) != content:
            raise ValueError
    except (ValueError, InvalidRequest):
        raise InvalidRequest(
            "the bundle is no archive as this project packs it: sorted plain files, without links or times"
        ) from None
    return files


def sha256_of(content: bytes) -> str:
    """Return the hash of a bundle's content, which is its name."""
    return hashlib.sha256(content).hexdigest()


def bundle_path(sha256: str) -> str:
    """Return the place of a bundle below the lake's root."""
    return f"{BUNDLES}/{checked_sha256(sha256)}.tar"


def checked_sha256(text: object) -> str:
    """Return `text`, or raise `InvalidRequest` unless it can name a bundle."""
    if not isinstance(text, str) or _SHA256.fullmatch(text) is None:
        raise InvalidRequest("a bundle is named by its SHA-256 in hexadecimal")
    return text


def bundle_of(estimator: Mapping[str, Any]) -> str | None:
    """Return the bundle of an estimator's code; None for one of the library's families.

    Raises
    ------
    InvalidRequest
        It should name one and does not.
    """
    if estimator.get("family") != TEAM_CODE:
        return None
    params = estimator.get("params")
    return checked_sha256(params.get("bundle") if isinstance(params, Mapping) else None)


def assurance_of(estimator: Mapping[str, Any]) -> Assurance:
    """Return how far a declared loss can be relied on: team code is its owner's word."""
    return Assurance.LIBRARY if estimator.get("family") != TEAM_CODE else Assurance.ASSERTED


def is_packable(path: str) -> bool:
    """Return whether a bundle may hold a file of this path."""
    parts = path.split("/")
    return (
        len(path) <= _PATH_MAX
        and len(parts) <= DEPTH_MAX
        and all(_PART.fullmatch(part) is not None for part in parts)
    )


def _header(path: str, size: int) -> bytes:
    if not is_packable(path) or not 0 <= size <= BUNDLE_BYTES_MAX:
        raise InvalidRequest(
            f"{path!r} cannot be in a bundle: paths have up to {_PATH_MAX} letters, digits, _ . - in up to "
            f"{DEPTH_MAX} parts, none of which begins with a dot"
        )
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = size, 0o644
    return entry.tobuf(tarfile.USTAR_FORMAT)
