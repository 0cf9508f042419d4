"""Checks of what a lookup asks for: they name the usual slips before anything is looked up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ptkstore.errors import InvalidRequest

_FEATURES = "features is a list of texts, such as ['taxi__speed:speed_mean']"
_ENTITIES = "entities is a list with one mapping per row, such as [{'hour': 8}]"


def features_asked(features: Any) -> list[str]:
    """Return references as a list, or raise `InvalidRequest`."""
    if isinstance(features, str):
        raise InvalidRequest(f"{_FEATURES}; for one feature write [{features!r}]")
    names = _listed(features, _FEATURES)
    if wrong := [one for one in names if not isinstance(one, str)]:
        raise InvalidRequest(f"{_FEATURES}, not of {type(wrong[0]).__name__}")
    return names


def entities_asked(entities: Any) -> list[Mapping[str, Any]]:
    """Return rows of join keys as a list, or raise `InvalidRequest`; what that says holds no value of a key."""
    if isinstance(entities, Mapping):
        raise InvalidRequest(f"{_ENTITIES}; put this one mapping into a list")
    if hasattr(entities, "to_dict"):
        raise InvalidRequest(f"{_ENTITIES}; of a DataFrame these are frame.to_dict('records')")
    rows = _listed(entities, _ENTITIES)
    for kind in set(map(type, rows)):  # nearly always dict alone: a lookup takes microseconds
        if not issubclass(kind, Mapping):
            raise InvalidRequest(f"{_ENTITIES}, not of {kind.__name__}")
    return rows


def _listed(given: Any, form: str) -> list[Any]:
    if isinstance(given, list):
        return given
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidRequest(f"{form}, no {type(given).__name__}")
    return list(given)
