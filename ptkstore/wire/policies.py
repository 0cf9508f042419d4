"""The fields of a policy in documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import Field, StringConstraints, create_model

from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.fields import Column, Declared, Flag, Moment, OneOf, Share, Span, WholeNumber
from ptkstore.domain.streams.streams import LONGEST, POLICY_FIELDS, Policy
from ptkstore.wire.base import Amount, Exact, Instant, Name, PtkId, Text, Time, Wire

Value = Annotated[str, StringConstraints(max_length=200)] | int | bool

_LONGEST = LONGEST // timedelta(seconds=1)
_ORDER: dict[type[StrEnum], tuple[StrEnum, ...]] = {
    Accountant: (Accountant.RENYI, Accountant.ZCDP, Accountant.BASIC)
}
"""The order in which the OpenAPI document lists the members of an enumeration, where it is not their own."""
_Document = TypeVar("_Document", bound=Wire)

_ASKED_BY_HAND: dict[str, dict[str, Any]] = {
    "capacity": {"epsilon": (Amount, ...), "delta": (Amount, 0.0)},
    "attribute": {
        "block_by": (
            Annotated[
                dict[Name, Annotated[list[Value], Field(min_length=1, max_length=256)]], Field(max_length=1)
            ],
            Field(default_factory=dict),
        )
    },
    "sharing": {
        "contexts": (
            Annotated[dict[Name, Annotated[list[Name], Field(max_length=200)]], Field(max_length=64)],
            Field(default_factory=dict),
        ),
        "no_collusion": (Text, ""),
        "reserve": (Annotated[dict[PtkId, Amount], Field(max_length=200)], Field(default_factory=dict)),
    },
    "retire_below": {"retire_below": (Amount, "0.000001")},
}
_SHOWN_BY_HAND: dict[str, dict[str, Any]] = {
    "capacity": {"epsilon": (Exact, ...), "delta": (Exact, ...)},
    "attribute": {"block_by": (dict[str, list[str | int | bool]], ...)},
    "sharing": {
        "contexts": (dict[str, list[str]], ...),
        "no_collusion": (str, ...),
        "reserve": (dict[str, Exact], ...),
    },
    "retire_below": {"retire_below": (Exact, ...)},
}


def _types(field: Declared) -> tuple[Any, Any]:
    """What a field is sent as, and shown as."""
    match field:
        case WholeNumber(most=most):
            return Annotated[int, Field(ge=1, le=most)], int
        case Flag():
            return bool, bool
        case OneOf(members=members):
            word: Any = Literal[tuple(one.value for one in _ORDER.get(members, members))]
            return word, word if len(members) > 1 else str
        case Column():
            return Name | None, str | None
        case Share():
            return Amount, Exact
        case Moment():
            return Time | None, Instant
        case Span(whole=True):
            return Annotated[int, Field(ge=1, le=_LONGEST)], int
        case Span():
            return Annotated[float, Field(ge=0, le=_LONGEST)], float
    raise TypeError(type(field).__name__)


def with_policy(*, shown: bool) -> Callable[[type[_Document]], type[_Document]]:
    """Give a document the fields of a policy, as they are sent or as they are shown.

    What is sent may be left out, and has its default then; what came later an older server does not show.
    """
    declared = {field.name: field for field in POLICY_FIELDS}
    types: dict[str, Any] = {}
    for one in fields(Policy):
        if (field := declared.get(one.name)) is None:
            types |= (_SHOWN_BY_HAND if shown else _ASKED_BY_HAND).get(one.name, {})
        else:
            as_asked, as_shown = _types(field)
            default = field.default if field.default is None else field.to_json(field.default)
            if shown:
                types[field.key] = as_shown, default if field.later else ...
            else:
                types[field.key] = as_asked, default

    def added(document: type[_Document]) -> type[_Document]:
        name, module = document.__name__, document.__module__
        made: Any = create_model(
            name, __base__=document, __doc__=document.__doc__, __module__=module, **types
        )
        return cast("type[_Document]", made)

    return added
