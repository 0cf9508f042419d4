"""How a field is declared: one line that Python, the command line, HTTP, SQL and signed reports are derived from.

`max_cell_bytes: Annotated[int, WholeNumber("The longest text of a cell.", most=2**20)] = 2**16` is such a line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar, Self, get_type_hints

from ptkstore.errors import InvalidRequest

_SECOND = timedelta(seconds=1)

TAG = r"[a-z0-9][a-z0-9_-]*"
"""What a tag looks like."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared field: what it may hold, and how it is written as JSON. Its class is its kind.

    Parameters
    ----------
    help : str
        One line for users.
    default : optional
        The value if users do not give one; that of the dataclass, if it has one. None where the service chooses, and
        `...` where users have to say it.
    argument : str, optional
        Its name in Python and on the command line, by default the field's own; None where users cannot choose it.
    reported : str, optional
        Its name in signed reports, by default that in JSON; None where reports leave it out.
    fixed : bool
        The field of a registered PTK cannot change.
    later : bool
        It came after the first release. A text that is hashed leaves out its default, so that the digests of older
        policies stay what they were; documents of older programs do not have it.
    name, key : str
        Its own name, and that in JSON; `declared_fields` fills them in.
    """

    unit: ClassVar[str] = ""

    help: str = ""
    _: KW_ONLY
    default: Any = None
    argument: str | None = ""
    reported: str | None = ""
    fixed: bool = False
    later: bool = False
    name: str = ""
    key: str = ""

    def named(self, name: str, default: Any) -> Self:
        """Return the field of this name."""
        key = name + self.unit
        argument = name if self.argument == "" else self.argument
        reported = key if self.reported == "" else self.reported
        default = self.default if default is MISSING else default
        return replace(self, name=name, key=key, argument=argument, reported=reported, default=default)

    def check(self, value: Any) -> None:
        """Raise `InvalidRequest` unless the field may hold the value."""

    def to_json(self, value: Any) -> Any:
        """Write a value as JSON."""
        return value

    def of_json(self, content: Any) -> Any:
        """Return the value that `to_json` wrote."""
        return content

    def to_report(self, value: Any) -> Any:
        """Write a value as JSON without a binary fraction."""
        return self.to_json(value)


@dataclass(frozen=True, slots=True)
class WholeNumber(Declared):
    """An int between 1 and `most`; None where it is `optional` and users do not say it."""

    _: KW_ONLY
    most: int
    optional: bool = False

    def check(self, value: Any) -> None:
        if value is None and self.optional:
            return
        if type(value) is not int or not 1 <= value <= self.most:
            raise InvalidRequest(f"{self.name} must be a whole number between 1 and {self.most}")


@dataclass(frozen=True, slots=True)
class Flag(Declared):
    """A bool."""

    def check(self, value: Any) -> None:
        if type(value) is not bool:
            raise InvalidRequest(f"{self.name} must be true or false")


@dataclass(frozen=True, slots=True)
class OneOf(Declared):
    """A member of an enumeration; users write its value."""

    _: KW_ONLY
    members: type[StrEnum]

    def to_json(self, value: Any) -> Any:
        return value.value

    def of_json(self, content: Any) -> Any:
        return self.members(content)


@dataclass(frozen=True, slots=True)
class Column(Declared):
    """The name of a column, or None."""


@dataclass(frozen=True, slots=True)
class Share(Declared):
    """A Decimal between 0 and 1; users write a number."""

    def to_json(self, value: Any) -> Any:
        return str(value)

    def of_json(self, content: Any) -> Any:
        return Decimal(str(content))


@dataclass(frozen=True, slots=True)
class Moment(Declared):
    """A time in UTC."""

    def to_json(self, value: Any) -> Any:
        return value.isoformat()

    def of_json(self, content: Any) -> Any:
        return time_of(content)


@dataclass(frozen=True, slots=True)
class Span(Declared):
    """A timedelta; users write '6h', JSON has seconds, of a `whole` one without a fraction."""

    unit: ClassVar[str] = "_seconds"

    _: KW_ONLY
    whole: bool = False

    def to_json(self, value: Any) -> Any:
        return value // _SECOND if self.whole else value / _SECOND

    def of_json(self, content: Any) -> Any:
        try:
            return timedelta(seconds=content)
        except OverflowError:
            raise InvalidRequest("a span of time is too long") from None

    def to_report(self, value: Any) -> Any:
        return value // _SECOND


@dataclass(frozen=True, slots=True)
class PositiveNumber(Declared):
    """A float above 0; None where it is `optional` and users do not say it."""

    _: KW_ONLY
    optional: bool = False

    def check(self, value: Any) -> None:
        """See `Declared.check`."""
        if value is None and self.optional:
            return
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise InvalidRequest(f"the {self.name} must be a positive, finite number")

    def to_report(self, value: Any) -> str:
        """Write the number as text, exactly."""
        return str(value)


@dataclass(frozen=True, slots=True)
class LeastAndMost(Declared):
    """Two ints, the least and the most of something, between 1 and `limit`; JSON has a list of both."""

    _: KW_ONLY
    limit: int

    def check(self, value: Any) -> None:
        """See `Declared.check`."""
        pair = list(value) if isinstance(value, list | tuple) else []
        if [type(number) for number in pair] != [int, int]:
            raise InvalidRequest(f"{self.name} must be two whole numbers, the least and the most")
        least, most = pair
        if least > most:
            raise InvalidRequest(f"{self.name} must be (least, most), the least first")
        if least < 1 or most > self.limit:
            raise InvalidRequest(f"both of {self.name} must be between 1 and {self.limit}")

    def to_json(self, value: Any) -> Any:
        return list(value)

    def of_json(self, content: Any) -> Any:
        return tuple(content)


@dataclass(frozen=True, slots=True)
class Words(Declared):
    """A text for people."""


@dataclass(frozen=True, slots=True)
class Tags(Declared):
    """At most `most` words that things are found by, each of at most `longest` characters; JSON has a list."""

    _: KW_ONLY
    most: int
    longest: int

    def check(self, value: Any) -> None:
        """See `Declared.check`."""
        if not isinstance(value, list | tuple) or not all(isinstance(tag, str) for tag in value):
            raise InvalidRequest(f"{self.name} must be a list of texts")
        if len(value) > self.most:
            raise InvalidRequest(f"{len(value)} {self.name} are too many: {self.most} at most")
        for tag in value:
            if len(tag) > self.longest or not re.fullmatch(TAG, tag):
                raise InvalidRequest(
                    f"each of {self.name} must match {TAG}, {self.longest} characters at most: small letters, digits, "
                    f"_ and -; this one does not: {tag[: self.longest]!r}"
                )
        if len(set(value)) < len(value):
            raise InvalidRequest(f"no two of {self.name} may be the same")

    def to_json(self, value: Any) -> Any:
        return list(value)

    def of_json(self, content: Any) -> Any:
        return tuple(content)


@dataclass(frozen=True, slots=True)
class Content(Declared):
    """A mapping of plain JSON."""


@dataclass(frozen=True, slots=True)
class Estimator(Declared):
    """A trainer as data."""


@dataclass(frozen=True, slots=True)
class Frequency(Declared):
    """An int of windows; users write a span such as '6h'."""


def fields_of(record: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as they are, by name."""
    return {one.name: getattr(record, one.name) for one in fields(record)}


def declared_json(record: Any, declared: Sequence[Declared], *, with_later: bool = True) -> dict[str, Any]:
    """Return the declared fields of a record in their order, as every JSON form has them."""
    values = [(field, getattr(record, field.name)) for field in declared]
    return {
        field.key: field.to_json(value)
        for field, value in values
        if with_later or not field.later or value != field.default
    }


def declared_in(content: Mapping[str, Any], declared: Sequence[Declared]) -> dict[str, Any]:
    """Return the fields that `declared_json` wrote, by name."""
    return {
        field.name: field.of_json(content[field.key])
        for field in declared
        if field.key in content or not field.later
    }


def declared_fields(of: Any) -> tuple[Declared, ...]:
    """Return the fields of a dataclass that are annotated with a `Declared`; the others are written by hand."""
    hints = get_type_hints(of, include_extras=True)
    return tuple(
        declared.named(one.name, one.default)
        for one in fields(of)
        for declared in getattr(hints[one.name], "__metadata__", ())
        if isinstance(declared, Declared)
    )


def time_of(text: str) -> datetime:
    """Return a time in UTC, or `InvalidRequest`."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidRequest("a time is ISO 8601 text of the years 1 to 9999") from None
