"""Recover a catalog that is behind what was spent: retire what is in doubt, then open windows (differences.md F3b)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import Any

from ptklib.canonical_json import canonical_json
from ptkstore.application.ledger.charging import release_unopened
from ptkstore.application.ledger.retired_windows import drop_windows
from ptkstore.domain.draft_ids import draft_id
from ptkstore.domain.jobs import (
    RUNS,
    Job,
    JobKind,
    JobState,
    Outcome,
    average_of,
    job_id,
    paid_run,
    scheduler_of,
)
from ptkstore.domain.names import team_of
from ptkstore.domain.notices import Notice
from ptkstore.domain.streams.blocks import BlockState, blocks_below
from ptkstore.domain.streams.policies import PrivacyUnit
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.provenance import is_local
from ptkstore.domain.versions.versions import Version, repeated_version, trained_on
from ptkstore.errors import UnknownName
from ptkstore.ports.catalog import Begin, CatalogView, UnitOfWork
from ptkstore.ports.keys import JournalView, KeyStore
from ptkstore.ports.objects import Lake
from ptkstore.ports.runtime import Clock

OTHER_POLICY = "policy-differs"


@dataclass(frozen=True, slots=True)
class Recovered:
    """The outcome for one stream; all of it is public."""

    stream: str
    in_step: bool
    windows_in_doubt: int = 0
    blocks_retired: int = 0
    runs_ended: int = 0
    versions_adopted: int = 0
    ptks_to_register: tuple[str, ...] = ()
    stopped: bool = False
    """Whether it was left as it is: its journal has another policy than the key store, which opens nothing for it."""


def recover_ledger(
    *, begin: Begin, clock: Clock, keys: KeyStore, journal: JournalView, lake: Lake
) -> tuple[Recovered, ...]:
    """Make a restored catalog usable again, at the price of every block whose spends it may have forgotten.

    The key store remembers up to which window anything was ever opened, and for which journal. If this catalog does
    not continue that journal, all blocks up to that window are retired, and their runs end without an output. These
    blocks include those of windows that the catalog has yet to close. Versions that are in the lake but not in the
    catalog are taken over, so that numbers are not given twice. That includes versions of PTKs that this catalog does
    not know, which may then be registered under their old names and continue. The catalog then gets a new identity: no
    copy from before opens anything any more, and no process that still has one does any job.

    Streams are in step or not as a whole catalog: one of them behind means that the catalog was restored, and each is
    looked at. Streams whose rows stay on devices spend nothing, so the key store knows nothing of them: later versions
    in the lake are taken over in any case. If a stream's journal has another policy than the key store, the stream
    does not change, and its owner gets a notice; the others are recovered. Once its policy is put back, recover again.
    Repeatable, also after a crash; a catalog in step does not change.

    Raises
    ------
    Refused
        A job is being worked on; workers are stopped first.
    CatalogBehind
        A window was opened meanwhile, by whoever uses another copy of the catalog: stop it and recover again.
    """
    with keys.recovering():
        with begin() as uow:
            all_streams = uow.streams.all()
        stopped = [stream for stream in all_streams if _has_another_policy(stream, keys, journal)]
        streams = [stream for stream in all_streams if stream not in stopped]
        recovered = _recover_all(streams, begin, clock, keys, journal, lake)
        if stopped:
            with begin() as uow:
                for stream in stopped:
                    uow.notify_owner(Notice(clock.now(), stream.team, OTHER_POLICY, stream.name))
                uow.commit()
        keys.accept_ledger(journal.ledger_id)
    recovered += [Recovered(stream.name, in_step=False, stopped=True) for stream in stopped]
    return tuple(sorted(recovered, key=lambda one: one.stream))


def _recover_all(
    streams: Sequence[Stream], begin: Begin, clock: Clock, keys: KeyStore, journal: JournalView, lake: Lake
) -> list[Recovered]:
    doubts = {stream.name: keys.in_doubt(stream.name, journal) for stream in streams}
    is_behind = any(doubts.values())
    adopting = [stream.name for stream in streams if is_behind or stream.policy.on_devices]
    recovered = []
    with begin() as uow:
        for stream in streams:
            uow.streams.lock(stream.name)
            doubt = doubts[stream.name]
            recovered.append(_retire(uow, stream, doubt, clock))
        adopted = _adopt(uow, adopting, lake, clock) if adopting else []
        if is_behind or adopted:
            uow.renew_ledger_id()
            uow.commit()
    for name, doubt in doubts.items():
        # Where nothing is behind, a doubt of 0 is of a recovery that ended before the key store knew of it.
        if is_behind or adopted or doubt is not None:
            keys.accept(name, journal, doubt or None)
    return [_told(one, [a for a in adopted if a.stream == one.stream]) for one in recovered]


def _told(one: Recovered, adopted: Sequence[_Adopted]) -> Recovered:
    return replace(
        one,
        in_step=one.in_step and not adopted,
        versions_adopted=sum(a.versions for a in adopted),
        ptks_to_register=tuple(a.ptk_id for a in adopted if not a.is_kept),
    )


def _has_another_policy(stream: Stream, keys: KeyStore, journal: JournalView) -> bool:
    """Whether the key store keeps a policy that is not the journal's; a catalog of before may have none there."""
    kept = keys.policy(stream.name)
    return kept is not None and journal.policy(stream.name) != kept


