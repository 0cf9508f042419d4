"""Partial statistics of a training: their list, their places, and their end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from ptkstore.application.versions.drafts import destroy_drafts
from ptkstore.domain.draft_ids import draft_id, window_of
from ptkstore.domain.jobs import Job, JobKind, JobState
from ptkstore.ports.catalog import CatalogView, Read, UnitOfWork
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import Staging
from ptkstore.ports.row_processes import StagedPartial

PARTIALS_MAX = 256  # of one training


def n_partials(n_rows: int, rows_per_partial: int) -> int:
    """Into how many partials a training of so many planned rows is split: public, whatever rows there are."""
    return min(PARTIALS_MAX, -(-n_rows // rows_per_partial))


def add_partials(uow: UnitOfWork, training: Job, n: int) -> None:
    """Queue the partials of a training whose loss is spent."""
    for number in range(n):
        uow.jobs.add(
            Job(
                f"{training.beside(JobKind.PARTIAL)}/{number}",
                JobKind.PARTIAL,
                training.stream,
                JobState.READY,
                training.due_at,
                window_index=training.window_index,
                oldest_window=training.oldest_window,
                ptk_id=training.ptk_id,
                reservation=training.reservation,
                n_rows=training.n_rows,
                partition=training.partition,
                partial=number,
                look=training.look,
            )
        )


def locked_partials_of(uow: UnitOfWork, training: Job) -> tuple[Job, ...]:
    """Return the partials that a training was split into, in order; nobody else writes them meanwhile."""
    return _of(training, uow.jobs.of_window(training.window, JobKind.PARTIAL))


def ended_partials_of(uow: CatalogView, training: Job) -> tuple[Job, ...]:
    """Return the partials of a training that was claimed again, and so waits for none; none if it opens rows itself."""
    return _of(training, uow.jobs.find(ptk_id=training.ptk_id)) if training.state is JobState.OPENED else ()


def needless_partials_of(uow: CatalogView, training: Job) -> tuple[Job, ...]:
    """Return the partials of a training that has ended, but those at which somebody still works."""
    return _of(training, uow.jobs.needless_partials(training.window))


def _of(training: Job, jobs: Iterable[Job]) -> tuple[Job, ...]:
    own = (j for j in jobs if j.kind is JobKind.PARTIAL and j.reservation == training.reservation)
    return tuple(sorted(own, key=lambda job: job.partial))


def draft_id_of(partial: Job, fence: int | None = None) -> str:
    """Name where a claim of a partial writes, by default the last one.

    Each claim has a place of its own, and the claim that ended the job names the place that counts. So no late writer
    gets in between, and the catalog needs to remember nothing.
    """
    return f"{_place_of(partial)}-{partial.fence if fence is None else fence}"


def _place_of(partial: Job) -> str:
    """Return what the drafts of all claims of a partial begin with."""
    return draft_id(partial.window, hashlib.sha256(partial.id.encode()).hexdigest()[:32])


def staged(partials: Sequence[Job], keys: KeyStore) -> tuple[StagedPartial, ...]:
    """Return the partials with the keys that open them."""
    return tuple(StagedPartial(name, keys.draft_key(name)) for name in (draft_id_of(one) for one in partials))


def discard(partials: Sequence[Job], keys: KeyStore, staging: Staging) -> None:
    """Destroy what claims of these partials left in staging up to the last one, and the keys; repeatable."""
    claims = ((partial, fence) for partial in partials for fence in range(1, partial.fence + 1))
    destroy_drafts([draft_id_of(partial, fence) for partial, fence in claims], keys, staging)


def destroy_needless_partials(*, read: Read, keys: KeyStore, staging: Staging) -> int:
    """Destroy what killed workers left of partials whose training has ended; return how many drafts there were.

    Repeatable. Of a training that has not ended it takes none, and none at which somebody still works. It looks for
    drafts with a key first, since staging may not be listed now, and for files without one then.
    """
    n = 0
    for drafts in (keys.draft_ids, staging.drafts):
        needless = _needless(drafts(), read)
        destroy_drafts(needless, keys, staging)
        n += len(needless)
    return n


def _needless(drafts: Iterable[str], read: Read) -> list[str]:
    claims = {one: one.rpartition("-")[0] for one in drafts if "-" in one}
    windows = {window for one in claims if (window := window_of(one)) is not None}
    if not windows:
        return []
    with read() as uow:
        places = {_place_of(one) for window in windows for one in uow.jobs.needless_partials(window)}
    return [one for one, place in claims.items() if place in places]
