"""Lookups past every cache: the served version from the registry, its rows from the online store."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ptkstore.adapters.feast import online, versions
from ptkstore.adapters.feast.names import (
    PROJECT,
    STATE_VIEW,
    asked_as,
    is_computed,
    is_filled,
    parse_reference,
)
from ptkstore.adapters.feast.session import Session
from ptkstore.adapters.feast.tags import assured_by_tags
from ptkstore.adapters.feast.values import entity_key, key_value, python_value
from ptkstore.domain.accounting.assurances import Assured
from ptkstore.errors import InvalidRequest, UnknownName
from ptkstore.ports.features import Answers

if TYPE_CHECKING:
    from feast import FeatureView
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey

    from ptkstore.adapters.feast.packed import PackedRedisOnlineStore
    from ptkstore.adapters.feast.packed.direct import Part


Check = Callable[["FeatureView", Sequence["EntityKey"]], None]


def look_up(
    session: Session, features: Sequence[str], entities: Sequence[Mapping[str, Any]], check: Check
) -> Answers:
    """Return one mapping of feature name to value per entity row; all features of one view are of one version.

    `check` is called with a view that has no row of any of these entities, and with their keys.
    """
    by_view = grouped(features)
    names = [name for wanted in by_view.values() for name in wanted]
    answer = [dict.fromkeys(names) for _ in entities]
    assured: dict[str, Assured] = {}
    for (name, version), wanted in by_view.items():
        view = resolved(session, name, version, wanted)
        if name != STATE_VIEW:
            assured[asked_as(name, version)] = assured_by_tags(view.tags)
        keys = [_key(view, entity) for entity in entities]
        if not keys:
            continue
        from ptkstore.adapters.feast.backends import FOREIGN, foreign_rows

        try:
            values = [
                {feature: python_value(cells[feature]) for feature in wanted if feature in cells}
                for cells in online.read_rows(session, view, keys, wanted)
            ]
        except FOREIGN:
            raise foreign_rows() from None
        for row, cells in zip(answer, values, strict=True):
            row.update(cells)
        if all(value is None for cells in values for value in cells.values()):
            check(view, keys)
    return Answers(answer, assured)


def through_feast(
    session: Session, features: Sequence[str], entities: Sequence[Mapping[str, Any]]
) -> Answers:
    """Look up by Feast itself, which computes views that are computed on demand."""
    from feast.errors import FeastError, FeatureViewNotFoundException

    views = grouped(features)
    names = [name for wanted in views.values() for name in wanted]
    if not entities:
        return Answers()
    failed: Exception
    try:
        with online.one_thread(session):
            _read_registry(session)
            response = session.store.get_online_features(list(features), [dict(row) for row in entities])
            assured = {asked_as(*one): _assured(session, *one) for one in views if one[0] != STATE_VIEW}
        columns = response.to_dict()
        rows = [{name: columns[name][row] for name in names} for row in range(len(entities))]
        return Answers(rows, assured)
    except FeatureViewNotFoundException:
        failed = UnknownName("feature view", ", ".join(sorted({name for name, _ in views})))
    except (FeastError, KeyError, ValueError, TypeError):  # their texts quote what was asked with
        failed = InvalidRequest("these features need other keys, or numbers sent along, than were given")
    raise failed


def _assured(session: Session, view: str, version: int | None) -> Assured:
    """Return the assurance in the tags of a view that Feast has just read."""
    from feast.errors import FeatureViewNotFoundException

    if is_filled(view) or is_computed(view):
        with suppress(FeatureViewNotFoundException):  # a table may have such a name
            computed = session.registry.get_on_demand_feature_view(view, PROJECT, allow_cache=True)
            return assured_by_tags(computed.tags)
    return assured_by_tags(resolved(session, view, version, ()).tags)


def _read_registry(session: Session) -> None:
    """Feast's own refresh, but one that fails when it fails, and with a mark in what was read.

    Feast 0.67 tells what it has read of registries apart by their addresses in memory and this mark, which it leaves
    empty.
    """
    registry: Any = session.registry
    read = registry.proto()
    read.version_id = secrets.token_hex(8)
    registry.cached_registry_proto = read
    registry.cached_registry_proto_created = datetime.now(UTC)


def grouped(features: Sequence[str]) -> dict[tuple[str, int | None], list[str]]:
    """Group references by view and version, or raise `InvalidRequest`."""
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
    """Read the view from the registry, or raise `UnknownName` for it or for a feature."""
    if version is None:
        view = versions.served_view(session, name)
    else:
        view = versions.pinned_view(session, name, version)
    if view is None:
        raise UnknownName("feature view", asked_as(name, version))
    names = {feature.name for feature in view.features}
    for feature in features:
        if feature not in names:
            raise UnknownName("feature", f"{name}:{feature}")
    return view


def parts_of(
    session: Session, packed: PackedRedisOnlineStore, features: Sequence[str]
) -> tuple[Part, ...] | None:
    """Resolve a request in the registry; None if one of its views is not to be read directly."""
    from ptkstore.adapters.feast.packed.direct import part_of

    views = grouped(features)
    if on_demand(views):
        return None
    parts = []
    for (name, version), wanted in views.items():
        view = resolved(session, name, version, wanted)
        part = part_of(packed.hash_key(session.config, view), view, wanted, newest=version is None)
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


def on_demand(views: Iterable[tuple[str, int | None]]) -> bool:
    """Tell whether one of the views is computed by Feast where it is read."""
    return any(is_filled(name) or is_computed(name) for name, _ in views)


def _key(view: FeatureView, entity: Mapping[str, Any]) -> EntityKey:
    from feast.types import Int64

    fields = {field.name: field.dtype for field in view.entity_columns}
    if missing := [name for name in fields if name not in entity]:
        raise InvalidRequest(f"{view.name} is looked up by {list(fields)}; {missing} missing")
    values = tuple(key_value(view.name, name, dtype == Int64, entity[name]) for name, dtype in fields.items())
    return entity_key(tuple(fields), values)
