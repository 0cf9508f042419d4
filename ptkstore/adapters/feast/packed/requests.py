"""A request of `get_online_features`, worked out once: which fields of which hashes answer it.

Unusual requests (on-demand views, request data, aliased keys, values that Feast converts) have no plan and take the
path of every other online store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from feast.value_type import ValueType

from ptkstore.adapters.feast.packed.keys import fields_of
from ptkstore.adapters.feast.packed.layout import Layouts
from ptkstore.adapters.feast.packed.reading import cells_of
from ptkstore.adapters.feast.packed.response import Column, PackedResponse
from ptkstore.adapters.feast.packed.writing import Work, read_several

_KINDS_OF_KEYS = {ValueType.INT64: "q", ValueType.INT32: "i", ValueType.STRING: "s"}
_PLANS_MAX = 512


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One view: its hash, the columns that are its key, the features asked for."""

    hash_key: bytes
    keys: tuple[str, ...]
    key_types: tuple[str, ...]
    features: tuple[str, ...]
    results: tuple[str, ...]
    declared: tuple[ValueType, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All views of a request."""

    tables: tuple[TablePlan, ...]
    key_types: Mapping[str, ValueType]
    other_keys: frozenset[str]


class Plans:
    """The plans of one online store, by the request context that Feast keeps while its registry is unchanged."""

    def __init__(self, hash_key_of: Callable[[Any], bytes]) -> None:
        self._hash_key_of = hash_key_of
        self._plans: dict[int, tuple[Any, Plan | None]] = {}

    def of(self, context: tuple[Any, ...], full_feature_names: bool) -> Plan | None:
        """Return the plan of a request, or None if Feast has to answer it."""
        cached = self._plans.get(id(context))
        if cached is not None and cached[0] is context:
            return cached[1]
        plan = _plan(context, full_feature_names, self._hash_key_of)
        if len(self._plans) >= _PLANS_MAX:
            self._plans.clear()
        self._plans[id(context)] = (context, plan)
        return plan


def _plan(
    context: tuple[Any, ...], full_feature_names: bool, hash_key_of: Callable[[Any], bytes]
) -> Plan | None:
    _, on_demand, names_of_keys, _, join_keys, grouped, _, request_data, without_entity = context
    if on_demand or request_data or without_entity:
        return None
    tables = []
    key_types: dict[str, ValueType] = {}
    for view, requested in grouped:
        types = {field.name: field.dtype.to_value_type() for field in getattr(view, "entity_columns", ())}
        if not types or hasattr(view, "write_to_online_store") or view.projection.join_key_map:
            return None
        if any(declared not in _KINDS_OF_KEYS for declared in types.values()):
            return None
        if any(key_types.setdefault(key, declared) != declared for key, declared in types.items()):
            return None
        declared_of = {field.name: field.dtype.to_value_type() for field in view.features}
        prefix = f"{view.projection.name_to_use()}__" if full_feature_names else ""
        tables.append(
            TablePlan(
                hash_key=hash_key_of(view),
                keys=tuple(sorted(types)),
                key_types=tuple(types[key].name for key in sorted(types)),
                features=tuple(requested),
                results=tuple(f"{prefix}{feature}" for feature in requested),
                declared=tuple(declared_of.get(feature, ValueType.UNKNOWN) for feature in requested),
            )
        )
    others = (frozenset(join_keys) | frozenset(names_of_keys)) - key_types.keys()
    return Plan(tuple(tables), key_types, others)


def key_columns(plan: Plan, entity_rows: object) -> dict[str, list[Any]] | None:
    """Return the key columns of a request, or None if Feast has to look at it (and perhaps to refuse it)."""
    if isinstance(entity_rows, list):
        if not entity_rows or not all(type(row) is dict for row in entity_rows):
            return None
        names = entity_rows[0].keys()
        if any(row.keys() != names for row in entity_rows):
            return None
        columns = {name: [row[name] for row in entity_rows] for name in names}
    elif isinstance(entity_rows, Mapping):
        if not all(isinstance(column, list | tuple) for column in entity_rows.values()):
            return None
        columns = {name: list(column) for name, column in entity_rows.items()}
        if len({len(column) for column in columns.values()}) != 1 or not next(iter(columns.values())):
            return None
    else:
        return None
    if plan.other_keys.intersection(columns) or not columns.keys() >= plan.key_types.keys():
        return None
    return {name: column for name, column in columns.items() if name in plan.key_types}


def fields_by_table(plan: Plan, columns: Mapping[str, list[Any]]) -> list[list[bytes]] | None:
    """Return the fields to read per table, or None if a value is not exactly of its key's type."""
    fields = []
    for table in plan.tables:
        encoded = fields_of([columns[key] for key in table.keys], table.key_types)
        if encoded is None:
            return None
        fields.append(encoded)
    return fields


def answer(
    plan: Plan, columns: Mapping[str, list[Any]], fields: Sequence[Sequence[bytes]], layouts: Layouts
) -> Work:
    """Read the rows of each view and return the response: keys first, then the features of each view."""
    wanted = [(table.hash_key, of) for table, of in zip(plan.tables, fields, strict=True)]
    replies = yield from read_several(wanted, layouts)
    n_rows = len(next(iter(columns.values())))
    results = [
        Column(name, _KINDS_OF_KEYS[plan.key_types[name]], plan.key_types[name], column, [0] * n_rows)
        for name, column in columns.items()
    ]
    for table, rows in zip(plan.tables, replies, strict=True):
        cells = cells_of(rows, table.features, layouts)
        results.extend(
            Column(name, kind, declared, column, cells.micros)
            for name, declared, (kind, column) in zip(
                table.results, table.declared, cells.columns, strict=True
            )
        )
    return PackedResponse(results)
