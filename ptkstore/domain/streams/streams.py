"""Streams: named sequences of events under a policy."""

from __future__ import annotations

from dataclasses import dataclass

from ptkstore.domain.names import checked_name
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.schemas import ATTRIBUTE_TYPES, ColumnType, Schema, is_plain
from ptkstore.errors import InvalidRequest, Refused

_UNIT_TYPES = (ColumnType.INT64, ColumnType.STRING)


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
        self._check_unit_column(self.policy.unit_column)
        if self.policy.attribute is not None:
            self._check_attribute(self.policy.attribute)

    def check_rows_in_store(self, what: str) -> None:
        """Raise `Refused` where the rows of the stream stay on devices; `what` says what needs them in the store."""
        if self.policy.on_devices:
            raise Refused(f"the rows of stream {self.name!r} stay on devices: {what}")

    def check_takes_rows(self) -> None:
        """Raise `Refused` where no row is ever ingested."""
        self.check_rows_in_store("it takes none, devices report on their own")

    def _check_unit_column(self, column: str | None) -> None:
        if column is not None and self.schema.type_of(column) not in _UNIT_TYPES:
            raise InvalidRequest(f"the unit column {column!r} must be a declared int64 or string column")

    def _check_attribute(self, column: str) -> None:
        if column == self.policy.unit_column:
            raise InvalidRequest("blocks by the unit column would publish a list of users; take shards")
        kind = self.schema.type_of(column)
        if kind not in ATTRIBUTE_TYPES:
            raise InvalidRequest(f"blocks by {column!r}: it must be a declared int64, string or bool column")
        for value in self.policy.attribute_values:
            if type(value) is not ATTRIBUTE_TYPES[kind] or not is_plain(value):
                raise InvalidRequest(f"blocks by {column!r}: {value!r} is no {kind.value} of a public domain")
