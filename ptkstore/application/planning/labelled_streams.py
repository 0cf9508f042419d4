"""Labelled streams: their test blocks pay for the verdicts on models that devices train."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ptkstore.application.ledger.local_losses import specification_of
from ptkstore.application.planning.device_ptks import check_specification
from ptkstore.application.planning.evaluation_plans import check_evaluations
from ptkstore.domain.jobs import JobKind
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import InvalidRequest
from ptkstore.ports.catalog import CatalogView, UnitOfWork


def lock_labelled_stream(uow: UnitOfWork, spec: PtkSpec) -> None:
    """Lock the stream that pays for a PTK's verdicts, if it is another than its own, which the caller has locked."""
    if spec.tested_on != spec.stream:
        uow.streams.lock(spec.tested_on)


def check_labelled_stream(
    uow: CatalogView, spec: PtkSpec, *, beside: Sequence[PtkSpec] = (), without: Collection[str] = ()
) -> None:
    """Raise unless the labelled stream of a PTK, if it names one, has its columns and can pay for its verdicts.

    Each window pays for one verdict on each PTK at most, so what fits one test block fits all.

    Parameters
    ----------
    beside : sequence of PtkSpec
        PTKs that come with it.
    without : collection of str
        Ids of PTKs that go, or that are among those of `beside`.

    Raises
    ------
    UnknownName
        There is no such stream.
    InvalidRequest
        Its rows are on devices, its test blocks are not promised at registration, or a column is missing.
    PtkRejected
        Its test blocks have no room beside other verdicts and estimates.
    """
    if spec.accept is None or spec.accept.stream is None:
        return
    labelled = uow.streams.get(spec.tested_on)
    _check_can_promise(spec, labelled)
    check_specification(spec.ptk_id, specification_of(spec.estimator), labelled)
    there = (*uow.ptks.find(stream=labelled.name), *uow.ptks.tested_on(labelled.name))
    left_out = {spec.ptk_id, *without}
    others = [one for one in there if one.ptk_id not in left_out]
    coming = [one for one in beside if one.tested_on == labelled.name and one.ptk_id != spec.ptk_id]
    check_evaluations((*others, *coming, spec), labelled.policy)


def _check_can_promise(spec: PtkSpec, labelled: Stream) -> None:
    if labelled.policy.on_devices:
        raise InvalidRequest(
            f"accept of PTK {spec.ptk_id}: the rows of stream {labelled.name!r} stay on devices; name one with "
            "labelled rows in the store"
        )
    if labelled.policy.scheduler is not Scheduler.ALLOCATE:
        raise InvalidRequest(
            f"accept of PTK {spec.ptk_id}: stream {labelled.name!r} gives budget to PTKs that wait for it, and "
            f"promises no room on its test blocks; name one with the scheduler {Scheduler.ALLOCATE}"
        )


def newest_test_window(uow: CatalogView, spec: PtkSpec) -> WindowId | None:
    """Return the newest window of a PTK's labelled stream that is kept; None without one."""
    kept = uow.windows.prepared(spec.tested_on)
    return WindowId(spec.tested_on, max(kept)) if kept else None


def was_tested_on(uow: UnitOfWork, spec: PtkSpec, window: WindowId) -> bool:
    """Return whether a state of a PTK was or is to be tested on a window: one look for each."""
    return any(one.ptk_id == spec.ptk_id for one in uow.jobs.of_window(window, JobKind.VALIDATE))
