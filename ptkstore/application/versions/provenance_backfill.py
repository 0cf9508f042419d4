"""Let views of versions published by an earlier program tell how their values were made."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ptkstore.domain.versions.provenance import Provenance, provenance_in
from ptkstore.errors import CorruptObject, UnknownName
from ptkstore.ports.catalog import Read
from ptkstore.ports.features import FeatureStore


def publish_provenance(ptk_ids: Sequence[str], *, read: Read, features: FeatureStore) -> tuple[str, ...]:
    """Complete the views of these PTKs by what the catalog's manifests say; the PTKs that were incomplete.

    If the catalog no longer has a version, or its manifest cannot be read, its facts are unknown. Repeatable.
    """
    published = []
    for ptk_id, numbers in sorted(features.without_provenance(ptk_ids).items()):
        made = {number: _provenance(ptk_id, number, read) for number in numbers}
        features.add_provenance(ptk_id, made)
        published.append(ptk_id)
    return tuple(published)


def _provenance(ptk_id: str, number: int, read: Read) -> Provenance:
    with suppress(CorruptObject, UnknownName, ValueError), read() as uow:
        return provenance_in(uow.versions.get(ptk_id, number).content, ptk_id)
    return Provenance()
