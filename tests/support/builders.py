"""Streams, requests and jobs as the contract suites use them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.application.ledger import charging
from ptkstore.domain.accounting.accountants import Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.jobs import Job, JobKind, JobState
from ptkstore.domain.ledger.journal import BudgetRequest, EntryKind
from ptkstore.domain.ledger.rules import Denied, Granted
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.blocks import BlockRange, BlockSet
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.versions.versions import Version

NOW = datetime(2026, 1, 10, tzinfo=UTC)
ORIGIN = datetime(2026, 1, 5, tzinfo=UTC)
LEASE = timedelta(seconds=60)
STREAM = "taxi"
PTK = "taxi.speed"


def stream_named(name: str = STREAM) -> Stream:
    schema = Schema((("at", ColumnType.TIMESTAMP), ("hour", ColumnType.INT64)), "at")
    return Stream(name, "taxi", schema, Policy(Loss.capacity(1), timedelta(days=1), ORIGIN))


def ptk_spec(ptk_id: str = PTK) -> PtkSpec:
    team, _, name = ptk_id.partition(".")
    estimator = {"family": "HistoricalStatistics", "params": {"epsilon": 0.1}}
    return PtkSpec(ptk_id, team, name, STREAM, estimator, Loss.charge(0.1), {}, {}, 0.1, 1)


def block_set(numbers: Iterable[int]) -> BlockSet:
    return BlockSet.of(*(BlockRange(number, number + 1) for number in numbers))


def request(
    key: str, epsilon: object = 0.1, blocks: tuple[int, int] = (2, 4), stream: str = STREAM
) -> BudgetRequest:
    loss = Loss.charge(epsilon)
    return BudgetRequest(stream, key, PTK, BlockSet(blocks), loss, Charge.basic(loss))


def reserve(catalog: SqlCatalog, wish: BudgetRequest) -> Granted | Denied:
    """Reserve under the stream's lock."""
    with catalog.begin() as uow:
        uow.streams.lock(wish.stream)
        decision = charging.reserve(uow, wish, {"mechanism": "laplace"})
        uow.commit()
        return decision


def end(catalog: SqlCatalog, wish: BudgetRequest, kind: EntryKind) -> None:
    with catalog.begin() as uow:
        uow.streams.lock(wish.stream)
        uow.ledger.append(wish, kind, {})
        uow.commit()


def with_blocks(catalog: SqlCatalog, blocks: tuple[int, int] = (2, 4), epsilon: object = 1) -> SqlCatalog:
    """A catalog with the stream and blocks of a small capacity."""
    with catalog.begin() as uow:
        uow.streams.add(stream_named())
        uow.ledger.add_blocks(STREAM, BlockRange(*blocks), Loss.capacity(epsilon))
        uow.commit()
    return catalog


def committed(catalog: SqlCatalog) -> dict[int, int]:
    """Nano-epsilon promised or spent, per block."""
    with catalog.begin() as uow:
        return {block.number: block.committed.epsilon_nano for block in uow.ledger.blocks(STREAM)}


def job(
    job_id: str,
    kind: JobKind = JobKind.PREPARE,
    *,
    window: int | None = 0,
    ptk_id: str | None = None,
    state: JobState = JobState.READY,
    due_at: datetime = NOW,
    stream: str = STREAM,
    position: int = 0,
) -> Job:
    return Job(job_id, kind, stream, state, due_at, window_index=window, ptk_id=ptk_id, position=position)


def add(catalog: SqlCatalog, *jobs: Job) -> None:
    with catalog.begin() as uow:
        for one in jobs:
            uow.jobs.add(one)
        uow.commit()


def claim(catalog: SqlCatalog, job_id: str, now: datetime = NOW, lease: timedelta = LEASE) -> Job | None:
    with catalog.begin() as uow:
        taken = uow.jobs.claim(job_id, now, lease)
        uow.commit()
    return taken


def version(number: int, job_id: str = "train/a", draft_id: str | None = None) -> Version:
    return Version(PTK, number, job_id, draft_id or f"draft-{number}", 0, NOW, "{}")
