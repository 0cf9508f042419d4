"""Chains with exactly one thing broken, to show that the checker sees it.

Each is the service's own chain on its own adapters; the broken piece stays in as long as the context lasts.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

from sqlalchemy.engine import Engine

from ptklib.canonical_json import canonical_json
from ptkstore.adapters.sql.jobs.deliveries import SqlDeliveries
from ptkstore.adapters.sql.jobs.jobs import SqlJobs
from ptkstore.adapters.sql.ledger.ledger import SqlLedger
from ptkstore.application.ledger import charging
from ptkstore.application.versions import place_state
from ptkstore.domain.jobs import Job, JobKind
from ptkstore.domain.ledger.filters import Filters
from ptkstore.domain.ledger.journal import BudgetRequest, Entry, EntryKind
from ptkstore.domain.ledger.rules import Denied, Granted
from ptkstore.domain.subscriptions import event_of, message_id
from ptkstore.ports.messages import Message
from ptkstore.wiring import Service
from tests.faults.ledger_tables import SQLITE

VERSIONS_WITHOUT_BELT = """
    DROP TABLE version;
    CREATE TABLE version (ptk_id, number, job_id, draft_id, window_index, elected_at, manifest,
                          PRIMARY KEY (ptk_id, number));
"""


@contextmanager
def _instead(owner: Any, name: str, piece: Any) -> Iterator[None]:
    kept = getattr(owner, name)
    setattr(owner, name, piece)
    try:
        yield
    finally:
        setattr(owner, name, kept)


@contextmanager
def right(database: str) -> Iterator[None]:
    """Nothing is broken: the control."""
    yield


@contextmanager
def charge_after_publish(database: str) -> Iterator[None]:
    """The spend is written once the version lies in the lake, by the process that remembers it."""
    remembered: dict[Engine, list[tuple[BudgetRequest, dict[str, object]]]] = defaultdict(list)
    append, place = SqlLedger.append, place_state.place_state

    def put_off(self: SqlLedger, request: BudgetRequest, kind: EntryKind, event: dict[str, object]) -> Entry:
        if kind is not EntryKind.SPEND:
            return append(self, request, kind, event)
        remembered[self._connection.engine].append((request, event))
        return replace(self.history(request.key)[0], kind=kind, event_text=canonical_json(event))

    def place_then_charge(job: Job, **parts: Any) -> None:
        place(job, **parts)
        charges = remembered.pop(parts["begin"].__self__._engine, [])
        with parts["begin"]() as uow:
            for request, event in charges:
                append(uow.ledger, request, EntryKind.SPEND, event)
            uow.commit()

    with _instead(SqlLedger, "append", put_off), _instead(place_state, "place_state", place_then_charge):
        yield


@contextmanager
def check_then_act(database: str) -> Iterator[None]:
    """The room of a block is read once, before the lock: what others reserve in between is not seen."""
    decide_all = charging.decide_all  # type: ignore[attr-defined]
    room: dict[int, Filters] = {}

    def earlier(filters: Filters, requests: list[BudgetRequest]) -> list[Granted | Denied]:
        seen = room.setdefault(len(filters.views()), filters.copy())
        return [answer for request in requests for answer in decide_all(seen, [request])]

    with _instead(charging, "decide_all", earlier):
        yield


@contextmanager
def no_fence(database: str) -> Iterator[None]:
    """A worker that lost its lease still writes, and no constraint of the database is in its way."""
    with closing(sqlite3.connect(database.removeprefix(SQLITE))) as connection:
        connection.executescript(VERSIONS_WITHOUT_BELT)
    with fence_down(database):
        yield


@contextmanager
def fence_down(database: str) -> Iterator[None]:
    """A worker that lost its lease still writes, as far as the database lets it."""

    def held(self: SqlJobs, job: Job) -> Job:
        return replace(self.lock(job.id), lease_until=job.lease_until)

    with _instead(SqlJobs, "held", held):
        yield


@contextmanager
def no_outbox(database: str) -> Iterator[None]:
    """Subscribers are told once, by the process that flipped, and nothing remembers that they must be."""
    work = Service._work

    def forget_notifying(self: SqlDeliveries, ptk_id: str, due_at: Any) -> None:
        pass

    def flip_then_tell(self: Service, job: Job, *parts: Any) -> None:
        work(self, job, *parts)
        if job.kind is JobKind.FLIP:
            _tell(self, str(job.ptk_id), job.position + 1)

    with _instead(SqlDeliveries, "wake", forget_notifying), _instead(Service, "_work", flip_then_tell):
        yield


def _tell(service: Service, ptk_id: str, number: int) -> None:
    with service.begin() as uow:
        version, subscriptions = uow.versions.get(ptk_id, number), uow.subscriptions.of(ptk_id)
    url = service.lake.manifest_url(ptk_id, number)
    body = canonical_json(event_of(version, url)).encode()
    for one in subscriptions:
        secrets = service.keys.secrets_of(one.id, service.clock.now())
        service.messenger.send(
            Message(one.id, one.endpoint, message_id(one.id, number), body, tuple(secrets))
        )
