"""Put the newest version's rows back into the online store."""

from __future__ import annotations

from collections.abc import Sequence

from ptkstore.application.versions.provenance_backfill import publish_provenance
from ptkstore.domain.jobs import JobKind, JobState, job_id
from ptkstore.domain.names import team_of
from ptkstore.domain.notices import Notice
from ptkstore.errors import UnknownName
from ptkstore.ports.catalog import Begin, Read
from ptkstore.ports.features import FeatureStore
from ptkstore.ports.runtime import Clock

ROWS_LOST = "online-rows-lost"
_AT_ONCE = 500


def materialize_ptk(ptk_id: str, *, begin: Begin, clock: Clock) -> int:
    """Have a worker write the newest placed version online again; its number. Repeatable, and it costs no budget.

    Raises
    ------
    UnknownName
        No such PTK, or it has no version in the lake yet.
    """
    with begin() as uow:
        if uow.ptks.lock(ptk_id) is None:
            raise UnknownName("PTK", ptk_id)
        placed = uow.jobs.get(job_id(JobKind.PLACE, ptk_id)).position
        if not placed:
            raise UnknownName("published version", ptk_id)
        uow.jobs.wake(job_id(JobKind.FLIP, ptk_id), clock.now())
        uow.commit()
    return placed


def _flip(ptk_id: str) -> str:
    return job_id(JobKind.FLIP, ptk_id)


def lost_online(*, read: Read, features: FeatureStore) -> frozenset[str]:
    """Return PTKs whose newest version lost its rows online."""
    return _lost(_shown(read), features)


def repair_online(*, begin: Begin, read: Read, clock: Clock, features: FeatureStore) -> tuple[str, ...]:
    """Find PTKs whose newest version lost its rows online, tell their owners and have the rows written again.

    Views that an earlier program published without telling how their values were made are completed, too.
    """
    repaired, shown = [], _shown(read)
    for ptk_id in sorted(_lost(shown, features)):
        with begin() as uow:
            # another process found it, or a newer version comes; either writes the rows
            if uow.ptks.lock(ptk_id) is None:
                continue
            flip = uow.jobs.lock(_flip(ptk_id))
            if flip.state is not JobState.IDLE or not flip.position:
                continue
            uow.jobs.wake(_flip(ptk_id), clock.now())
            uow.notify_owner(Notice(clock.now(), team_of(ptk_id), ROWS_LOST, ptk_id=ptk_id))
            uow.commit()
        repaired.append(ptk_id)
    publish_provenance(shown, read=read, features=features)
    return tuple(repaired)


def _shown(read: Read) -> list[str]:
    with read() as uow:
        return [spec.ptk_id for spec in uow.ptks.find() if uow.jobs.get(_flip(spec.ptk_id)).position]


def _lost(shown: Sequence[str], features: FeatureStore) -> frozenset[str]:
    return frozenset(
        ptk_id
        for start in range(0, len(shown), _AT_ONCE)
        for ptk_id in features.lost(shown[start : start + _AT_ONCE])
    )
