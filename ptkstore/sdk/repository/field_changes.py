"""Fields of a registered PTK that a declaration changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ptkstore.domain.ptks.ptks import CONFIG_KEYS, PTK_FIELDS

BESIDE = tuple(one.name for one in PTK_FIELDS if not one.fixed and one.name not in ("estimator", "config"))
"""What may be changed beside estimator and config."""
_OWN = frozenset({"family", *BESIDE, *CONFIG_KEYS})
_ABSENT = object()


@dataclass(frozen=True)
class FieldChange:
    """One field, what is registered and what is declared; None where a side has no such field.

    A field inside another is named with dots, a place in a list with its number: `bounds.speed[1]`. Parameters of the
    estimator are named as they are, or as `estimator.target` where the PTK has a field of that name.
    """

    field: str
    before: Any
    after: Any


def field_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    """Find what differs between two descriptions: `estimator` as a spec, beside it the fields of a declaration."""
    return tuple(_differing("", _named(before), _named(after)))


def _named(described: Mapping[str, Any]) -> dict[str, Any]:
    spec = described["estimator"]
    params = {f"estimator.{name}" if name in _OWN else name: value for name, value in spec["params"].items()}
    kind = {name: value for name, value in spec.items() if name != "params"}
    rest = {name: value for name, value in described.items() if name != "estimator"}
    return {**params, **kind, **rest}


def _differing(field: str, before: Any, after: Any) -> Iterator[FieldChange]:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            inner = f"{field}.{name}" if field else str(name)
            yield from _differing(inner, before.get(name, _ABSENT), after.get(name, _ABSENT))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differing(f"{field}[{place}]", old, new)
    else:
        old, new = (None if value is _ABSENT else value for value in (before, after))
        yield FieldChange(field, old, new)
