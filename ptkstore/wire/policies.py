"""The fields of a policy in documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from ptkstore.domain.streams.policies import POLICY_FIELDS, Policy
from ptkstore.wire.base import Amount, Exact, Name, PtkId, Text
from ptkstore.wire.declared import Document, types_of, with_fields

Value = Annotated[str, StringConstraints(max_length=200)] | int | bool

_ASKED_BY_HAND: dict[str, dict[str, Any]] = {
    "capacity": {
        "epsilon": (
            Annotated[Amount | None, Field(description="left out of a stream whose rows stay on devices")],
            None,
        ),
        "delta": (Amount, 0.0),
    },
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


def with_policy(*, shown: bool) -> Callable[[type[Document]], type[Document]]:
    """Give a document the fields of a policy, as they are sent or as they are shown.

    A field may be missing in a request, and has its default then; an older server does not show later fields.
    """
    declared = {field.name: field for field in POLICY_FIELDS}
    types: dict[str, Any] = {}
    for one in fields(Policy):
        if (field := declared.get(one.name)) is None:
            types |= (_SHOWN_BY_HAND if shown else _ASKED_BY_HAND).get(one.name, {})
        else:
            as_asked, as_shown = types_of(field)
            default = field.default if field.default is None else field.to_json(field.default)
            if shown:
                types[field.key] = as_shown, default if field.later else ...
            else:
                types[field.key] = as_asked, default

    return with_fields(types)
