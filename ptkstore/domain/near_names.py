"""Names that an unknown name may have been meant to be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice, pairwise
from typing import Protocol

from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.ptks.views import all_views, features_of
from ptkstore.errors import PtkStoreError, UnknownName

Names = Callable[[str], Iterable[str]]
"""The names that whoever asked may see, by the name that was asked for."""

_MOST = 2_000
"""Names that are looked at for one that is unknown: each costs some microseconds."""
_COMPARED = 20
"""Names that are compared in full: each costs up to a millisecond."""
_LONGEST = 100
"""Characters of a name beyond which nobody mistypes it."""
_NEWEST = 20
"""Versions of a PTK that are named."""


class _Numbered(Protocol):
    @property
    def number(self) -> int: ...


def near(name: str, candidates: Iterable[str], *, otherwise: str = "") -> str:
    """Return a question for the names that `name` may have been meant to be, or `otherwise`."""
    close = near_names(name, candidates)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else otherwise


def near_names(name: str, candidates: Iterable[str]) -> list[str]:
    """Return up to three names that `name` may have been meant to be, the likeliest first."""
    names = list(islice(candidates, _MOST))
    within = [one for one in names if one.endswith((f".{name}", f"__{name}"))]
    return list(dict.fromkeys([*within, *_alike(name, names)]))[:3]


def _alike(name: str, names: Sequence[str]) -> list[str]:
    """The names most like one; only those that share most pairs of letters with it are compared in full."""
    if len(name) > _LONGEST:
        return []
    pairs = _pairs(name)
    likely = sorted(
        (one for one in names if len(one) <= _LONGEST),
        key=lambda one: -len(pairs & _pairs(one)) / (1 + len(one)),
    )
    return get_close_matches(name, likely[:_COMPARED], cutoff=0.75)


def _pairs(name: str) -> set[str]:
    return set(map("".join, pairwise(name))) | {name[:1]}


def suggest(error: UnknownName, names: Mapping[str, Names]) -> None:
    """Say in an error that has no hint yet which names are near; `names` has them by the kind of thing.

    An error while names are read changes nothing: the first one is what the caller has to hear. A name that is there,
    such as of a version whose files were lost, is not mistyped.
    """
    if error.hint or error.kind not in names:
        return
    try:
        known = tuple(islice(names[error.kind](error.name), _MOST))
    except PtkStoreError:
        return
    if error.name not in known:
        error.hint = near(error.name, known)


def names_of(
    streams: Callable[[], Iterable[str]],
    ptks: Callable[[], Sequence[PtkSpec]],
    versions: Callable[[str], Sequence[_Numbered]],
) -> dict[str, Names]:
    """Return the names of a store by kind, from what whoever asked may see of it."""

    def ptk_ids(_: str) -> list[str]:
        return [spec.ptk_id for spec in ptks()]

    def versions_near(name: str) -> list[str]:
        ptk_id = name.partition(" ")[0]
        if ptk_id not in (ids := ptk_ids(name)):
            return ids
        return [f"{ptk_id} v{one.number}" for one in versions(ptk_id)[-_NEWEST:]]

    return {
        "stream": lambda _: streams(),
        "PTK": ptk_ids,
        "published version of PTK": ptk_ids,
        "version": versions_near,
        "published version": versions_near,
        "feature view": lambda _: all_views(ptks()),
        "feature": lambda _: features_of(ptks()),
    }
