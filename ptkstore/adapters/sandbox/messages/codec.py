"""Dataclasses as JSON and back, by the types of their fields: bytes travel as base64, enumerations by their values."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from math import isfinite
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


def to_json(value: object) -> bytes:
    """Write a value; `ValueError` for a number that JSON does not have."""
    return json.dumps(_plain(value), allow_nan=False).encode()


def from_json(expected: Any, document: bytes) -> Any:
    """Read what `to_json` wrote of a value of the expected type.

    The members of a union have to differ in the names of their fields.

    Raises
    ------
    ValueError
        The document is anything else. The error says nothing more: what was read may be secret.
    """
    try:
        return _typed(expected, json.loads(document, parse_constant=_refuse, parse_float=_finite))
    except (ValueError, RecursionError):
        raise ValueError from None


def _refuse(constant: str) -> float:
    raise ValueError


def _finite(number: str) -> float:
    value = float(number)
    return value if isfinite(value) else _refuse(number)


def _plain(value: object) -> object:
    match value:
        case bytes():
            return b64encode(value).decode()
        case Mapping():
            return {name: _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return value


def _typed(expected: Any, plain: Any) -> Any:
    origin, parts = get_origin(expected), get_args(expected)
    if expected is Any:
        return plain
    if origin in (Union, UnionType):
        return _first(parts, plain)
    if isinstance(expected, type) and is_dataclass(expected):
        hints = _hints(expected)
        if _exactly(dict, plain).keys() != hints.keys():
            raise ValueError
        return expected(**{name: _typed(hint, plain[name]) for name, hint in hints.items()})
    if origin is Mapping:
        return {name: _typed(parts[1], one) for name, one in _exactly(dict, plain).items()}
    if origin is tuple:
        items = _exactly(list, plain)
        members = parts[:1] * len(items) if parts[-1] is ... else parts
        return tuple(_typed(member, one) for member, one in zip(members, items, strict=True))
    if expected is bytes:
        return b64decode(_exactly(str, plain), validate=True)
    if issubclass(expected, Enum):
        return expected(plain)
    return plain if expected is float and type(plain) is int else _exactly(expected, plain)


def _first(members: tuple[Any, ...], plain: Any) -> Any:
    """Return the value as the first member of a union that it fits."""
    for member in members:
        try:
            return _typed(member, plain)
        except ValueError:
            continue
    raise ValueError


def _exactly(kind: type, plain: Any) -> Any:
    """Return the value itself, if it is of this very type: a bool is no number here."""
    if type(plain) is not kind:
        raise ValueError
    return plain


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
