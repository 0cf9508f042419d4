"""Profiles in SQL: released answers and public numbers, nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from ptklib.canonical_json import canonical_json
from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.statements import CatalogPart, row_of
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.ptks.profiles import Paid, Point, ProfileRecord, ProfileState, Verdict
from ptkstore.domain.streams.blocks import BlockRange
from ptkstore.errors import LateWriter


class SqlProfiles(CatalogPart):
    """Profiles by key, each renewal under the next number."""

    def add(self, record: ProfileRecord) -> None:
        """Begin a profile; `LateWriter` if somebody else began this one meanwhile."""
        try:
            self._connection.execute(insert(t.profiles).values(_values(record)))
        except IntegrityError as error:
            raise LateWriter(f"profile {record.number} of its key exists") from error.orig

    def save(self, record: ProfileRecord) -> None:
        """Write the outcome of a profile; the caller has the stream's lock."""
        values = _values(record)
        place = (t.profiles.c.key == values.pop("key"), t.profiles.c.number == values.pop("number"))
        self._connection.execute(update(t.profiles).where(*place).values(**values))

    def of(self, keys: Iterable[str]) -> dict[str, tuple[ProfileRecord, ...]]:
        """Return all profiles under each key, by number."""
        by_key: dict[str, list[ProfileRecord]] = {key: [] for key in keys}
        query = select(t.profiles).order_by(t.profiles.c.number)
        for row in self._rows_with(query, t.profiles.c.key, by_key):
            by_key[row.key].append(_record(row))
        return {key: tuple(records) for key, records in by_key.items()}

    def of_job(self, job_id: str) -> ProfileRecord | None:
        """Return the profile whose last job this is."""
        row = self._connection.execute(select(t.profiles).where(t.profiles.c.job_id == job_id)).one_or_none()
        return None if row is None else _record(row)


def _values(record: ProfileRecord) -> dict[str, Any]:
    content = {
        "points": [[point.epsilon, point.verdict, point.n] for point in record.points],
        "paid": [
            [one.what, one.window, one.blocks.lo, one.blocks.hi, one.loss.epsilon_nano, one.loss.delta_atto]
            for one in record.paid
        ],
        "code": record.code,
    }
    return row_of(t.profiles, record, content=canonical_json(content))


def _record(row: Row[Any]) -> ProfileRecord:
    plain = dict(row._mapping)
    content = json.loads(plain.pop("content"))
    return ProfileRecord(
        **{**plain, "state": ProfileState(row.state)},
        points=tuple(Point(epsilon, Verdict(verdict), n) for epsilon, verdict, n in content["points"]),
        paid=tuple(
            Paid(what, window, BlockRange(lo, hi), Loss(epsilon, delta))
            for what, window, lo, hi, epsilon, delta in content["paid"]
        ),
        code=content["code"],
    )
