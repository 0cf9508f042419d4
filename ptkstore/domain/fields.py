"""How a field is declared: one line that Python, the command line, HTTP, SQL and signed reports are derived from.

`max_cell_bytes: Annotated[int, WholeNumber("The longest text of a cell.", most=2**20)] = 2**16` is such a line.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, MISSING, dataclass, fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar, get_type_hints

from ptkstore.errors import InvalidRequest

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a field may hold, and how it is written as JSON.

    Parameters
    ----------
    help : str
        One line for users.
    usual : optional
        The default of users, of a field that has none in Python.
    argument : str, optional
        Its name in Python and on the command line, by default the field's own; None where users cannot choose it.
    reported : str, optional
        Its name in signed reports, by default that in JSON; None where reports leave it out.
    later : bool
        It came after the first release. A text that is hashed leaves out its default, so that the digests of older
        policies stay what they were; documents of older programs do not have it.
    """

    unit: ClassVar[str] = ""

    help: str = ""
    _: KW_ONLY
    usual: Any = None
    argument: str | None = ""
    reported: str | None = ""
    later: bool = False

    def check(self, name: str, value: Any) -> None:
        """`InvalidRequest` unless the value is of this kind."""

    def to_json(self, value: Any) -> Any:
        """A value as JSON."""
        return value

    def of_json(self, content: Any) -> Any:
        """The value that `to_json` wrote."""
        return content

    def to_report(self, value: Any) -> Any:
        """A value as JSON without a binary fraction."""
        return self.to_json(value)


@dataclass(frozen=True, slots=True)
class WholeNumber(Kind):
    """An int between 1 and `most`."""

    _: KW_ONLY
    most: int

    def check(self, name: str, value: Any) -> None:
        """See `Kind.check`."""
        if type(value) is not int or not 1 <= value <= self.most:
            raise InvalidRequest(f"{name} must be a whole number between 1 and {self.most}")


@dataclass(frozen=True, slots=True)
class Flag(Kind):
    """A bool."""

    def check(self, name: str, value: Any) -> None:
        """See `Kind.check`."""
        if type(value) is not bool:
            raise InvalidRequest(f"{name} must be true or false")


@dataclass(frozen=True, slots=True)
class OneOf(Kind):
    """A member of an enumeration; users write its value."""

    _: KW_ONLY
    members: type[StrEnum]

    def to_json(self, value: Any) -> Any:
        """Its text."""
        return value.value

    def of_json(self, content: Any) -> Any:
        """The member with this text."""
        return self.members(content)


@dataclass(frozen=True, slots=True)
class Column(Kind):
    """The name of a column, or None."""


@dataclass(frozen=True, slots=True)
class Share(Kind):
    """A Decimal between 0 and 1; users write a number."""

    def to_json(self, value: Any) -> Any:
        """An exact text."""
        return str(value)

    def of_json(self, content: Any) -> Any:
        """Exact, from a number or a text."""
        return Decimal(str(content))


@dataclass(frozen=True, slots=True)
class Moment(Kind):
    """A time in UTC."""

    def to_json(self, value: Any) -> Any:
        """ISO 8601."""
        return value.isoformat()

    def of_json(self, content: Any) -> Any:
        """A time in UTC, or `InvalidRequest`."""
        return time_of(content)


@dataclass(frozen=True, slots=True)
class Span(Kind):
    """A timedelta; users write '6h', JSON has seconds, of a `whole` one without a fraction."""

    unit: ClassVar[str] = "_seconds"

    _: KW_ONLY
    whole: bool = False

    def to_json(self, value: Any) -> Any:
        """In seconds."""
        return value // _SECOND if self.whole else value / _SECOND

    def of_json(self, content: Any) -> Any:
        """A span of seconds, or `InvalidRequest`."""
        try:
            return timedelta(seconds=content)
        except OverflowError:
            raise InvalidRequest("a span of time is too long") from None

    def to_report(self, value: Any) -> Any:
        """In whole seconds."""
        return value // _SECOND


@dataclass(frozen=True, slots=True)
class Field:
    """A field with its kind; `default` is None where the service chooses it."""

    name: str
    kind: Kind
    default: Any

    @property
    def argument(self) -> str | None:
        """Its name in Python and on the command line; None where users cannot choose it."""
        return self.name if self.kind.argument == "" else self.kind.argument

    @property
    def key(self) -> str:
        """Its name in JSON."""
        return self.name + self.kind.unit

    @property
    def reported(self) -> str | None:
        """Its name in signed reports; None where they leave it out."""
        return self.key if self.kind.reported == "" else self.kind.reported


def declared_fields(of: Any) -> tuple[Field, ...]:
    """The fields of a dataclass that are declared by their kind alone; the others are written by hand."""
    hints = get_type_hints(of, include_extras=True)
    return tuple(
        Field(one.name, kind, kind.usual if one.default is MISSING else one.default)
        for one in fields(of)
        for kind in getattr(hints[one.name], "__metadata__", ())
        if isinstance(kind, Kind)
    )


def time_of(text: str) -> datetime:
    """A time in UTC, or `InvalidRequest`."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidRequest("a time is ISO 8601 text of the years 1 to 9999") from None
