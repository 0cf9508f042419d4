"""Completes the tags and descriptions of views that earlier releases published without their provenance."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ptkstore.adapters.feast.backends import Definition, RegistryDatabase
from ptkstore.adapters.feast.names import computed_name, view_name
from ptkstore.adapters.feast.tags import FILLS_TAG, PTK_TAG, PTK_VERSION_TAG
from ptkstore.domain.versions.provenance import Provenance

PROVENANCE_TAGS = frozenset(Provenance().tags())
"""The tags of every view that says how its values were made."""

_COPY = re.compile(r".*__v(\d{1,9})")


@dataclass(frozen=True, slots=True)
class _Lacking:
    """A definition without some of these tags, and the version that it is of."""

    ptk_id: str
    version: int
    definition: Definition


def without_provenance(database: RegistryDatabase, ptk_ids: Collection[str]) -> dict[str, tuple[int, ...]]:
    """Find the versions of these PTKs whose definitions lack tags."""
    numbers_by_ptk: dict[str, set[int]] = {}
    for one in _lacking(database, ptk_ids):
        numbers_by_ptk.setdefault(one.ptk_id, set()).add(one.version)
    return {ptk_id: tuple(sorted(numbers)) for ptk_id, numbers in numbers_by_ptk.items()}


def add_provenance(database: RegistryDatabase, ptk_id: str, made: Mapping[int, Provenance]) -> None:
    """Complete the definitions of these versions in one commit; what they have stays. Needs the write lock."""
    changed = []
    for one in _lacking(database, [ptk_id]):
        if (provenance := made.get(one.version)) is None:
            continue
        spec = one.definition.message.spec
        for name, value in provenance.tags().items():
            if name not in spec.tags:
                spec.tags[name] = value
        spec.description = provenance.described(spec.description)
        changed.append(one.definition)
    database.rewrite(changed)


def _lacking(database: RegistryDatabase, ptk_ids: Collection[str]) -> list[_Lacking]:
    bases = {view_name(ptk_id, "", 1): ptk_id for ptk_id in ptk_ids}
    definitions = list(database.definitions(next(iter(bases)) if len(bases) == 1 else ""))
    views: dict[str, str] = {}
    newest: dict[str, int] = {}
    for one in definitions:
        tags = one.message.spec.tags
        if (ptk_id := tags.get(PTK_TAG)) in bases.values() and PTK_VERSION_TAG in tags:
            views[one.name] = str(ptk_id)
            if one.version is None:
                newest[str(ptk_id)] = max(newest.get(str(ptk_id), 0), int(tags[PTK_VERSION_TAG]))
    together = {**bases, **{computed_name(base): ptk_id for base, ptk_id in bases.items()}}
    lacking = []
    for one in definitions:
        tags = one.message.spec.tags
        if set(tags) >= PROVENANCE_TAGS:
            continue
        if PTK_VERSION_TAG in tags and one.name in views:
            lacking.append(_Lacking(views[one.name], int(tags[PTK_VERSION_TAG]), one))
            continue
        owner = views.get(tags[FILLS_TAG]) if FILLS_TAG in tags else together.get(one.name)
        if owner is not None and owner in newest:
            copy = _COPY.fullmatch(one.name)
            lacking.append(_Lacking(owner, int(copy[1]) if copy else newest[owner], one))
    return lacking
