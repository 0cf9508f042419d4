"""The model that devices train: by a registration, and by the versions that it made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ptkstore.domain.ptks.start_from import StartFrom
from ptkstore.domain.versions.provenance import is_local


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """A model that devices train; two are the same if both parts are.

    Parameters
    ----------
    specification : str
        Digest of the specification for devices.
    start_from : StartFrom or None
        The central version that it began with.
    """

    specification: str
    start_from: StartFrom | None

    @classmethod
    def of_version(cls, manifest: Mapping[str, Any]) -> Self | None:
        """Return the model of a version; None if devices did not train it."""
        if not is_local(manifest):
            return None
        return cls(manifest["guarantee"]["specification"], StartFrom.of(manifest))
