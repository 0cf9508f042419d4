"""Streams and their policies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from ptkstore.domain.losses import Loss, checked_epsilon
from ptkstore.errors import InvalidRequest

NAME = re.compile(r"[a-z][a-z0-9_]*")
RESERVED_PREFIX = "ptk_"
LONGEST = timedelta(days=3650)
_WHOLE_NUMBERS = {
    "retention_windows": 10_000,
    "n_max": 10**12,
    "rows_per_window": 10**12,
    "train_partitions": 64,
}


def checked_name(kind: str, name: str) -> str:
    """`name`, or `InvalidRequest` unless it is `[a-z][a-z0-9_]*` without `__` and of at most 63 characters."""
    if not isinstance(name, str) or not NAME.fullmatch(name) or "__" in name or len(name) > 63:
        raise InvalidRequest(
            f"{kind} name {name!r} must match [a-z][a-z0-9_]*, without '__', 63 characters at most"
        )
    return name


class ColumnType(StrEnum):
    """What a stream column may hold."""

    INT64 = "int64"
    FLOAT64 = "float64"
    STRING = "string"
    BOOL = "bool"
    TIMESTAMP = "timestamp"


class Closing(StrEnum):
    """Who closes windows: the wall clock, or an operator by event time (backfills, demos)."""

    CLOCK = "clock"
    OPERATOR = "operator"


class PrivacyUnit(StrEnum):
    """What one neighbouring dataset adds or removes."""

    RECORD = "record"


class Relation(StrEnum):
    """Which datasets are neighbours; parallel composition over blocks holds for this one (PAPERS S10)."""

    ADD_REMOVE = "add_remove"


class Assurance(StrEnum):
    """Why a PTK's epsilon is believed (PAPERS F7), weakest first."""

    ASSERTED = "asserted"
    COMPOSED = "composed"
    LIBRARY = "library"

    def at_least(self, other: Assurance) -> bool:
        """Whether this assurance is as strong as `other`."""
        order = list(Assurance)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Schema:
    """The declared columns of a stream; `time_column` holds the event time in UTC."""

    columns: tuple[tuple[str, ColumnType], ...]
    time_column: str

    def __post_init__(self) -> None:
        names = [name for name, _ in self.columns]
        if not names:
            raise InvalidRequest("a stream needs at least one column")
        for name in names:
            checked_name("column", name)
            if name.startswith(RESERVED_PREFIX):
                raise InvalidRequest(
                    f"column {name!r}: names that begin with {RESERVED_PREFIX!r} are reserved"
                )
        if len(set(names)) != len(names):
            raise InvalidRequest("column names must differ")
        if dict(self.columns).get(self.time_column) is not ColumnType.TIMESTAMP:
            raise InvalidRequest(f"the time column {self.time_column!r} must be a declared timestamp column")

    def type_of(self, column: str) -> ColumnType | None:
        """The declared type, or None for an unknown column."""
        return dict(self.columns).get(column)


@dataclass(frozen=True, slots=True)
class Policy:
    """What an administrator promises for a stream; fixed at creation, public.

    `capacity` is (epsilon_g, delta_g) of every block. A window stays readable until `retention_windows` more window
    lengths have passed. `rows_per_window` is N_public and `n_max` a planning bound: no row is dropped because of it.
    """

    capacity: Loss
    window: timedelta
    origin: datetime
    lateness: timedelta = timedelta(0)
    retention_windows: int = 1
    n_max: int = 1_000_000
    rows_per_window: int = 10_000
    accountant: str = "basic"
    privacy_unit: PrivacyUnit = PrivacyUnit.RECORD
    relation: Relation = Relation.ADD_REMOVE
    minimum_assurance: Assurance = Assurance.LIBRARY
    closing: Closing = Closing.CLOCK
    future_skew: timedelta = timedelta(minutes=5)
    profile_share: Decimal = Decimal("0.1")
    test_share: Decimal = Decimal("0.1")
    train_partitions: int = 1

    def __post_init__(self) -> None:
        checked_epsilon(self.capacity.epsilon_nano / 10**9, "epsilon_g")
        if not timedelta(seconds=1) <= self.window <= LONGEST or self.window.microseconds:
            raise InvalidRequest(
                "the window length must be a whole number of seconds, from one to ten years of them"
            )
        if self.origin.tzinfo is not UTC:
            raise InvalidRequest("the stream origin must be in UTC")
        if self.lateness < timedelta(0) or self.future_skew < timedelta(0):
            raise InvalidRequest("lateness and future skew are never negative")
        for name, most in _WHOLE_NUMBERS.items():
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                raise InvalidRequest(f"{name} must be a whole number between 1 and {most}")
        if self.rows_per_window > self.n_max:
            raise InvalidRequest("rows_per_window must lie between 1 and n_max")
        if max(self.lateness, self.future_skew) > LONGEST:
            raise InvalidRequest("lateness and future skew are ten years at most")
        if self.lateness >= self.window * self.retention_windows:
            raise InvalidRequest(
                "lateness must be shorter than the retention, or windows would expire as they close"
            )
        if self.accountant != "basic":
            raise InvalidRequest(f"unknown accountant {self.accountant!r}; this version has 'basic'")
        if self.profile_share < 0 or self.test_share < 0 or self.profile_share + self.test_share >= 1:
            raise InvalidRequest("profile and test shares must leave rows to train on")


@dataclass(frozen=True, slots=True)
class Stream:
    """A named, append-only sequence of typed events, owned by a team."""

    name: str
    team: str
    schema: Schema
    policy: Policy

    def __post_init__(self) -> None:
        checked_name("stream", self.name)
        checked_name("team", self.team)
