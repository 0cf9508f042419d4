"""Profiles in SQL: released answers and public numbers, nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from ptkstore.adapters.sql import tables as t
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.canonical_json import canonical_json
from ptkstore.domain.ptks.profiles import Paid, Point, ProfileRecord, ProfileState, Verdict
from ptkstore.domain.streams.blocks import BlockRange
from ptkstore.errors import LateWriter

_AT_ONCE = 500  # keys in one query; SQLite takes 32,766 variables


class SqlProfiles:
    """Profiles by key, each renewal under the next number."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, record: ProfileRecord) -> None:
        """Begin a profile; `LateWriter` if somebody else began this one meanwhile."""
        values = _values(record)
        try:
            self._connection.execute(insert(t.profiles).values(**values))
        except IntegrityError as error:
            raise LateWriter(f"profile {record.number} of its key exists") from error.orig

    def save(self, record: ProfileRecord) -> None:
        """Write what became of a profile; the caller holds the stream's lock."""
        values = _values(record)
        place = (t.profiles.c.key == values.pop("key"), t.profiles.c.number == values.pop("number"))
        self._connection.execute(update(t.profiles).where(*place).values(**values))

    def of(self, keys: Iterable[str]) -> dict[str, tuple[ProfileRecord, ...]]:
        """All profiles under each key, by number."""
        wanted = sorted(set(keys))
        by_key: dict[str, list[ProfileRecord]] = {key: [] for key in wanted}
        for start in range(0, len(wanted), _AT_ONCE):
            query = select(t.profiles).where(t.profiles.c.key.in_(wanted[start : start + _AT_ONCE]))
            for row in self._connection.execute(query.order_by(t.profiles.c.number)):
                by_key[row.key].append(_record(row))
        return {key: tuple(records) for key, records in by_key.items()}

    def of_job(self, job_id: str) -> ProfileRecord | None:
        """The profile whose last job this is."""
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
    return {
        "key": record.key,
        "number": record.number,
        "stream": record.stream,
        "state": record.state,
        "asked_at": record.asked_at,
        "drifted_at": record.drifted_at,
        "tries": record.tries,
        "job_id": record.job_id,
        "content": canonical_json(content),
    }


def _record(row: Row[Any]) -> ProfileRecord:
    content = json.loads(row.content)
    return ProfileRecord(
        key=row.key,
        number=row.number,
        stream=row.stream,
        asked_at=row.asked_at,
        job_id=row.job_id,
        state=ProfileState(row.state),
        tries=row.tries,
        points=tuple(Point(epsilon, Verdict(verdict), n) for epsilon, verdict, n in content["points"]),
        paid=tuple(
            Paid(what, window, BlockRange(lo, hi), Loss(epsilon, delta))
            for what, window, lo, hi, epsilon, delta in content["paid"]
        ),
        drifted_at=row.drifted_at,
        code=content["code"],
    )
