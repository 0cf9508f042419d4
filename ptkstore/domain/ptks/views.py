"""Names of the feature views that PTKs are served by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # plain Feast loads this module, and little else of ours
    from ptkstore.domain.ptks.ptks import PtkSpec

STATE_VIEW = "ptk_state"
"""Tells of the newest version of every PTK. No view of a PTK is named so: theirs hold `__`."""


def base_view(ptk_id: str) -> str:
    """Return `<team>__<name>`: the only view of a PTK with one table, and what the names of several begin with."""
    return ptk_id.replace(".", "__")


def views_of(spec: PtkSpec) -> dict[str, str]:
    """Return the views of a PTK, each with its table."""
    base = base_view(spec.ptk_id)
    if len(spec.tables) == 1:
        return {base: next(iter(spec.tables))}
    return {f"{base}__{table}": table for table in spec.tables}


def all_views(specs: Iterable[PtkSpec]) -> list[str]:
    """Return every view that there is of a store with these PTKs."""
    return [STATE_VIEW, *(view for spec in specs for view in views_of(spec))]


def columns_of(spec: PtkSpec, table: str) -> tuple[str, ...]:
    """Return the features in a table of a PTK."""
    form = spec.tables[table]
    return tuple(name for name, _ in form["columns"] if name not in form["keys"])


def features_of(specs: Iterable[PtkSpec]) -> list[str]:
    """Return the features of PTKs, as `view:feature`."""
    return [
        f"{view}:{name}"
        for spec in specs
        for view, table in views_of(spec).items()
        for name in columns_of(spec, table)
    ]
