"""Views of versions published before something was told of them are completed: tags and descriptions, nothing else."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ptkstore.adapters.feast.backends import Definition, RegistryDatabase
from ptkstore.adapters.feast.computed import computed_name
from ptkstore.adapters.feast.default_views import FILLS_TAG
from ptkstore.adapters.feast.names import PTK_VERSION_TAG, view_name
from ptkstore.adapters.feast.views import PTK_TAG
from ptkstore.domain.versions.provenance import Provenance

TOLD = frozenset(Provenance().tags())
"""The tags that each view has which tells all there is to tell."""

_COPY = re.compile(r".*__v(\d{1,9})")


@dataclass(frozen=True, slots=True)
class _Lacking:
    """A definition without some of these tags, and the version that it is of."""

    ptk_id: str
    version: int
    definition: Definition


def untold(database: RegistryDatabase, ptk_ids: Collection[str]) -> dict[str, tuple[int, ...]]:
    """Versions of these PTKs whose definitions lack tags."""
    found: dict[str, set[int]] = {}
    for one in _lacking(database, ptk_ids):
        found.setdefault(one.ptk_id, set()).add(one.version)
    return {ptk_id: tuple(sorted(numbers)) for ptk_id, numbers in found.items()}


def tell(database: RegistryDatabase, ptk_id: str, made: Mapping[int, Provenance]) -> None:
    """Complete the definitions of these versions in one commit; what they have stays. Needs the write lock."""
    changed = []
    for one in _lacking(database, [ptk_id]):
        if (told := made.get(one.version)) is None:
            continue
        spec = one.definition.message.spec
        for name, value in told.tags().items():
            if name not in spec.tags:
                spec.tags[name] = value
        spec.description = told.described(spec.description)
        changed.append(one.definition)
    database.rewrite(changed)


def _lacking(database: RegistryDatabase, ptk_ids: Collection[str]) -> list[_Lacking]:
    bases = {view_name(ptk_id, "", 1): ptk_id for ptk_id in ptk_ids}
    known = list(database.definitions(next(iter(bases)) if len(bases) == 1 else ""))
    views: dict[str, str] = {}
    newest: dict[str, int] = {}
    for one in known:
        tags = one.message.spec.tags
        if (ptk_id := tags.get(PTK_TAG)) in bases.values() and PTK_VERSION_TAG in tags:
            views[one.name] = str(ptk_id)
            if not one.pinned:
                newest[str(ptk_id)] = max(newest.get(str(ptk_id), 0), int(tags[PTK_VERSION_TAG]))
    together = {**bases, **{computed_name(base): ptk_id for base, ptk_id in bases.items()}}
    lacking = []
    for one in known:
        tags = one.message.spec.tags
        if set(tags) >= TOLD:
            continue
        if PTK_VERSION_TAG in tags and one.name in views:
            lacking.append(_Lacking(views[one.name], int(tags[PTK_VERSION_TAG]), one))
            continue
        owner = views.get(tags[FILLS_TAG]) if FILLS_TAG in tags else together.get(one.name)
        if owner is not None and owner in newest:
            copy = _COPY.fullmatch(one.name)
            lacking.append(_Lacking(owner, int(copy[1]) if copy else newest[owner], one))
    return lacking
