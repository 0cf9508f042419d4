"""Claims of two workers at once on PostgreSQL, whose statements see the row they lock anew, but no other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import create_engine, text

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.adapters.sql.jobs import jobs
from ptkstore.application.training.partials import add_partials
from ptkstore.domain.jobs import Job, JobKind, JobState
from tests.support.builders import NOW, PTK, STREAM
from tests.support.waiting import until

pytestmark = pytest.mark.real

LEASE = timedelta(minutes=5)
GATE = 271_828
TRAINING = Job(
    f"train/{PTK}/0",
    JobKind.TRAIN,
    STREAM,
    JobState.READY,
    NOW,
    window_index=0,
    ptk_id=PTK,
    reservation=f"train/{PTK}/0",
    n_rows=160,
)


def test_a_claim_that_began_before_a_training_was_split_finds_its_partials(
    fresh_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = create_engine(fresh_postgres_url)
    with SqlCatalog(fresh_postgres_url) as catalog, engine.connect() as gate, ThreadPoolExecutor(1) as pool:
        with catalog.begin() as uow:
            uow.jobs.add(TRAINING)
            uow.commit()
        gate.execute(text(f"SELECT pg_advisory_lock({GATE})"))

        def claim() -> Job | None:
            with catalog.begin() as uow:
                return uow.jobs.claim(TRAINING.id, NOW, LEASE)

        held_up = jobs._CLAIM_LOCKED.where(text(f"(SELECT pg_advisory_lock_shared({GATE})) IS NOT NULL"))
        monkeypatch.setattr(jobs, "_CLAIM_LOCKED", held_up)
        late = pool.submit(claim)
        waiting = text(
            f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {GATE} AND NOT granted"
        )
        try:
            until(lambda: gate.execute(waiting).scalar_one() == 1, "the late claim to have its snapshot")
            monkeypatch.undo()
            with catalog.begin() as uow:
                first = uow.jobs.claim(TRAINING.id, NOW, LEASE)
                uow.commit()
            assert first is not None
            with catalog.begin() as uow:
                held = uow.jobs.held(first)
                add_partials(uow, held, 2)
                uow.jobs.save(replace(held, state=JobState.OPENED))
                uow.commit()
        finally:
            gate.execute(text("SELECT pg_advisory_unlock_all()"))
        assert late.result(60) is None
        with catalog.begin() as uow:
            assert uow.jobs.get(TRAINING.id).fence == first.fence
    engine.dispose()
