"""Read a policy as users write it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar

from ptkstore.domain.accounting.losses import LEAST_LOSS, Loss, capacity_of
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.durations import duration
from ptkstore.domain.fields import Declared, Moment, OneOf, Share, Span
from ptkstore.domain.streams.policies import POLICY_FIELDS, Policy
from ptkstore.domain.times import utc
from ptkstore.errors import InvalidRequest

_Choice = TypeVar("_Choice", bound=StrEnum)


def policy_of(arguments: Mapping[str, Any]) -> Policy:
    """Return the policy that the arguments of `Store.create_stream` say; there may be more of them.

    Raises
    ------
    InvalidRequest
        A word is unknown, or a number out of range.
    """
    block_by, retire_below = arguments["block_by"], arguments["retire_below"]
    if block_by is not None and len(block_by) != 1:
        raise InvalidRequest("block_by takes one column and its values")
    attribute, values = next(iter(block_by.items())) if block_by else (None, ())
    return Policy(
        **{one.name: _read(one, arguments[one.argument]) for one in POLICY_FIELDS if one.argument},
        capacity=capacity_of(arguments["epsilon"], arguments["delta"]),
        attribute=attribute,
        attribute_values=tuple(values),
        sharing=Sharing(
            tuple((name, tuple(teams)) for name, teams in sorted((arguments["contexts"] or {}).items())),
            arguments["no_collusion"],
            tuple(
                (ptk_id, share_of(share, "a reserved share"))
                for ptk_id, share in sorted((arguments["reserve"] or {}).items())
            ),
        ),
        retire_below=LEAST_LOSS if retire_below is None else Loss.capacity(retire_below),
    )


def _read(field: Declared, value: Any) -> Any:
    """The value of a field as users write it."""
    match field:
        case Span():
            return timedelta(0) if value is None else duration(value)
        case OneOf(members=members):
            return choice(members, value, field.name.replace("_", " "))
        case Share():
            return share_of(value, field.name)
        case Moment():
            return utc(value)
        case _:
            return value


def share_of(value: float, what: str) -> Decimal:
    """Return a share as an exact decimal, or `InvalidRequest` for anything that is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        raise InvalidRequest(f"{what} is a number")
    return Decimal(str(value))


def choice(kind: type[_Choice], value: str, what: str) -> _Choice:
    """Return the member of an enumeration, or `InvalidRequest` with all there are."""
    try:
        return kind(value)
    except ValueError:
        raise InvalidRequest(f"unknown {what} {value!r}; choose from {', '.join(kind)}") from None
