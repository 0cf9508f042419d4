"""What older programs wrote as one text or number is found in columns of its own after an upgrade."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.adapters.sql.catalog import open_engine
from ptkstore.adapters.sql.migrating import SqlCatalogSchema
from ptkstore.domain.jobs import JobKind, JobState, Outcome
from ptkstore.domain.notices import Notice
from ptkstore.domain.streams.windows import WindowId
from tests.support.builders import NOW
from tests.support.older_catalogs import write_schema_3
from tests.support.subjects import SUBJECTS

UNREADABLE: dict[str, dict[str, Any]] = {
    "": {},
    "Rides": {},
    "rides  window 1": {"stream": "rides"},
    "rides window 01": {"stream": "rides"},
    "rides.long window 1 of 2": {"ptk_id": "rides.long"},
    "rides.long window 99999999999999999999": {"ptk_id": "rides.long"},
    "rides.long window ²": {"ptk_id": "rides.long"},
    "rides.long v0 to sub_1": {"ptk_id": "rides.long"},
    "rides.long\x1b[2J to sub_1 again": {},
    "rides.long.x": {},
    "a\nrides.long": {"stream": "a"},
}
"""Subjects that no program wrote, with what is known of them nevertheless."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.real)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A catalog of schema 3."""
    postgres = request.param == "postgresql"
    place = (
        request.getfixturevalue("fresh_postgres_url") if postgres else f"sqlite:///{tmp_path / 'catalog.db'}"
    )
    write_schema_3(place)
    return str(place)


@contextmanager
def writing(url: str) -> Iterator[Connection]:
    engine = open_engine(url)
    with engine.connect() as connection:
        yield connection
        connection.commit()
    engine.dispose()


def test_every_subject_of_before_is_read_once_and_says_the_same(url: str) -> None:
    subjects = [*SUBJECTS, *UNREADABLE] * 100  # more than are moved at once
    with writing(url) as connection:
        left = text("INSERT INTO notice (at, team, subject, code) VALUES (:at, 'rides', :subject, 'expired')")
        connection.execute(left, [{"at": n, "subject": subject} for n, subject in enumerate(subjects)])
    SqlCatalogSchema(url).upgrade(backed_up=True)
    known = {**SUBJECTS, **{subject: {**facts, "text": subject} for subject, facts in UNREADABLE.items()}}
    with SqlCatalog(url) as catalog:
        with catalog.begin() as uow:
            uow.notify_owner(Notice(NOW, "rides", "new", "rides"))
            uow.commit()
        with catalog.read() as uow:
            first, *notices, last = uow.notices("rides")
    assert (first.subject, first.stream, first.text) == ("rides", "rides", None)
    assert last == Notice(NOW, "rides", "new", "rides")
    assert [one.subject for one in notices] == subjects
    for one in notices:
        facts = {name: value for name, value in asdict(one).items() if value is not None}
        assert facts == {"at": one.at, "team": "rides", "code": "expired", "look": 1, **known[one.subject]}


def test_parts_of_batches_are_numbered_and_go_on_where_they_stopped(url: str) -> None:
    stored = [  # in the order of arrival, with the row that said that a batch was begun in parts
        ("whole", "a1"),
        ("complete\x1f1/3", "b1"),
        ("complete\x1f", "nothing"),
        ("older\x1f1", "o1"),  # a part of before parts had a count
        ("half/2\x1f1/12", "c1"),
        ("half/2\x1f", "nothing either"),
        ("complete\x1f2/3", "b2"),
        ("complete", "b3"),
        *((f"half/2\x1f{n}/12", f"c{n}") for n in range(2, 11)),
    ]
    with writing(url) as connection:
        left = text(
            "INSERT INTO batch (stream, batch_id, token, closed_before) VALUES ('rides', :batch, :token, 2)"
        )
        connection.execute(left, [{"batch": batch, "token": token} for batch, token in stored])
        # two streams may have batches of one name
        other = (
            "INSERT INTO batch (stream, batch_id, token, closed_before) VALUES ('taxi', 'complete', 'd1', 0)"
        )
        connection.execute(text(other))
    SqlCatalogSchema(url).upgrade(backed_up=True)
    with SqlCatalog(url) as catalog:
        with catalog.read() as uow:
            far = {name: uow.streams.stored_part("rides", name) for name in ("whole", "complete", "half/2")}
            tokens = uow.streams.tokens_for(WindowId("rides", 2))
            assert uow.streams.stored_part("taxi", "complete") == (1, 1)
        with catalog.begin() as uow:
            uow.streams.add_batch("rides", "half/2", "c11", 2, (11, 12))
            uow.streams.add_batch("rides", "half/2", "c12", 2, (12, 12))
            assert uow.streams.stored_part("rides", "half/2") == (12, 12)
            uow.commit()
    assert far == {"whole": (1, 1), "complete": (3, 3), "half/2": (10, 12)}
    assert tokens[2:] == ("a1", "b1", "o1", "c1", "b2", "b3", *(f"c{n}" for n in range(2, 11)))


POSITIONS = {
    JobKind.PREPARE: "failures",
    JobKind.ALLOCATE: None,  # was always 0
    JobKind.TRAIN: "facts_of",
    JobKind.PARTIAL: "partial",
    JobKind.PROFILE: None,
    JobKind.DRIFT: "version",
    JobKind.EVALUATE: "version",
    JobKind.EXPIRE: "until",
    JobKind.ROLLBACK: None,
    JobKind.PLACE: "position",
    JobKind.FLIP: "position",
    JobKind.NOTIFY: "position",
    JobKind.REDELIVER: "position",
}
"""What the position of a job said in catalogs of before."""


def test_a_position_is_that_of_a_cursor_alone_and_all_else_stays(url: str) -> None:
    assert {*POSITIONS} == {*JobKind} - {
        JobKind.VALIDATE,
        JobKind.SCHEDULE,
        JobKind.COMPARE,
        JobKind.AVERAGE,
    }  # which no catalog of before has
    kinds = [(kind, state) for kind in POSITIONS for state in ("ready", "opened", "idle", "ended")]
    rows = [
        {
            "id": f"old/{kind}/{state}",
            "kind": kind.value,
            "state": state,
            "position": 7 if POSITIONS[kind] else 0,
            "outcome": "failed" if state == "ended" else None,
        }
        for kind, state in kinds
    ]
    with writing(url) as connection:
        left = (
            "INSERT INTO job (id, kind, stream, state, due_at, window_index, ptk_id, n_rows, partition, position, "
            "fence, attempt, outcome) VALUES (:id, :kind, 'rides', :state, 5, 1, 'rides.long', 160, 2, :position, "
            "3, 4, :outcome)"
        )
        connection.execute(text(left), rows)
    SqlCatalogSchema(url).upgrade(backed_up=True)
    with SqlCatalog(url) as catalog, catalog.read() as uow:
        jobs = [uow.jobs.get(row["id"]) for row in rows]
    for (kind, state), job in zip(kinds, jobs, strict=True):
        facts = {name: getattr(job, name) for name in {*POSITIONS.values()} if name and getattr(job, name)}
        assert facts == ({POSITIONS[kind]: 7} if POSITIONS[kind] else {}), kind
        assert (job.kind, job.state, job.window_index, job.ptk_id) == (kind, JobState(state), 1, "rides.long")
        assert (job.n_rows, job.partition, job.fence, job.attempt) == (160, 2, 3, 4)
        assert job.outcome is (Outcome.FAILED if state == "ended" else None)
