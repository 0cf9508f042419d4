"""Read how far the work on a stream has come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from ptkstore.domain.jobs import Job
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.streams.windows import start_of
from ptkstore.ports.catalog import Read


@dataclass(frozen=True, slots=True)
class StreamWork:
    """The start of the first window that is not closed, the jobs by id, and the newest elected version of each PTK."""

    goes_on_at: datetime
    jobs: Mapping[str, Job]
    elected: Mapping[str, int]


def work_on_stream(stream: str, *, begin: Read) -> StreamWork:
    """Read all of it at one moment; `UnknownName` if there is no such stream."""
    with begin() as uow:
        policy = uow.streams.get(stream).policy
        jobs = {job.id: job for job in uow.jobs.find(stream=stream)}
        latest = [uow.versions.latest(spec.ptk_id) for spec in uow.ptks.find(stream=stream)]
        elected = {one.ptk_id: one.number for one in latest if one is not None}
        return StreamWork(start_of(policy, uow.streams.progress(stream).closed_before), jobs, elected)


def spends_on(stream: str, *, begin: Read) -> Counter[str]:
    """Read from the journal what each PTK has spent in all its windows, in billionths of epsilon."""
    spent = Counter[str]()
    with begin() as uow:
        for entry in uow.ledger.journal(stream):
            if entry.kind is EntryKind.SPEND:
                spent[entry.ptk_id] += entry.loss.epsilon_nano
    return spent
