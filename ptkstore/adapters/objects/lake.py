"""The lake: published versions, written once and verified by hash on every read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ptkstore.adapters.objects.names import checked_token
from ptkstore.adapters.objects.places import place_at
from ptkstore.domain.names import split_ptk_id
from ptkstore.domain.versions.versions import FORMAT_VERSION, PROBE, PTKS, StateFile, Version, version_path
from ptkstore.errors import CorruptObject, InvalidRequest, InvariantBroken, UnknownName

MANIFEST = "manifest.json"


class FsspecLake:
    """`Lake` below a path or URL that everyone may read; conditional puts make it safe on S3."""

    def __init__(self, url: str) -> None:
        self._place = place_at(url, private=False)

    def put_version(self, version: Version, files: Mapping[str, bytes]) -> None:
        """Place content files, then the manifest, each created exclusively.

        Raises `CorruptObject`, before anything is written, if `files` are not what the manifest names.
        """
        folder = _folder(version.ptk_id, version.number)
        manifest = version.manifest.encode()
        _check_files(_listed(_parsed(manifest, version.ptk_id, version.number)), files)
        self._place.clean(folder)
        for name, content in files.items():
            self._create(f"{folder}/{name}", content)
        self._create(f"{folder}/{MANIFEST}", manifest)

    def holds(self, version: Version) -> bool:
        """Tell whether this very manifest is in its place."""
        try:
            stored = self._place.read(_manifest_path(version.ptk_id, version.number))
        except FileNotFoundError:
            return False
        return stored == version.manifest.encode()

    def settle(self, version: Version) -> None:
        """Have a manifest that is in its place last there, as `put_version` does."""
        self._create(_manifest_path(version.ptk_id, version.number), version.manifest.encode())

    def read_version(self, ptk_id: str, number: int) -> tuple[dict[str, object], dict[str, bytes]]:
        """Read manifest and files, every byte of the files verified against the manifest."""
        folder, manifest = _folder(ptk_id, number), self.manifest(ptk_id, number)
        if manifest is None:
            raise UnknownName("version", f"{ptk_id} v{number}")
        listed = _listed(manifest)
        try:
            files = {file.name: self._place.read(f"{folder}/{file.name}") for file in listed}
        except FileNotFoundError:
            raise CorruptObject(
                f"version {number} of {ptk_id} lacks a file that its manifest names"
            ) from None
        _check_files(listed, files)
        return manifest, files

    def ptk_ids(self) -> tuple[str, ...]:
        """Return the PTKs of which anything was placed."""
        ptk_ids = []
        for name in self._place.folders(PTKS):
            with suppress(InvalidRequest):  # a folder that somebody else made
                split_ptk_id(name)
                ptk_ids.append(name)
        return tuple(ptk_ids)

    def check_writable(self) -> None:
        """Write a file that nobody reads; raises what a failing store raises."""
        self._place.probe(PROBE)

    def ages(self) -> dict[str, float]:
        """Return the ages in seconds of all files of the lake."""
        return self._place.ages("")

    def manifest(self, ptk_id: str, number: int) -> dict[str, object] | None:
        """Read the manifest of a version; None if there is none."""
        try:
            return _parsed(self._place.read(_manifest_path(ptk_id, number)), ptk_id, number)
        except FileNotFoundError:
            return None

    def listed(self, ptk_id: str, number: int) -> frozenset[str] | None:
        """Return the names of a version's files, manifest included; None if there is no manifest."""
        manifest = self.manifest(ptk_id, number)
        return None if manifest is None else frozenset({MANIFEST, *(file.name for file in _listed(manifest))})

    def remove(self, path: str) -> None:
        """Delete one file; for what no manifest names."""
        self._place.remove(path)

    def manifest_url(self, ptk_id: str, number: int) -> str:
        """Return the address of a version's manifest, as fsspec understands it."""
        address = self._place.address(_manifest_path(ptk_id, number))
        return address if "://" in address else f"file://{address}"

    def _create(self, path: str, content: bytes) -> None:
        if not self._place.create(path, content) and self._place.read(path) != content:
            raise InvariantBroken(f"the lake has other bytes at {path}; a version is never written twice")


def _folder(ptk_id: str, number: int) -> str:
    split_ptk_id(ptk_id)
    if type(number) is not int or not 1 <= number < 10**8:
        raise InvalidRequest("a version is a whole number from 1 to 99999999")
    return version_path(ptk_id, number)


def _manifest_path(ptk_id: str, number: int) -> str:
    return f"{_folder(ptk_id, number)}/{MANIFEST}"


def _parsed(text: bytes, ptk_id: str, number: int) -> dict[str, Any]:
    """Parse the manifest, if it is one and describes this very version."""
    manifest: dict[str, Any] = {}
    with suppress(ValueError):
        parsed = json.loads(text)
        manifest = parsed if isinstance(parsed, dict) else {}
    version = manifest.get("version")
    if manifest.get("ptk_id") != ptk_id or type(version) is not int or version != number:
        raise CorruptObject(f"the manifest of version {number} of {ptk_id} is not one of that version")
    if manifest.get("format_version") != FORMAT_VERSION:
        raise CorruptObject(
            f"the manifest of version {number} of {ptk_id} has a format that this release does not know"
        )
    return manifest


def _listed(manifest: Mapping[str, Any]) -> tuple[StateFile, ...]:
    try:
        files = tuple(StateFile(file["name"], file["size"], file["sha256"]) for file in manifest["files"])
        names = {checked_token("file name", file.name) for file in files}
    except (KeyError, TypeError, InvalidRequest):
        raise CorruptObject("a manifest does not list its files as it should") from None
    if len(names) != len(files) or MANIFEST in names:
        raise CorruptObject("a manifest lists a file twice or lists itself")
    return files


def _check_files(listed: Sequence[StateFile], files: Mapping[str, bytes]) -> None:
    if {file.name for file in listed} != set(files):
        raise CorruptObject("the files of a version are not those that its manifest names")
    for file in listed:
        content = files[file.name]
        if len(content) != file.size or hashlib.sha256(content).hexdigest() != file.sha256:
            raise CorruptObject(f"file {file.name} differs from its hash in the manifest")
