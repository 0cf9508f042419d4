"""Files of published versions, verified once and kept while there is room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from ptkstore.wiring import Service


@dataclass(frozen=True, slots=True)
class CachedVersion:
    """A version's manifest, byte for byte, and its files."""

    manifest: bytes
    sha256: str
    files: dict[str, bytes]

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.manifest) + sum(map(len, self.files.values()))


class VersionCache:
    """A cache of what never changes."""

    def __init__(self, service: Service, most_bytes: int) -> None:
        self._service, self._most = service, most_bytes
        self._known: OrderedDict[tuple[str, int], CachedVersion] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, ptk_id: str, number: int) -> CachedVersion:
        """Return a published version; `UnknownName` if there is none, `CorruptObject` if the lake has another."""
        key = (ptk_id, number)
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        _, files = self._service.ptk_version(ptk_id, number)
        version = self._service.version(ptk_id, number)
        state = CachedVersion(version.manifest.encode(), version.sha256, files)
        with self._lock:
            self._known[key] = state
            while sum(one.size for one in self._known.values()) > self._most:
                self._known.popitem(last=False)
        return state
