"""Show the next placed state in the online feature store."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq

from ptkstore.application.versions.computed_columns import computed_columns
from ptkstore.application.versions.elected_files import files_of
from ptkstore.application.versions.provenance_backfill import publish_provenance
from ptkstore.domain.jobs import Job, JobKind, JobState, job_id
from ptkstore.domain.names import team_of
from ptkstore.domain.ptks.ptks import servings_of
from ptkstore.domain.ptks.serving import Serving
from ptkstore.domain.versions.provenance import provenance_in
from ptkstore.domain.versions.versions import Version, event_time_of, table_of, window_end_of
from ptkstore.errors import CorruptObject, InvalidRequest, UnknownName
from ptkstore.ports.catalog import Begin, Read
from ptkstore.ports.features import FeatureStore, PublishedState
from ptkstore.ports.objects import Lake
from ptkstore.ports.runtime import Clock, Steps

_AT_ONCE = 50


def materialize_state(
    job: Job, *, begin: Begin, read: Read, clock: Clock, lake: Lake, features: FeatureStore, steps: Steps
) -> None:
    """Stage the PTK's next placed version out of sight, flip to it, then let its subscribers be told.

    A deregistered PTK shows nothing any more: its views are taken away here, by a job, so that no crash leaves them.
    Its subscribers still hear of what the lake got. If no version is new, the shown one is written again: its rows may
    have been lost (`materialize_ptk`), or its PTK was registered again.
    """
    ptk_id = str(job.ptk_id)
    with begin() as uow:
        spec = uow.ptks.lock(ptk_id)
        placed = uow.jobs.get(job_id(JobKind.PLACE, ptk_id)).position
        number = min(job.position + 1, placed)
        version = uow.versions.get(ptk_id, number) if number else None
    if spec is None:
        features.withdraw(ptk_id)
    elif version is not None:
        state = replace(published_state(version, lake, spec.config), tags=spec.tags)
        features.stage(state, earlier=_earlier(version, spec.config, begin, lake))
        steps.reached("staged-online", job.id)
        features.flip(state)
        steps.reached("flipped", job.id)
        publish_provenance([ptk_id], read=read, features=features)
    position = max(job.position, number)
    with begin() as uow:
        # deregistered meanwhile: withdraw in another round; registered again meanwhile: show it again
        changed = (spec is None) != (uow.ptks.lock(ptk_id) is None)
        held = uow.jobs.held(job)
        behind = uow.jobs.get(job_id(JobKind.PLACE, ptk_id)).position > position
        state_after = JobState.READY if behind or changed else JobState.IDLE
        uow.jobs.save(replace(held, position=position, state=state_after, attempt=0))
        if position > job.position:  # else there is nothing to tell, and an attempt at it would fail
            uow.deliveries.wake(ptk_id, clock.now())
        uow.commit()
    steps.reached("flip-committed", job.id)


def _earlier(
    version: Version, config: Mapping[str, Any], begin: Begin, lake: Lake
) -> Iterator[PublishedState]:
    """The versions before this one, oldest first; one that cannot be read is skipped."""
    after = 0
    while True:
        with begin() as uow:
            some = uow.versions.of(version.ptk_id, after=after, until=version.number - 1, limit=_AT_ONCE)
        if not some:
            return
        after = some[-1].number
        for one in some:
            with suppress(CorruptObject, UnknownName):
                yield published_state(one, lake, config)


def published_state(version: Version, lake: Lake, config: Mapping[str, Any]) -> PublishedState:
    """Return a version as the feature store shows it, read back from the lake and verified.

    How its answers are filled is what the PTK's config says now; nothing, where this version has other columns.
    """
    files = files_of(version, lake)
    content = version.content
    tables = {table_of(name): pq.read_table(io.BytesIO(data)) for name, data in files.items()}
    return PublishedState(
        ptk_id=version.ptk_id,
        version=version.number,
        tables=tables,
        keys={name: tuple(content["schema"][name]["keys"]) for name in tables},
        as_of=event_time_of(content),
        window_end=window_end_of(content),
        published_at=version.elected_at,
        made=provenance_in(content, version.ptk_id),
        manifest_url=lake.manifest_url(version.ptk_id, version.number),
        sha256=version.sha256,
        owner=team_of(version.ptk_id),
        description=content["family"],
        serving=_serving(content, config),
        computed=computed_columns(content["state"], tables, config),
    )


def _serving(content: Mapping[str, Any], config: Mapping[str, Any]) -> Mapping[str, Serving]:
    with suppress(InvalidRequest):  # a version of before the PTK was changed
        return servings_of(content["schema"], config)
    return {}
