"""Read a policy as users write it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

from ptkstore.domain.accountants import Accountant
from ptkstore.domain.losses import LEAST_LOSS, Loss
from ptkstore.domain.ptks import duration
from ptkstore.domain.sharing import Sharing
from ptkstore.domain.streams import Assurance, Closing, ColumnType, Policy, PrivacyUnit
from ptkstore.errors import InvalidRequest

_Choice = TypeVar("_Choice", Accountant, Assurance, Closing, ColumnType, PrivacyUnit)


def policy_of(
    *,
    window: str,
    lateness: str | None,
    accountant: str,
    privacy_unit: str,
    minimum_assurance: str,
    closing: str,
    block_by: Mapping[str, Sequence[str | int | bool]] | None,
    contexts: Mapping[str, Sequence[str]] | None,
    no_collusion: str,
    reserve: Mapping[str, float] | None,
    retire_below: float | None,
    **plain: Any,
) -> Policy:
    """The policy in words and numbers; `plain` are its fields as they are.

    Raises
    ------
    InvalidRequest
        A word is unknown, or a number out of range.
    """
    if block_by is not None and len(block_by) != 1:
        raise InvalidRequest("block_by takes one column and its values")
    attribute, values = next(iter(block_by.items())) if block_by else (None, ())
    return Policy(
        window=duration(window),
        lateness=duration(lateness) if lateness else duration("1s") * 0,
        accountant=choice(Accountant, accountant, "accountant"),
        privacy_unit=choice(PrivacyUnit, privacy_unit, "privacy unit"),
        minimum_assurance=choice(Assurance, minimum_assurance, "assurance"),
        closing=choice(Closing, closing, "closing"),
        attribute=attribute,
        attribute_values=tuple(values),
        sharing=Sharing(
            tuple((name, tuple(teams)) for name, teams in sorted((contexts or {}).items())),
            no_collusion,
            tuple(
                (ptk_id, share_of(share, "a reserved share"))
                for ptk_id, share in sorted((reserve or {}).items())
            ),
        ),
        retire_below=LEAST_LOSS if retire_below is None else Loss.capacity(retire_below),
        **plain,
    )


def share_of(value: float, what: str) -> Decimal:
    """A share as an exact decimal, or `InvalidRequest` for anything that is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        raise InvalidRequest(f"{what} is a number")
    return Decimal(str(value))


def utc(value: datetime | str) -> datetime:
    """A time in UTC; text is ISO 8601, and without an offset means UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidRequest(
                f"{value!r} is no ISO 8601 time, such as 2026-01-05 or 2026-01-05T06:00:00"
            ) from None
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise InvalidRequest("the time lies outside the years 1 to 9999") from None


def choice(kind: type[_Choice], value: str, what: str) -> _Choice:
    """The member of an enumeration, or `InvalidRequest` with all there are."""
    try:
        return kind(value)
    except ValueError:
        raise InvalidRequest(f"unknown {what} {value!r}; choose from {', '.join(kind)}") from None
