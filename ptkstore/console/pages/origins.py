"""The origin of a version, in layers: windows, the versions that it was made from, and the version itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ptkstore.errors import UnknownName
from ptkstore.sdk.documents.lineage import Ancestor, lineage_of

ANCESTORS_MOST = 40


@dataclass(frozen=True, slots=True)
class Origins:
    """`layers` are the versions that one was made from, the farthest first; `cut` says that there are more."""

    oldest: str
    newest: str
    stream: str
    layers: tuple[tuple[Ancestor, ...], ...]
    cut: bool


def origins_of(
    ptk_id: str, content: Mapping[str, Any], manifest: Callable[[str, int], Mapping[str, Any]]
) -> Origins:
    """Find what a version was made from; at most `ANCESTORS_MOST` manifests are read.

    Parameters
    ----------
    manifest : callable
        The manifest of a version; `UnknownName` where there is none, or the reader may not read it.
    """
    number, read = int(content["version"]), 0

    def limited(one: str, other: int) -> Mapping[str, Any]:
        nonlocal read
        if (one, other) == (ptk_id, number):
            return content
        read += 1
        if read > ANCESTORS_MOST:
            raise UnknownName("version", f"{one} v{other}")
        return manifest(one, other)

    found = lineage_of(ptk_id, number, limited) if content.get("made_from") else ()
    by_name = {f"{one.ptk_id} v{one.version}": one for one in found}
    depth = {f"{ptk_id} v{number}": 0}
    for one in found:  # descendants come first
        own = depth.get(f"{one.ptk_id} v{one.version}", 0)
        for origin in one.made_from:
            depth.setdefault(origin, own + 1)
    deepest = max((depth[name] for name in by_name), default=0)
    layers = tuple(
        tuple(one for name, one in by_name.items() if depth[name] == level) for level in range(deepest, 0, -1)
    )
    windows = [content.get(f"{age}_contributing_window") or {} for age in ("oldest", "newest")]
    return Origins(
        str(windows[0].get("start", "")),
        str(windows[1].get("end", "")),
        str(windows[1].get("stream", "")),
        layers,
        read > ANCESTORS_MOST,
    )
