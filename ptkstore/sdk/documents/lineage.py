"""The ancestors of a published state, read from manifests, and the versions that a window went into, as documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ptklib.canonical_json import json_digest
from ptkstore.domain.accounting.assurances import UNKNOWN, Assured, assured_in, assured_of
from ptkstore.domain.fields import fields_of
from ptkstore.errors import UnknownName

if TYPE_CHECKING:
    from ptkstore.application.versions.trace_window import Descendant


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A version among those that a state was made from, itself included.

    `made_from` are the versions whose states went into it directly. `intact` says whether its manifest has the hash by
    which its descendants name it, `assured` why its guarantee is believed.
    """

    ptk_id: str
    version: int
    decision: str
    window_end: str
    made_from: tuple[str, ...]
    intact: bool
    assured: Assured = UNKNOWN


def lineage_of(
    ptk_id: str, number: int, manifest: Callable[[str, int], Mapping[str, Any]]
) -> tuple[Ancestor, ...]:
    """Find a version and all that it was made from, each once, descendants first."""
    waiting = [(ptk_id, number)]
    named: dict[tuple[str, int], set[str]] = {(ptk_id, number): set()}
    ancestors: list[Ancestor] = []
    while waiting:
        one = waiting.pop(0)
        try:
            content = manifest(*one)
        except UnknownName:  # in a lake that somebody has thinned out
            ancestors.append(Ancestor(*one, "unknown", "", (), False))
            continue
        origins = content["made_from"]
        for origin in origins:
            key = (str(origin["ptk_id"]), int(origin["version"]))
            if key not in named:
                waiting.append(key)
            named.setdefault(key, set()).add(str(origin["sha256"]))
        ancestors.append(
            Ancestor(
                *one,
                str(content["release_decision"]),
                str(content["newest_contributing_window"]["end"]),
                tuple(f"{origin['ptk_id']} v{origin['version']}" for origin in origins),
                named[one] <= {json_digest(content)},
                assured_in(content, one[0]),
            )
        )
    return tuple(ancestors)


def ancestor_document(ancestor: Ancestor) -> dict[str, Any]:
    """Write one version that a state was made from."""
    plain = {name: getattr(ancestor, name) for name in ("ptk_id", "version", "decision", "window_end")}
    made_from, assurance = list(ancestor.made_from), ancestor.assured.document()
    return {**plain, "made_from": made_from, "intact": ancestor.intact, **assurance}


def descendant_document(descendant: Descendant) -> dict[str, Any]:
    """Write one version that a window's rows went into."""
    plain = {name: value for name, value in fields_of(descendant).items() if name != "assured"}
    return {**plain, "made_from": list(descendant.made_from), **descendant.assured.document()}


def descendant_of(document: Mapping[str, Any]) -> Descendant:
    """Read the version that `descendant_document` wrote."""
    from ptkstore.application.versions.trace_window import Descendant

    names = ("ptk_id", "version", "window_end", "release_decision", "newest")
    return Descendant(
        **{name: document[name] for name in names},
        made_from=tuple(document["made_from"]),
        assured=assured_of(document),
    )