def _retire(uow: UnitOfWork, stream: Stream, doubt: int | None, clock: Clock) -> Recovered:
    if not doubt:
        return Recovered(stream.name, in_step=True)
    progress = uow.streams.progress(stream.name)
    uow.streams.advance(stream.name, replace(progress, retired_before=max(progress.retired_before, doubt)))
    live = [
        job
        for job in uow.jobs.find(stream=stream.name)
        if job.kind in RUNS
        and job.state is not JobState.ENDED
        and (job.oldest.index < doubt or stream.policy.privacy_unit is PrivacyUnit.USER)
    ]
    ended = [job for job in live if job.kind is not JobKind.PARTIAL]
    for job in ended:
        held = uow.jobs.lock(job.id)
        release_unopened(uow, held.reservation)
        opened = held.state is JobState.OPENED
        uow.jobs.save(held.ended(Outcome.FAILED if opened else Outcome.WITHDRAWN))
        uow.notify_owner(replace(Notice.of_run(job, "recovered", clock.now()), run=None))
    for job in live:
        if job.kind is JobKind.PARTIAL:
            uow.jobs.save(uow.jobs.lock(job.id).ended(Outcome.WITHDRAWN))
    retired = []
    if (blocks := blocks_below(doubt, stream.policy)) is not None:
        records, _ = uow.ledger.created(stream.name)
        active = (record.number for record in records if record.state is BlockState.ACTIVE)
        retired = [number for number in active if number in blocks.numbers()]
        uow.ledger.retire(stream.name, retired)
    drop_windows(uow, stream.name, stream.policy, clock.now())
    uow.jobs.wake(scheduler_of(stream.name), clock.now())
    uow.notify_owner(Notice(clock.now(), stream.team, "ledger-recovered", stream.name))
    return Recovered(stream.name, False, doubt, len(retired), len(ended))


@dataclass(frozen=True, slots=True)
class _Adopted:
    ptk_id: str
    stream: str
    versions: int
    is_kept: bool


def _adopt(uow: UnitOfWork, streams: Sequence[str], lake: Lake, clock: Clock) -> list[_Adopted]:
    """Take over the versions that are in the lake but not in the catalog, for these streams."""
    adopted = []
    for ptk_id in lake.ptk_ids():
        latest = uow.versions.latest(ptk_id)
        number = first = latest.number + 1 if latest else 1
        registered_on = _registered_stream(uow, ptk_id)
        stream = registered_on
        while (manifest := _manifest(lake, ptk_id, number)) is not None:
            stream = registered_on or trained_on(manifest)
            if stream not in streams:  # of another catalog, or of a stream that is yet to be created again
                break
            _take_over(uow, stream, ptk_id, number, manifest, clock)
            number += 1
        if stream is None or number == first:
            continue
        adopted.append(_Adopted(ptk_id, stream, number - first, registered_on is not None))
        if registered_on is None:
            uow.notify_owner(Notice(clock.now(), team_of(ptk_id), "register-again", ptk_id=ptk_id))
        else:
            uow.jobs.wake(job_id(JobKind.PLACE, ptk_id), clock.now())
    return adopted


def _registered_stream(uow: CatalogView, ptk_id: str) -> str | None:
    try:
        return uow.ptks.stream_of(ptk_id)
    except UnknownName:
        return None


def _manifest(lake: Lake, ptk_id: str, number: int) -> dict[str, Any] | None:
    try:
        return lake.read_version(ptk_id, number)[0]
    except UnknownName:
        return None


def _take_over(
    uow: UnitOfWork, stream: str, ptk_id: str, number: int, manifest: dict[str, Any], clock: Clock
) -> None:
    window = int(manifest["newest_contributing_window"]["index"])
    now = clock.now()
    if repeated_version(manifest) is not None:
        made_by = Job.rollback(stream, ptk_id, number, now)
    elif is_local(manifest):
        made_by = average_of(ptk_id, WindowId(stream, window), now).ended(Outcome.PUBLISHED)
    else:
        training = _first_without_version(uow, ptk_id, WindowId(stream, window), now)
        made_by = replace(training, reservation=None).ended(Outcome.PUBLISHED)
    uow.jobs.add(made_by)
    uow.jobs.save(uow.jobs.lock(made_by.id).ended(Outcome.PUBLISHED))
    draft = draft_id(WindowId(stream, window), f"recovered-{ptk_id}-{number}")
    uow.versions.add(Version(ptk_id, number, made_by.id, draft, window, now, canonical_json(manifest)))


def _first_without_version(uow: UnitOfWork, ptk_id: str, window: WindowId, now: datetime) -> Job:
    """Return a training on a window that made no version by now: a manifest does not say which look it came from."""
    trainings = (paid_run(JobKind.TRAIN, ptk_id, window, now, look=look) for look in count(1))
    return next(one for one in trainings if not uow.versions.of_jobs([one.id]))
