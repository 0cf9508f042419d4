"""The common part of every document: strictness, names, amounts, times, pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
)

NAME = r"^[a-z][a-z0-9]*(_[a-z0-9]+)*_?$"  # [a-z][a-z0-9_]* without __
PTK_ID = r"^[a-z][a-z0-9]*(_[a-z0-9]+)*_?\.[a-z][a-z0-9]*(_[a-z0-9]+)*_?$"
TOKEN_ID = r"^[0-9a-f]{16}$"
SUBSCRIPTION_ID = r"^sub_[0-9a-f]{16}$"
TIME = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})$"
DECIMAL = r"^\d{1,6}(\.\d{1,24})?([eE]-?\d{1,2})?$"

LIST_MAX = 200
EXCHANGE_BYTES_MAX = 8 * 2**20
"""Of what a team's PTKs of a stream are to be, as JSON: the worst is 720 MiB while it is held against its model."""
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
JSON_DEPTH = 24
JSON_INTEGER = 2**63


class Wire(BaseModel):
    """A document: unknown fields and wrong types are refused, and no message shows what was sent."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True
    )


def read_form(model: type[Wire], values: Mapping[str, Any]) -> Wire | frozenset[str]:
    """Return the document that a form makes, or the names of the fields that are not as they should be."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        return frozenset(str(part["loc"][0]) for part in error.errors() if part["loc"])


Name = Annotated[str, StringConstraints(pattern=NAME, max_length=63)]
PtkId = Annotated[str, StringConstraints(pattern=PTK_ID, max_length=127)]
TokenId = Annotated[str, StringConstraints(pattern=TOKEN_ID)]
SubscriptionId = Annotated[str, StringConstraints(pattern=SUBSCRIPTION_ID)]
Text = Annotated[str, StringConstraints(max_length=1_000)]
Time = Annotated[
    str,
    StringConstraints(pattern=TIME, max_length=40),
    Field(description="ISO 8601 with an offset, for example 2026-01-05T00:00:00Z"),
]
Instant = Annotated[str, Field(description="ISO 8601 in UTC")]
Exact = Annotated[str, Field(description="an exact decimal number")]
Amount = Annotated[
    float | Annotated[str, StringConstraints(pattern=DECIMAL)],
    Field(description="a number, or an exact decimal text"),
]


def plain(value: Any, depth: int = 0) -> Any:
    """Return `value`, or raise ValueError unless it is JSON that every part of the service can store.

    It is not nested too deeply, its numbers are finite and its integers have 64 bits. Its texts have no NUL, which
    PostgreSQL refuses, and no lone surrogate, which is no UTF-8.
    """
    if depth > JSON_DEPTH:
        raise ValueError("nested too deeply")
    match value:
        case None | bool():
            pass
        case str():
            if _UNSTORABLE.search(value):
                raise ValueError("a text has a character that cannot be stored")
        case int():
            if not -JSON_INTEGER <= value < JSON_INTEGER:
                raise ValueError("an integer has more than 64 bits")
        case float():
            if not abs(value) < float("inf"):
                raise ValueError("a number is not finite")
        case list():
            for item in value:
                plain(item, depth + 1)
        case dict():
            for key, item in value.items():
                plain(key, depth + 1)
                plain(item, depth + 1)
        case _:
            raise ValueError("not JSON")
    return value


JsonObject = Annotated[dict[str, JsonValue], AfterValidator(plain)]


class Loss(Wire):
    """A privacy loss, exact."""

    epsilon: Exact
    delta: Exact


Item = TypeVar("Item")


class Page(Wire, Generic[Item]):
    """A part of a list; `next_cursor` asks for what follows, and is null at the end."""

    items: list[Item]
    next_cursor: str | None = None
