"""Recover a catalog that is behind what was spent: retire what is in doubt, then open windows again (PAPERS F3b)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ptkstore.application.charging import release_unopened
from ptkstore.domain.blocks import BlockState, blocks_below
from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome, job_id
from ptkstore.domain.names import team_of
from ptkstore.domain.snapshots import Version, canonical_json
from ptkstore.domain.streams import PrivacyUnit, Stream
from ptkstore.errors import UnknownName
from ptkstore.ports.catalog import Begin, Notice, UnitOfWork
from ptkstore.ports.keys import JournalView, KeyStore
from ptkstore.ports.objects import Lake
from ptkstore.ports.world import Clock


@dataclass(frozen=True, slots=True)
class Recovered:
    """What became of one stream; all of it is public."""

    stream: str
    in_step: bool
    windows_in_doubt: int
    blocks_retired: int
    runs_ended: int
    versions_adopted: int


def recover_ledger(
    *, begin: Begin, clock: Clock, keys: KeyStore, journal: JournalView, lake: Lake
) -> tuple[Recovered, ...]:
    """Make a restored catalog usable again, at the price of every block whose spends it may have forgotten.

    The key store remembers up to which window anything was ever opened, and for which journal. Where this catalog does
    not continue that journal, all blocks up to that window are retired, those of windows it has yet to close included,
    and their runs end without an output. Versions that the lake holds beyond the catalog's are taken over, so that
    numbers are not given twice. The catalog then gets a new identity: no copy from before opens anything any more.

    Streams are in step or not as a whole catalog: one of them behind means that the catalog was restored, and each is
    looked at. Repeatable, also after a crash; a catalog in step is left as it is. No worker should run meanwhile.

    Raises
    ------
    CatalogBehind
        A window was opened meanwhile, by whoever uses another copy of the catalog: stop it and recover again.
    """
    with begin() as uow:
        streams = uow.streams.all()
    doubts = {stream.name: keys.in_doubt(stream.name, journal) for stream in streams}
    if all(doubt is None for doubt in doubts.values()):
        return tuple(Recovered(stream.name, True, 0, 0, 0, 0) for stream in streams)
    if not any(doubts.values()):  # a recovery ended before the key store knew of it
        for name, doubt in doubts.items():
            if doubt is not None:
                keys.accept(name, journal, None)
        return tuple(Recovered(stream.name, True, 0, 0, 0, 0) for stream in streams)
    found = []
    with begin() as uow:
        for stream in streams:
            uow.streams.lock(stream.name)
            doubt = doubts[stream.name]
            found.append(_retire(uow, stream, doubt, clock))
        adopted = {stream.name: _adopt(uow, stream.name, lake, clock) for stream in streams}
        uow.renew_ledger_id()
        uow.commit()
    for stream in streams:
        keys.accept(stream.name, journal, doubts[stream.name] or None)
    return tuple(replace(one, versions_adopted=adopted[one.stream]) for one in found)


def _retire(uow: UnitOfWork, stream: Stream, doubt: int | None, clock: Clock) -> Recovered:
    if not doubt:
        return Recovered(stream.name, True, 0, 0, 0, 0)
    progress = uow.streams.progress(stream.name)
    uow.streams.advance(stream.name, replace(progress, retired_before=max(progress.retired_before, doubt)))
    ended = [
        job
        for job in uow.jobs.find(stream=stream.name)
        if job.kind is JobKind.TRAIN
        and job.state is not JobState.ENDED
        and (job.window.index < doubt or stream.policy.privacy_unit is PrivacyUnit.USER)
    ]
    for job in ended:
        held = uow.jobs.lock(job.id)
        release_unopened(uow, held.reservation)
        opened = held.state is JobState.OPENED
        uow.jobs.save(held.ended(Outcome.FAILED if opened else Outcome.WITHDRAWN))
        uow.notify_owner(
            Notice(
                clock.now(), team_of(str(job.ptk_id)), f"{job.ptk_id} window {job.window_index}", "recovered"
            )
        )
    retired = []
    if (blocks := blocks_below(doubt, stream.policy)) is not None:
        records, _ = uow.ledger.created(stream.name)
        active = (record.number for record in records if record.state is BlockState.ACTIVE)
        retired = [number for number in active if number in blocks.numbers()]
        uow.ledger.retire(stream.name, retired)
    uow.notify_owner(Notice(clock.now(), stream.team, stream.name, "ledger-recovered"))
    return Recovered(stream.name, False, doubt, len(retired), len(ended), 0)


def _adopt(uow: UnitOfWork, stream: str, lake: Lake, clock: Clock) -> int:
    """Take over the versions that the lake holds beyond the catalog's."""
    adopted = 0
    for spec in uow.ptks.find(stream=stream):
        latest = uow.versions.latest(spec.ptk_id)
        number = latest.number + 1 if latest else 1
        while (manifest := _manifest(lake, spec.ptk_id, number)) is not None:
            _take_over(uow, stream, spec.ptk_id, number, manifest, clock)
            number, adopted = number + 1, adopted + 1
        if adopted:
            uow.jobs.wake(job_id(JobKind.PLACE, spec.ptk_id), clock.now())
    return adopted


def _manifest(lake: Lake, ptk_id: str, number: int) -> dict[str, object] | None:
    try:
        return lake.read_version(ptk_id, number)[0]
    except UnknownName:
        return None


def _take_over(
    uow: UnitOfWork, stream: str, ptk_id: str, number: int, manifest: dict[str, object], clock: Clock
) -> None:
    newest = manifest["newest_contributing_window"]
    window = int(newest["index"]) if isinstance(newest, dict) else 0
    training = job_id(JobKind.TRAIN, ptk_id, window)
    now = clock.now()
    uow.jobs.add(
        Job(
            training,
            JobKind.TRAIN,
            stream,
            JobState.ENDED,
            now,
            window_index=window,
            ptk_id=ptk_id,
            outcome=Outcome.PUBLISHED,
        )
    )
    uow.jobs.save(uow.jobs.lock(training).ended(Outcome.PUBLISHED))
    draft = f"{stream}.{window}.recovered-{ptk_id}-{number}"
    uow.versions.add(Version(ptk_id, number, training, draft, window, now, canonical_json(manifest)))
