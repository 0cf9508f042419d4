"""Lookups past every cache: the served version from the registry, its rows from the online store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ptkstore.adapters.feast import flips, online
from ptkstore.adapters.feast.names import parse_reference
from ptkstore.adapters.feast.session import Session
from ptkstore.adapters.feast.values import entity_key, key_value, python_value
from ptkstore.errors import InvalidRequest, UnknownName

if TYPE_CHECKING:
    from feast import FeatureView
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey


def look_up(
    session: Session, features: Sequence[str], entities: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """One mapping of feature name to value per entity row; all features of one view are of one version."""
    by_view = grouped(features)
    names = [name for wanted in by_view.values() for name in wanted]
    answer: list[dict[str, Any]] = [dict.fromkeys(names) for _ in entities]
    for (name, version), wanted in by_view.items():
        view = resolved(session, name, version, wanted)
        keys = [_key(view, entity) for entity in entities]
        if not keys:
            continue
        for row, cells in zip(answer, online.read_rows(session, view, keys, wanted), strict=True):
            row.update({feature: python_value(cells[feature]) for feature in wanted if feature in cells})
    return answer


def grouped(features: Sequence[str]) -> dict[tuple[str, int | None], list[str]]:
    """References by view and version, or `InvalidRequest`."""
    if isinstance(features, str) or not features:
        raise InvalidRequest("name at least one feature, as a list of 'view:feature'")
    references = list(dict.fromkeys(parse_reference(text) for text in features))
    names = [reference.feature for reference in references]
    if len(set(names)) < len(names):
        raise InvalidRequest("two of the features share a name; look them up one at a time")
    by_view: dict[tuple[str, int | None], list[str]] = {}
    for reference in references:
        by_view.setdefault((reference.view, reference.version), []).append(reference.feature)
    return by_view


def resolved(session: Session, name: str, version: int | None, features: Sequence[str]) -> FeatureView:
    """The view as the registry has it now, or `UnknownName` for it or for a feature."""
    if version is None:
        view = flips.served_view(session, name)
    else:
        view = flips.pinned_view(session, name, version)
    if view is None:
        raise UnknownName("feature view", name if version is None else f"{name}@v{version}")
    known = {feature.name for feature in view.features}
    for feature in features:
        if feature not in known:
            raise UnknownName("feature", f"{name}:{feature}")
    return view


def _key(view: FeatureView, entity: Mapping[str, Any]) -> EntityKey:
    from feast.types import Int64

    fields = {field.name: field.dtype for field in view.entity_columns}
    if missing := [name for name in fields if name not in entity]:
        raise InvalidRequest(f"{view.name} is looked up by {list(fields)}; {missing} missing")
    values = tuple(key_value(view.name, name, dtype == Int64, entity[name]) for name, dtype in fields.items())
    return entity_key(tuple(fields), values)
