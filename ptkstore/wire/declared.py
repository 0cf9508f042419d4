"""The JSON form of declared fields, and documents that have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import Field, JsonValue, StringConstraints, create_model

from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.fields import (
    TAG,
    Column,
    Content,
    Declared,
    Estimator,
    Flag,
    Frequency,
    LeastAndMost,
    Moment,
    OneOf,
    PositiveNumber,
    Share,
    Span,
    Tags,
    WholeNumber,
    Words,
)
from ptkstore.domain.streams.policies import LONGEST
from ptkstore.wire.base import Amount, Exact, Instant, JsonObject, Name, Text, Time, Wire

_LONGEST = LONGEST // timedelta(seconds=1)
_ORDER: dict[type[StrEnum], tuple[StrEnum, ...]] = {
    Accountant: (Accountant.RENYI, Accountant.ZCDP, Accountant.BASIC)
}
"""The order in which the OpenAPI document lists the members of an enumeration, where it is not their own."""
ESTIMATOR: dict[str, JsonValue] = {
    "family": "HistoricalStatistics",
    "params": {
        "keys": ["hour"],
        "values": ["speed"],
        "domains": {"hour": list(range(24))},
        "bounds": {"speed": [0.0, 60.0]},
        "statistics": ["count", "mean"],
        "epsilon": 0.1,
        "delta": 0.0,
    },
}

Document = TypeVar("Document", bound=Wire)
Duration = Annotated[str, StringConstraints(pattern=r"^\d{1,9}\s*[smhdSMHD]$", max_length=16)]


class EstimatorIn(Wire, json_schema_extra={"examples": [ESTIMATOR]}):
    """One of ptklib's families as data: `estimator.to_spec()` writes it."""

    family: Annotated[str, StringConstraints(pattern=r"^[A-Za-z]{1,64}$")]
    params: JsonObject


def types_of(field: Declared) -> tuple[Any, Any]:
    """Return what a field is sent as, and shown as."""
    match field:
        case WholeNumber(most=most, optional=True):
            return Annotated[int, Field(ge=1, le=most)] | None, int | None
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
        case PositiveNumber(optional=True):
            return float | None, float | None
        case PositiveNumber():
            return float, float
        case Words():
            return Text, str
        case Content():
            return JsonObject, dict[str, Any]
        case Estimator():
            return EstimatorIn, dict[str, Any]
        case Frequency():
            return Duration, int
        case LeastAndMost(limit=limit):
            number = Annotated[int, Field(ge=1, le=limit)]
            return Annotated[list[number], Field(min_length=2, max_length=2)], list[int]
        case Tags(most=most, longest=longest):
            tag = Annotated[str, StringConstraints(pattern=f"^{TAG}$", max_length=longest)]
            return Annotated[list[tag], Field(max_length=most)], list[str]
    raise TypeError(type(field).__name__)


def with_fields(types: Mapping[str, Any]) -> Callable[[type[Document]], type[Document]]:
    """Give a document these fields, each a type and a default; one that it has by hand stays as it is."""

    def added(document: type[Document]) -> type[Document]:
        more: dict[str, Any] = {n: one for n, one in types.items() if n not in document.model_fields}
        made: Any = create_model(
            document.__name__,
            __base__=document,
            __doc__=document.__doc__,
            __module__=document.__module__,
            **more,
        )
        return cast("type[Document]", made)

    return added
