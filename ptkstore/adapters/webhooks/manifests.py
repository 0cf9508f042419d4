"""The place of a version's manifest for the reader of a message: the HTTP API, by its public address."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class ApiManifests:
    """The route of the HTTP API that serves manifests, to tokens that may read the PTK's states."""

    public_url: str

    def manifest_url(self, ptk_id: str, number: int) -> str:
        """Return the address of a version's manifest."""
        return f"{self.public_url.rstrip('/')}/v1/ptks/{quote(ptk_id, safe='')}/versions/{number}/manifest"
